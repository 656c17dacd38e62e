"""List and watch over real connections: the handler ends up equal to the server, whatever happens in between."""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.kube.reflecting import PATIENCE, Impatient, Item, Mirror, decode
from tests.support.api import NODES, ApiUnderTest, node
from tools.apiserver.certificates import Certificates
from toposcope.kube.client import JSON, METADATA, ApiClient, Request, Stream
from toposcope.kube.config import load
from toposcope.kube.errors import ApiError, UnreachableError
from toposcope.kube.reflector import Reflector
from toposcope.kube.requests import apply
from toposcope.simulator.apiserver import EmbeddedApiServer, Tls


class Live:
    """A reflector in a thread of its own, on `client`'s server."""

    def __init__(self, client: ApiClient, path: str = NODES, accept: str = JSON) -> None:
        self.stop = Impatient()
        self.mirror = Mirror()
        rng = random.Random(7)
        self.reflector: Reflector[Item] = Reflector(client, path, decode, self.mirror, self.stop, rng, accept=accept)
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


@pytest.fixture
def server(tmp_path: Path, certificates: Certificates) -> Iterator[EmbeddedApiServer]:
    """With TLS, as everywhere but here."""
    with EmbeddedApiServer(tls=Tls(certificates.certificate, certificates.key, certificates.ca)) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield server


@pytest.fixture
def make(server: EmbeddedApiServer, tmp_path: Path) -> Iterator[Callable[[], ApiClient]]:
    """Clients of `server`."""
    assert server.url.startswith("https")
    with contextlib.ExitStack() as stack:

        def client() -> ApiClient:
            made = ApiClient(load(str(tmp_path / "kubeconfig")))
            stack.callback(made.close)
            return made

        yield client


def held(client: ApiClient) -> dict[str, str]:
    """Name and version of everything that the server has."""
    items = client.call(Request("GET", NODES, {}))["items"]
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}


def test_changes_arrive_on_both_servers(api: ApiUnderTest, clients: Callable[[], ApiClient]) -> None:
    api.create(NODES, node("a"))
    with Live(clients()) as live:
        live.wait_for_names("a")
        api.create(NODES, node("b", labels={"x": "y"}))
        live.wait_for_names("a b")
        api.request("DELETE", f"{NODES}/a")
        live.wait_for_names("b")
    assert live.mirror.items["b"][1] == {"x": "y"}


@pytest.mark.parametrize("accept", [JSON, METADATA], ids=["whole", "metadata"])
def test_servers_without_streamed_lists(
    api: ApiUnderTest, clients: Callable[[], ApiClient], monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    client = clients()
    streamed = client.stream

    def unstreamed(request: Request, idle_timeout: float) -> Stream:
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
def test_a_broken_watch_goes_on_where_the_version_is_still_there(
    api: ApiUnderTest, clients: Callable[[], ApiClient], accept: str
) -> None:
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
    assert live.mirror.calls.count("replace a") == 1
    assert not live.reflector._doubtful


def test_relist_from_another_thread(server: EmbeddedApiServer, make: Callable[[], ApiClient]) -> None:
    server.load([node("a"), node("b")])
    with Live(make()) as live:
        live.wait_for_names("a b")
        for count in range(2, 12):
            live.reflector.relist()
            live.mirror.wait_for(lambda count=count: live.mirror.calls.count("replace a b") >= count)  # type: ignore[misc]
        assert not live.mirror.errors


def test_an_expired_history_is_followed_by_a_list(server: EmbeddedApiServer, make: Callable[[], ApiClient]) -> None:
    server.load([node("a")])
    with Live(make()) as live:
        live.wait_for_names("a")
        server.faults.expire_history()
        server.load([node("b")])
        live.wait_for_names("a b")
        assert live.mirror.calls.count("replace a b") == 1


def test_a_frozen_server_is_noticed_and_left(
    server: EmbeddedApiServer, make: Callable[[], ApiClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.load([node("a")])
    with Live(make()) as live:
        live.wait_for_names("a")
        monkeypatch.setattr("toposcope.kube.reflector._IDLE_SECONDS", 0.05)
        server.faults.freeze()
        server.faults.cut_watches()
        live.reflector.relist()
        live.mirror.wait_for(lambda: isinstance(live.mirror.error, UnreachableError))
        monkeypatch.undo()
        server.faults.thaw()
        server.load([node("b")])
        live.wait_for_names("a b")
        live.mirror.wait_for(lambda: live.mirror.error is None)


def test_a_server_whose_versions_began_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after etcd was restored from a backup: it waits for our version without a word."""
    with contextlib.ExitStack() as stack:
        with EmbeddedApiServer() as old:
            old.write_kubeconfig(tmp_path / "kubeconfig")
            old.load([node(name) for name in "abcdef"])
            client = stack.enter_context(contextlib.closing(ApiClient(load(str(tmp_path / "kubeconfig")))))
            live = stack.enter_context(Live(client))
            live.wait_for_names("a b c d e f")
            monkeypatch.setattr("toposcope.kube.reflector._IDLE_SECONDS", 0.2)
        new = stack.enter_context(EmbeddedApiServer(int(old.url.rpartition(":")[2])))
        new.load([node("z")])
        live.wait_for_names("z")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_any_schedule_of_changes_and_faults_ends_in_the_server_s_state(
    server: EmbeddedApiServer, make: Callable[[], ApiClient], streamed: bool, seed: int
) -> None:
    rng = random.Random(seed)
    faults = server.faults
    if not streamed:
        faults.reject(422, 10**6, applies=lambda request: "sendInitialEvents" in request.query)
    server.load([node(f"n{number}") for number in range(8)])
    writer = make()
    with Live(make()) as live:

        def change() -> None:
            name = f"n{rng.randrange(12)}"
            if rng.random() < 0.3:
                with contextlib.suppress(ApiError):
                    writer.call(Request("DELETE", f"{NODES}/{name}", {}))
            else:
                body = node(name, labels={"mark": str(rng.random())})
                writer.call(apply(f"{NODES}/{name}", body, "tester", force=True))

        def trouble() -> None:
            troubles: list[Callable[[], None]] = [
                faults.cut_watches,
                faults.expire_history,
                live.reflector.relist,
                lambda: faults.reject(500, 2, applies=_watches),
                lambda: faults.reject(429, 1, retry_after=1, applies=_watches),
                lambda: faults.reject(410, 1, applies=_watches),
            ]
            rng.choice(troubles)()

        for step in range(150):
            (trouble if rng.random() < 0.2 else change)()
            if step % 15 == 0:  # so that faults meet watches that have caught up, too
                live.mirror.wait_for(lambda: state(live) == held(writer))
        live.mirror.wait_for(lambda: state(live) == held(writer))


def state(live: Live) -> dict[str, str]:
    return {name: version for name, (version, _) in live.mirror.items.items()}


def _watches(request: Any) -> bool:
    return bool(request.query.get("watch"))
