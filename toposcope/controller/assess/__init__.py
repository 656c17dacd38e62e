"""From nodes and a ClusterTopology to findings: pure."""
