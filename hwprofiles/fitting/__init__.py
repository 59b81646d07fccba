"""Fits cost curves to measured points, whoever measured them, and writes profiles."""
