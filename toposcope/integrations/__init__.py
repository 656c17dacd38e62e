"""What Toposcope knows of other systems: one folder a system, and a framework that they share."""
