import os

from tools.bench.usage import cpu_seconds, memory, peak_memory, tree


def test_own_process_is_seen_from_outside() -> None:
    before = cpu_seconds(os.getpid())
    processes = tree(os.getpid())[:1]
    held = memory(processes)
    assert 0 < held.anonymous < held.total
    assert peak_memory(os.getpid()) >= held.anonymous
    assert cpu_seconds(os.getpid()) > before > 0
