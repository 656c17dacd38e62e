"""What develops Toposcope and ships nowhere: benchmarks, chaos, fuzzing, generated documentation."""
