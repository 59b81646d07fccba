"""Reads tables that others measured into points that profiles are fitted to."""
