"""What an undisturbed controller makes of a cluster: a fresh `--once` on a copy of it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tools.apiserver.client import AdminApi
from tools.apiserver.grove_operator import start_grove
from tools.chaos.cluster import GROVE, NODES, PUBLISHED, TOPOLOGIES, bare, crds, foreign_objects
from tools.chaos.machines import ROOT
from toposcope.simulator import manifests
from toposcope.simulator.apiserver import EmbeddedApiServer

_HISTORY: Final = frozenset(
    {"lastTransitionTime", "observedGeneration", "uid", "resourceVersion", "generation"}
)
"""Fields in which two controllers that agree may still differ.

They say when, and about which edition of an object.
"""
_MOST_TURNS: Final = 3
"""Grove makes its part from the binding, and the controller then says so."""


def desired(api: AdminApi, folder: Path, *, has_late_grove: bool = False) -> dict[str, Any]:
    """Path of each object to what it should say, by the Nodes and specs of the server of `api`.

    With `has_late_grove`, Grove came after KAI's Topologies were made: they stay, and the bindings
    name them.
    """
    with EmbeddedApiServer() as server:
        server.load(
            {"apiVersion": "v1", "kind": "Node", **node} for node in api.get(NODES)["items"]
        )
        kubeconfig = folder / "desired.kubeconfig"
        server.write_kubeconfig(kubeconfig)
        copy = AdminApi("embedded", server.url, kubeconfig)
        return desired_on(api, copy, lambda: _run_once(kubeconfig), has_late_grove=has_late_grove)


def desired_on(
    api: AdminApi, copy: AdminApi, once: Callable[[], object], *, has_late_grove: bool
) -> dict[str, Any]:
    """The same on `copy`, a server that has the Nodes of `api` and nothing else.

    `once` runs the controller there.
    """
    kinds = crds()
    grove = kinds.pop("grove")
    copy.install_crd(manifests.cluster_topology_crd())
    for crd in kinds.values():
        copy.install_crd(crd)
    if not has_late_grove:
        copy.install_crd(grove)
    for item in api.get(TOPOLOGIES)["items"]:
        topology = {
            "apiVersion": "gpu.topology/v1alpha1",
            "kind": "ClusterTopology",
            "metadata": bare(item)["metadata"],
            "spec": item["spec"],
        }
        copy.create(TOPOLOGIES, topology)
    of_grove = []
    for collection, item in foreign_objects():
        if collection == GROVE:
            of_grove.append(item)
        else:
            copy.create(collection, item)
    if has_late_grove:
        once()
        copy.install_crd(grove)
    for item in of_grove:
        copy.create(GROVE, item)
    for _ in range(_MOST_TURNS):
        once()
        start_grove(copy)
    once()
    return observed(copy)


def observed(api: AdminApi) -> dict[str, Any]:
    """Path of each object that Toposcope writes, or that follows from it, to what it says.

    Raises AssertionError.
    """
    contents: dict[str, Any] = {}
    for item in api.get(TOPOLOGIES)["items"]:
        name = item["metadata"]["name"]
        status = item.get("status") or {}
        contents[f"{TOPOLOGIES}/{name}"] = timeless(status)

    for collection in PUBLISHED:
        listed = api.get(collection)
        for item in listed["items"]:
            name = item["metadata"]["name"]
            spec = item["spec"]
            contents[f"{collection}/{name}"] = timeless(spec)
    return contents


def timeless(value: Any) -> Any:
    """A document without fields that only say when it was written, and which revision it is."""
    if isinstance(value, list):
        return [timeless(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, part in value.items():
        if key in _HISTORY:
            continue
        kept[key] = part if type(part) is str else timeless(part)  # most are texts
    return kept


def differences(wanted: Any, actual: Any, where: str = "") -> list[str]:
    """Where two documents differ, in words."""
    lines: list[str] = []
    if isinstance(wanted, dict) and isinstance(actual, dict):
        keys = wanted.keys() | actual.keys()
        for key in sorted(keys):
            place = f"{where} {key}".strip()
            wanted_value = wanted.get(key)
            actual_value = actual.get(key)
            lines += differences(wanted_value, actual_value, place)
        return lines

    if _are_lists_of_one_length(wanted, actual):
        for number, wanted_item in enumerate(wanted):
            place = f"{where}[{number}]"
            lines += differences(wanted_item, actual[number], place)
        return lines

    if wanted != actual:
        actual_text = str(actual)[:160]
        wanted_text = str(wanted)[:160]
        lines.append(f"{where}: is {actual_text}, should be {wanted_text}")
    return lines


def _are_lists_of_one_length(wanted: Any, actual: Any) -> bool:
    if isinstance(wanted, list) and isinstance(actual, list):
        return len(wanted) == len(actual)
    return False


def _run_once(kubeconfig: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "toposcope.cli.main",
        "controller",
        "--once",
        "--kubeconfig",
        str(kubeconfig),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the undisturbed controller failed: {done.stderr[-500:]}")
