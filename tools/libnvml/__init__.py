"""A `libnvidia-ml.so.1` in C that answers from the table of any simulated or recorded machine."""
