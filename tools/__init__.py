"""Tools that develop Toposcope and ship nowhere.

They are benchmarks, chaos, fuzzing, generated documentation and the like.
"""
