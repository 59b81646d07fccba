"""Loads that do not wait for the system: what the open kinds in `simulator/workloads` share."""
