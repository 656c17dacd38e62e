"""What Grove's operator does with ClusterTopologyBindings, and the garbage collector with what they owned.

Nobody else does it where only an API server runs. The operator is that of v0.1.0-alpha.9 and later, with kai-scheduler
enabled, as its chart has it.
"""

from __future__ import annotations

from typing import Any

from tests.support.api import ApiUnderTest

_BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
_KAI = "/apis/kai.scheduler/v1alpha1/topologies"


class GroveExitError(Exception):
    """The operator ends at its start; the message says at what."""


def start_grove(api: ApiUnderTest) -> None:
    """Bring KAI's Topologies in line with the bindings. Raises GroveExitError at the first that cannot be."""
    code, bindings = api.request("GET", _BINDINGS)
    if code == 404:
        return
    _collect_garbage(api, {binding["metadata"]["uid"] for binding in bindings["items"]})
    for binding in bindings["items"]:
        entries = binding["spec"].get("schedulerTopologyBindings") or ()
        if not any(entry["schedulerName"] == "kai-scheduler" for entry in entries):
            _sync(api, binding)


def _sync(api: ApiUnderTest, binding: dict[str, Any]) -> None:
    name, uid = binding["metadata"]["name"], binding["metadata"]["uid"]
    if api.request("GET", _KAI)[0] == 404:
        raise GroveExitError('no matches for kind "Topology" in version "kai.scheduler/v1alpha1"')
    wanted = [{"nodeLabel": level["key"]} for level in binding["spec"]["levels"]]
    code, there = api.request("GET", f"{_KAI}/{name}")
    if code == 200:
        if _controller(there) != uid:
            raise GroveExitError(f"KAI Topology {name} is not owned by ClusterTopologyBinding {name}")
        if there["spec"]["levels"] == wanted:
            return
        assert api.request("DELETE", f"{_KAI}/{name}")[0] == 200
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "name": name, "uid": uid}
    body = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"levels": wanted},
    }
    code, answer = api.request("POST", _KAI, body)
    if code != 201:
        raise GroveExitError(answer["message"])


def _collect_garbage(api: ApiUnderTest, bindings: set[str]) -> None:
    code, topologies = api.request("GET", _KAI)
    for topology in topologies["items"] if code == 200 else ():
        owners = topology["metadata"].get("ownerReferences") or ()
        made_by_grove = any(owner["kind"] == "ClusterTopologyBinding" for owner in owners)
        if made_by_grove and _controller(topology) not in bindings:
            assert api.request("DELETE", f"{_KAI}/{topology['metadata']['name']}")[0] == 200


def _controller(document: dict[str, Any]) -> str | None:
    """The uid of the owner that controls an object."""
    owners = document["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)
