"""Sweep: many points of a space of scenarios, each a row of one table that outlives any crash."""
