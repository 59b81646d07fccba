"""Execution: where independent runs happen: here, in processes of this machine, on a cluster."""
