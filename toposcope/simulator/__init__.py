"""Machines without the machines.

Hardware profiles, a simulated NVML, sysfs trees and an embedded API server.

For the demo, the tests and the benchmarks. Nothing here runs in production.
"""
