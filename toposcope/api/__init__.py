"""The ClusterTopology API: its spec and conditions, and the label keys that Toposcope owns."""
