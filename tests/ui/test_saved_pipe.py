"""A pipe that the page shows is read once: it is never looked at again."""

import os

from tests.support.saved import demo_nodes, saved
from tests.ui.serving import ManualRuntime, Unfollowed
from toposcope.ui.facts import Facts
from toposcope.ui.saved import EXPECTED, SavedSource


def test_pipe_stays_as_it_was_read() -> None:
    node = demo_nodes(most=1)
    reading, writing = os.pipe()
    os.write(writing, saved(node).encode())
    os.close(writing)
    name = f"/dev/fd/{reading}"
    facts = Facts(name, EXPECTED, lambda: None, ManualRuntime())
    source = SavedSource([name], facts, Unfollowed())
    source.start()
    os.utime(reading, (1, 1))
    source.look_again()
    assert facts.node(node[0]["metadata"]["name"])
    os.close(reading)
