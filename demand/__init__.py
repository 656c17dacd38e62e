"""What a workload asks for: one tree of groups for every system, and which nodes its pods may use. Pure."""
