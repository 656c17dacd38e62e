"""Takes the pictures of the documentation: `python -m tests.ui.browser.pictures FOLDER`.

Everything on them is what the page shows of simulated machines: the demo's cluster, its NVL72 rack with trouble, and a
cluster of 5,000 nodes with some.
"""

import copy
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from playwright.sync_api import Browser, Page, sync_playwright
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.publishing import spec_levels
from tests.support.saved import Object, cluster_topology, demo_nodes
from tests.ui.browser.shown import condition
from tests.ui.serving import Nodes, facts_of, served
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.simulator.cluster import large_cluster
from toposcope.snapshot.decode import Decoder
from toposcope.snapshot.model import NodeView
from toposcope.ui.bundle import Bundle
from toposcope.ui.source import FullNode

NODES = 5_000
_WHOLE = Decoder(lambda _name, _not_ok: True)
# One rack is gone; elsewhere it is a node here and there.
_GONE_RACK = "rack-00087"
_LEVELS = spec_levels(ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)


def _view(document: Object) -> NodeView:
    return _WHOLE.node(lambda kind: msgspec.convert(document, kind))


@contextmanager
def _address(documents: list[Object], *conditions: Object) -> Iterator[str]:
    nodes = []
    full = {}
    for document in documents:
        node = _view(document)
        nodes.append(node)
        full[node.name] = FullNode(node, "2026-01-01T00:02:00Z")
    topology = cluster_topology({"conditions": list(conditions)}, levels=_LEVELS)
    facts = facts_of(nodes, topology)
    with served(Path(), facts, Nodes(full=full), page=Bundle()) as server:
        yield f"http://127.0.0.1:{server.port}/"


def _not_ready(document: Object) -> None:
    for entry in document["status"]["conditions"]:
        if entry["type"] == "Ready":
            entry["status"] = "Unknown"


def _nvl72() -> list[Object]:
    trays = demo_nodes(most=18, faulty=("gb200-07",))
    # Parts of them are shared: each is to have its own.
    found: list[Object] = [json.loads(json.dumps(tray)) for tray in trays]
    _not_ready(found[11])
    found[13]["spec"]["unschedulable"] = True
    return found


def _large() -> list[Object]:
    found = []
    for at, node in enumerate(large_cluster(NODES)):
        labels = node["metadata"]["labels"]
        document = {
            **node,
            "status": copy.deepcopy(node["status"]),
            "spec": dict(node["spec"]),
        }
        if labels[RACK] == _GONE_RACK:
            _not_ready(document)
        elif at % 211 == 30 or 1404 <= at <= 1409:
            labels["gpu.topology/state"] = "degraded"
        elif at % 731 == 99:
            labels["gpu.topology/state"] = "unknown"
        elif at % 307 == 11:
            document["spec"]["unschedulable"] = True
        if at in (812, 813, 2977):
            labels.pop(RACK)
        found.append(document)
    return found


def _blank_page(browser: Browser) -> Page:
    """A page of the size of a picture, at a time that is always the same."""
    page = browser.new_page(
        viewport={"width": 1200, "height": 720},
        reduced_motion="reduce",
    )
    page.clock.set_fixed_time("2026-01-01T00:12:00Z")
    return page


def _take(page: Page, address: str, picture: Path, ready: str) -> None:
    page.goto("about:blank")
    page.goto(address)
    page.locator(ready).first.wait_for(state="attached")
    page.evaluate("document.fonts.ready.then(() => new Promise(requestAnimationFrame))")
    page.screenshot(path=picture)


def main(folder: Path) -> None:
    """Take all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    degraded = condition("FabricHealthy", "False", "NodesDegraded", "1 node is degraded: gb200-07")
    uncovered = condition("LevelsCovered", "False", "NodesMissingLevels", "rack is missing on 3 of 5000 nodes")
    program = shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = _blank_page(browser)
        with _address(demo_nodes(faulty=("h200-3",))) as address:
            _take(page, address, folder / "ui-demo.png", ".overlay button")
            page.emulate_media(color_scheme="dark")
            _take(page, f"{address}#node=h200-3", folder / "ui-node-dark.png", ".matrix")
            page.emulate_media(color_scheme="light")
        with _address(_nvl72(), degraded) as address:
            _take(page, address, folder / "ui-nvl72.png", ".overlay button")
        with _address(_large(), uncovered) as address:
            _take(page, address, folder / "ui-5000.png", ".overlay button")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
