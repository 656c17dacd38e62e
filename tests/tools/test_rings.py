"""tools.bench.rings: the orders that it compares, and the link that delays."""

import os

import pytest
from tools.bench.rack_link import DelayedFrame, LinkEnd
from tools.bench.rings import ALTERNATING, OURS, PYTHON_VARIABLE, rank_orders, rings_figures


def test_order_by_rack_crosses_once_each_way_and_alternating_always() -> None:
    orders = rank_orders(seeds=[])
    assert orders == {OURS: [0, 2, 4, 6, 1, 3, 5, 7], ALTERNATING: [0, 1, 2, 3, 4, 5, 6, 7]}


def test_random_order_is_the_same_for_one_seed() -> None:
    first = rank_orders(seeds=[7])
    assert rank_orders(seeds=[7]) == first
    assert sorted(first["by host name, drawn at random (7)"]) == list(range(8))


def test_without_torch_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    assert list(rings_figures(quick=True)) == []


def test_frame_is_delivered_when_it_is_due() -> None:
    outlet, device = os.pipe()
    end = LinkEnd(device)
    end.arriving.append(DelayedFrame(1.0, b"first "))
    end.arriving.append(DelayedFrame(1.5, b"second "))
    end.arriving.append(DelayedFrame(2.1, b"third"))
    end.deliver(2.0)
    assert os.read(outlet, 100) == b"first second "
    os.close(device)
    os.close(outlet)
    assert list(end.arriving) == [DelayedFrame(2.1, b"third")]
