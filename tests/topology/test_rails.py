"""Rails as nodes write them down, and as anybody else might."""

import pytest

from toposcope.topology.rails import MOST_RAILS, Rail, parse_rails


def test_rails_keep_their_order_and_their_gaps() -> None:
    text = '[{"nic":"mlx5_0","switch":"leaf1","id":"mac:00:11","port":"Ethernet1/3"},null,{"nic":"b","id":"guid:1"}]'
    assert parse_rails(text) == (Rail("mlx5_0", "leaf1", "mac:00:11", "Ethernet1/3"), None, Rail("b", "", "guid:1"))
    assert parse_rails("[]") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        "[[]]",
        "[0]",
        "[" * 100_000,
        f"[{'null,' * MOST_RAILS}null]",
        '[{"nic":"a","id":""}]',
        '[{"id":"guid:1"}]',
        '[{"nic":"a","id":7}]',
        '[{"nic":"a","id":"guid:1","port":null}]',
        '[{"nic":"a","id":"guid:1","switch":"a\\u001b"}]',
        '[{"nic":"a","id":"guid:1","port":"' + "x" * 256 + '"}]',
        '[{"nic":"a","id":"\\ud800"}]',
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_rails(text)
