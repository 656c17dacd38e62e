"""The cache of published resources: what it watches, and that it can be closed at any time."""

import threading
from collections.abc import Callable

import pytest
from tests.support.api import Clients
from toposcope.controller.informer import InformerFactory
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.registry import FOLLOWED
from toposcope.kube.discovery import Served
from toposcope.kube.runtime import Runtime


class HeldMachine(Runtime):
    """Starts no thread, and does `when_set` whenever an event is set."""

    def __init__(self) -> None:
        self.when_set: Callable[[], object] = list

    def event(self) -> threading.Event:
        return HookedEvent(self)

    def thread(self, name: str, work: Callable[[], object]) -> threading.Thread:
        return threading.Thread(name=name, target=work)


class HookedEvent(threading.Event):
    """An event of a `HeldMachine`."""

    def __init__(self, machine: HeldMachine) -> None:
        super().__init__()
        self._machine = machine

    def set(self) -> None:
        super().set()
        self._machine.when_set()


def served(*kinds: PublishedKind) -> Served:
    resources = {}
    for kind in kinds:
        resources[kind.api_version(kind.versions[0])] = frozenset({kind.plural})
    return Served({}, resources)


@pytest.mark.regression
def test_kind_that_comes_while_the_watches_are_closed(clients: Clients) -> None:
    """The loop's thread follows it; the main thread, which ends the program, closes."""
    machine = HeldMachine()
    client = clients()
    stop = threading.Event()
    reader = CachedReader(client, InformerFactory(client, stop, runtime=machine))
    first, second, *_ = FOLLOWED
    reader.refresh(served(first), lambda: None)

    def follow_another() -> None:
        reader.refresh(served(first, second), lambda: None)

    machine.when_set = follow_another
    stop.set()
    reader.close()
