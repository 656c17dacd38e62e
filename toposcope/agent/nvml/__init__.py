"""NVML in a process of its own: the gateway to the library, the worker that holds it, and its supervisor."""
