import os
from contextlib import closing

import pytest

from toposcope.agent.nvml.channel import Channel


@pytest.mark.parametrize("size", [0, 1 << 30])
def test_a_worker_cannot_change_the_size_of_the_memory_under_the_agent(size: int) -> None:
    agent, worker = Channel.pair()
    with closing(agent), closing(worker):
        worker.store(b"answer")
        with pytest.raises(PermissionError):
            os.ftruncate(worker.descriptors[1], size)
        assert agent.load() == b"answer"
