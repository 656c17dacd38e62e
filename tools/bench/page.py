"""The page of `toposcope ui` in a real browser: first paint, going in, filtering, and what it keeps in memory.

The server runs in this process and shares two CPUs with the browser, so elapsed times are upper bounds. The frame is
1280 by 800, and the browser paints without a GPU. Times end with the second frame after the map was drawn, when what
was asked for is on the screen: two to three frames of 17 ms are in them however little there is to do. CPU is that of
the page's main thread (the clock of the thread, so other work on the machine does not count), the driver's part of it
included.
"""

import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from playwright.sync_api import CDPSession, Page, sync_playwright

from tools.bench.report import Figure, Sample, Target
from tools.bench.workspace import MeasurementError
from toposcope.api.cluster_topology import read
from toposcope.api.label_keys import STATE
from toposcope.simulator.cluster import large_cluster
from toposcope.snapshot.decode import Decoder
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.bundle import Bundle
from toposcope.ui.facts import Facts
from toposcope.ui.guard import LOCAL
from toposcope.ui.program import address_of, listening
from toposcope.ui.server import Server, application
from toposcope.ui.source import FullNode, Source
from toposcope.ui.stream import Stream

_SIZES: Final = (5_000, 15_000, 100_000)
_TARGET_SIZE: Final = 15_000
_RUNS: Final = 5
_MIB: Final = 1 << 20
_SICK: Final = 97
"""One node in so many is degraded."""
_ROUNDS: Final = 40
_MOST_KEPT: Final = 8
"""MiB: less than one more generation of what is known of 100,000 nodes."""
_TOPOLOGY: Final[dict[str, Any]] = {"metadata": {"name": "cluster", "uid": "1", "generation": 1}, "spec": {}}
_DRAWN: Final = "() => performance.getEntriesByName('toposcope:map').at(-1)?.startTime"
_DRAWN_AFTER: Final = "drawn => performance.getEntriesByName('toposcope:map').at(-1).startTime > drawn"
_ACTS: Final = (
    ("into a domain", ".overlay button", ""),
    ("and back to the whole", ".crumbs button", ""),
    ("only the degraded", ".chip:nth-of-type(2)", ""),
    ("", ".chip.clear", ""),
    ("a letter more in the search", ".search input", "gpu-0001"),
    ("", ".search input", "gpu-"),
    ("", ".search input", " "),
    ("coloured by wiring shape", ".lens select", "shape"),
    ("", ".lens select", "health"),
)
"""What is done, where, and what is typed or chosen there; acts without a name only lead back."""
_UNTIL_SHOWN: Final = Path(__file__).with_name("act.js").read_text(encoding="utf-8")


def page_figures(*, quick: bool) -> Iterator[Figure]:
    """Everything, for one size of cluster after the other."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise MeasurementError("there is no Chromium: apt-get install chromium")
    if Bundle().page() is None:
        raise MeasurementError("the page is not built: make ui")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for nodes in _SIZES[:1] if quick else _SIZES:
            with served(_made(nodes, sick=True, most=nodes), {}, _TOPOLOGY) as (address, facts, broadcaster):
                context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
                page = context.new_page()
                page.set_default_timeout(120_000)
                session = context.new_cdp_session(page)
                session.send("Performance.enable", {"timeDomain": "threadTicks"})
                yield from _of(nodes, page, session, address)
                yield from _kept(nodes, page, session, facts, broadcaster)
                context.close()
        browser.close()


def _of(nodes: int, page: Page, session: CDPSession, address: str) -> Iterator[Figure]:
    what = f"{nodes:,} nodes"
    aimed = nodes <= _TARGET_SIZE
    paints = []
    for _ in range(_RUNS):
        page.goto("about:blank")
        page.goto(address)
        paints.append(float(page.wait_for_function(_DRAWN).json_value()))
    yield Figure(f"{what}: first paint of the map", Sample(tuple(paints), "ms"), Target(2000) if aimed else None)
    taken: dict[str, list[tuple[float, float]]] = {}
    for _ in range(_RUNS):
        for name, selector, text in _ACTS:
            before = _cpu(session)
            elapsed = _shown(page, selector, text)
            taken.setdefault(name, []).append((elapsed, _cpu(session) - before))
    for name, runs in taken.items():
        if name:
            elapsed_all, cpu = zip(*runs, strict=True)
            yield Figure(f"  {name}", Sample(elapsed_all, "ms"), Target(100) if aimed else None)
            yield Figure("    CPU of that", Sample(cpu, "ms"))
    yield Figure("  JavaScript heap and arrays", Sample((_heap(session),), "MiB"))


def _kept(nodes: int, page: Page, session: CDPSession, facts: Facts, broadcaster: Broadcaster) -> Iterator[Figure]:
    """How much more the page keeps after it was used for a while, and what a change costs it."""
    page.locator(".search input").fill("")
    before = _heap(session)
    sick, well = _made(nodes, sick=True, most=1), _made(nodes, sick=False, most=1)
    costs = []
    for turn in range(_ROUNDS):
        _shown(page, ".overlay button")
        _shown(page, ".crumbs button")
        drawn = page.evaluate(_DRAWN)
        used = _cpu(session)
        facts.put_node((sick if turn % 2 else well)[0], "")
        broadcaster.tick()
        page.wait_for_function(_DRAWN_AFTER, arg=drawn)
        costs.append(_cpu(session) - used)
    yield Figure("  a change of one node, CPU of the page", Sample(tuple(costs), "ms"))
    kept = Sample((_heap(session) - before,), "MiB")
    yield Figure(f"  kept after {_ROUNDS} times there and back and {_ROUNDS} changes", kept, Target(_MOST_KEPT))


def _shown(page: Page, selector: str, text: str = "") -> float:
    return float(page.locator(selector).first.evaluate(_UNTIL_SHOWN, text))


def _cpu(session: CDPSession) -> float:
    """Milliseconds that the page's main thread has worked so far."""
    metrics = {metric["name"]: float(metric["value"]) for metric in session.send("Performance.getMetrics")["metrics"]}
    return 1000 * metrics["TaskDuration"]


def _heap(session: CDPSession) -> float:
    # What arrays lie in is given back by a later round than the arrays themselves.
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    # Typed arrays lie outside of the heap.
    return float(usage["usedSize"] + usage.get("backingStorageSize", 0)) / _MIB


class _Nothing:
    """A source that was filled once."""

    kind: Final = "cluster"

    def start(self) -> None: ...

    def close(self) -> None: ...

    def node(self, _name: str) -> FullNode | None:
        return None

    def published(self) -> Snapshot:
        return Snapshot("test", None, (), None)


def _made(nodes: int, sick: bool, most: int) -> list[NodeView]:
    decode = Decoder()
    nodes_made = []
    for at, document in zip(range(most), large_cluster(nodes), strict=False):
        if at % _SICK == 0 and sick:
            document["metadata"]["labels"][STATE] = "degraded"
        nodes_made.append(decode.node(partial(msgspec.convert, document)))
    return nodes_made


@contextmanager
def served(
    nodes: Iterable[NodeView], pods: Mapping[str, PodView], topology: dict[str, Any], source: Source | None = None
) -> Iterator[tuple[str, Facts, Broadcaster]]:
    """The server of a cluster that never was in an API server."""
    facts = Facts("https://bench", ("all",), lambda: None)
    facts.replace_topologies({"cluster": read(topology)})
    facts.replace_nodes({node.name: (node, "") for node in nodes})
    facts.replace_pods(pods)
    facts.mark_synced("all")
    broadcaster = Broadcaster(facts, "cluster", "bench")
    broadcaster.tick()
    stream = Stream(broadcaster)
    listener = listening("127.0.0.1", 0)
    answering = threading.Event()
    server = Server(application(broadcaster, source or _Nothing(), Bundle(), stream, LOCAL), stream, answering.set)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    answering.wait(60)
    try:
        yield address_of(listener), facts, broadcaster
    finally:
        server.should_exit = True
        thread.join(60)
