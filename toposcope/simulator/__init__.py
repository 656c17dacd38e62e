"""Machines without the machines: hardware profiles, a simulated NVML, sysfs trees, an API server.

The demo, the tests and the benchmarks use them. Nothing here runs in production.
"""
