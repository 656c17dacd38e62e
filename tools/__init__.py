"""What develops Toposcope and ships nowhere.

Benchmarks, chaos, fuzzing, generated documentation.
"""
