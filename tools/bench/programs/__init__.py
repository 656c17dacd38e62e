"""Programs that the benchmarks start: each is one process, and loads only what its name says.

Whatever a program imports is part of what is measured, so nothing here imports another part of `bench` that it does
not need. The environment is that of a pod; `BENCH_ACCOUNT` names the folder that stands for its service account.
"""

import sys


def done(word: object = "ready") -> int:
    """Say that what is to be measured is over, and stay as it is until the benchmark has looked."""
    print(word, flush=True)
    sys.stdin.read()
    return 0
