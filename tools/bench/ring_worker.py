"""One process of the all-reduce that `rings` measures. It needs torch, and nothing of this project.

Its one argument is JSON: `number` of this process, `address` and `port` of process 0, `orders`
(numbers in the order of their ranks, by name), `repetitions` and `mebibytes`. Process 0 prints the
milliseconds of each repetition, by order. Orders take turns, so that all have the same moments of a
busy machine.
"""

import json
import sys
import time
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

FLOATS_PER_MEBIBYTE = 1 << 18
PATIENCE = timedelta(seconds=120)


def main() -> None:
    """Take part in all repetitions."""
    plan: dict[str, Any] = json.loads(sys.argv[1])
    number = plan["number"]
    orders = plan["orders"]
    size = len(orders[next(iter(orders))])
    store = distributed.TCPStore(plan["address"], plan["port"], size, number == 0, PATIENCE)
    groups = {}
    for name, order in orders.items():
        prefixed = distributed.PrefixStore(name, store)
        rank = order.index(number)
        groups[name] = distributed.ProcessGroupGloo(prefixed, rank, size, PATIENCE)

    values = torch.ones(plan["mebibytes"] * FLOATS_PER_MEBIBYTE)
    measured: dict[str, list[float]] = {name: [] for name in orders}
    for repetition in range(plan["repetitions"] + 1):
        for name, group in groups.items():
            group.barrier().wait()
            began = time.monotonic()
            group.allreduce([values]).wait()
            taken = time.monotonic() - began
            is_warm = repetition > 0
            if is_warm:
                measured[name].append(1_000 * taken)
    if number == 0:
        print(json.dumps(measured), flush=True)
    groups[next(iter(groups))].barrier().wait()


if __name__ == "__main__":
    main()
