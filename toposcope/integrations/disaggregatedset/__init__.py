"""DisaggregatedSet."""
