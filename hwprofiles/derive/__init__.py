"""Fits the shipped hardware profiles to a folder of measured kernel times."""
