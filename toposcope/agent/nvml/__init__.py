"""NVML in a process of its own.

The gateway to the library, the worker that holds it, and its supervisor.
"""
