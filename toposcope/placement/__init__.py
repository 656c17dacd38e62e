"""Where a workload would fit: capacity of domains, a search that never claims a fit that is none, and the words."""
