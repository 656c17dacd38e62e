"""Where a workload would fit: capacity of domains, a search that never reports a fit that is none."""
