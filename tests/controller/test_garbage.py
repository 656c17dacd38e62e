"""How often Python collects cyclic garbage."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from toposcope.controller.loop import collect_rarely
from toposcope.controller.options import ControllerOptions
from toposcope.controller.run import run


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The pace is the process's: other tests have theirs."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_many_new_objects_start_no_collection() -> None:
    looks: list[int] = []

    def noted(_phase: str, about: dict[str, int]) -> None:
        looks.append(about["generation"])

    collect_rarely()
    gc.collect()
    gc.callbacks.append(noted)
    try:
        kept = [[number] for number in range(10_000)]
    finally:
        gc.callbacks.remove(noted)
    assert len(kept) == 10_000
    assert not looks
    assert gc.isenabled()


def test_a_controller_collects_rarely(tmp_path: Path) -> None:
    away = tmp_path / "kubeconfig"
    away.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    assert run(ControllerOptions(str(away), once=True, debounce=0.0, metrics_port=None, log_format="text")) == 1
    assert gc.get_threshold()[0] > 700
