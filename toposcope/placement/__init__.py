"""Where a workload would fit: room in domains, and a search whose fits are all real."""
