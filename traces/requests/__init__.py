"""Requests of public traces and length tables: read in blocks, checked row by row, never whole."""
