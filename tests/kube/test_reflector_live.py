"""List and watch over real connections: the handler ends up equal to the server, whatever happens in between."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from tests.kube.reflecting import PATIENCE, Impatient, Item, Mirror, decode
from tests.support.api import NODES, ApiUnderTest, Clients, node
from tests.support.runtime import ManualRuntime
from tools.apiserver.certificates import Certificates
from toposcope.kube.client import JSON, METADATA, ApiClient, Request, WatchStream
from toposcope.kube.config import load
from toposcope.kube.errors import ApiError
from toposcope.kube.reflector import Reflector
from toposcope.simulator.apiserver import EmbeddedApiServer


class Live:
    """A reflector in a thread of its own, on `client`'s server."""

    def __init__(self, client: ApiClient, path: str = NODES, accept: str = JSON) -> None:
        self.stop = Impatient()
        self.mirror = Mirror()
        self.reflector: Reflector[Item] = Reflector(
            client,
            path,
            decode,
            self.mirror,
            self.stop,
            accept=accept,
            runtime=ManualRuntime(seed=7),
        )
        self._thread = threading.Thread(target=self.reflector.run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop.set()
        self.reflector.relist()  # nothing else ends a stream that is silent
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert not self.mirror.mistakes

    def wait_for_names(self, names: str) -> None:
        self.mirror.wait_for(lambda: set(self.mirror.items) == set(names.split()))

    def wait_for_calls(self, call: str, times: int) -> None:
        """Wait until the mirror has had a call so many times."""
        self.mirror.wait_for(lambda: self.mirror.calls.count(call) >= times)


@pytest.fixture
def server(tmp_path: Path, certificates: Certificates) -> Iterator[EmbeddedApiServer]:
    """With TLS, as everywhere but here."""
    with EmbeddedApiServer(tls=certificates) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield server


@pytest.fixture
def make(server: EmbeddedApiServer, tmp_path: Path) -> Iterator[Clients]:
    """Clients of `server`."""
    assert server.url.startswith("https")
    with contextlib.ExitStack() as stack:

        def client() -> ApiClient:
            made = ApiClient(load(str(tmp_path / "kubeconfig")))
            stack.callback(made.close)
            return made

        yield client


def test_changes_arrive_on_both_servers(api: ApiUnderTest, clients: Clients) -> None:
    api.create(NODES, node("a"))
    with Live(clients()) as live:
        live.wait_for_names("a")
        api.create(NODES, node("b", labels={"x": "y"}))
        live.wait_for_names("a b")
        api.request("DELETE", f"{NODES}/a")
        live.wait_for_names("b")
    assert live.mirror.items["b"][1] == {"x": "y"}


@pytest.mark.parametrize("accept", [JSON, METADATA], ids=["whole", "metadata"])
def test_no_streamed_lists(api: ApiUnderTest, clients: Clients, monkeypatch: pytest.MonkeyPatch, accept: str) -> None:
    client = clients()
    streamed = client.stream

    def unstreamed(request: Request, idle_timeout: float) -> WatchStream:
        if "sendInitialEvents" in request.query:
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch")
        return streamed(request, idle_timeout)

    monkeypatch.setattr(client, "stream", unstreamed)
    api.create(NODES, node("a"))
    with Live(client, accept=accept) as live:
        live.wait_for_names("a")
        api.create(NODES, node("b"))
        live.wait_for_names("a b")
    assert not live.mirror.errors


@pytest.mark.parametrize("accept", [JSON, METADATA], ids=["whole", "metadata"])
def test_a_broken_watch_begins_with_a_list(api: ApiUnderTest, clients: Clients, accept: str) -> None:
    api.create(NODES, node("a"))
    with Live(clients(), accept=accept) as live:
        live.wait_for_names("a")
        api.create(NODES, node("b"))
        live.wait_for_names("a b")
        assert live.reflector._open
        live.reflector._open.interrupt()
        live.mirror.wait_for(lambda: bool(live.mirror.errors))
        api.create(NODES, node("c"))
        live.wait_for_names("a b c")
    assert len(live.mirror.errors) == 1
    assert sum(call.startswith("replace") for call in live.mirror.calls) == 2


def test_relist_from_another_thread(server: EmbeddedApiServer, make: Clients) -> None:
    server.load([node("a"), node("b")])
    with Live(make()) as live:
        live.wait_for_names("a b")
        for count in range(2, 12):
            live.reflector.relist()
            live.wait_for_calls("replace a b", times=count)
        assert not live.mirror.errors
