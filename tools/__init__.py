"""Tools for developing Toposcope, which are not in the wheel.

Among them are benchmarks, chaos, fuzzing and generated documentation.
"""
