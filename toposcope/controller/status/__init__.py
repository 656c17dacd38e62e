"""What a ClusterTopology's status says, and how large it may be."""
