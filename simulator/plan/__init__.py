"""Plan: the fewest replicas, or the highest rate, that keeps service-level objectives."""
