"""What Grove's operator does with ClusterTopologyBindings, and the garbage collector after it.

Where only an API server runs, nobody else does it. The operator is that of v0.1.0-alpha.9 and
later, with kai-scheduler enabled, as its chart has it.
"""

from typing import Any

from tools.apiserver.client import AdminApi
from toposcope.errors import ToposcopeError

_BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
_KAI = "/apis/kai.scheduler/v1alpha1/topologies"


class GroveExitError(ToposcopeError):
    """The operator ends at its start; the message says at what."""


def start_grove(api: AdminApi) -> None:
    """Bring KAI's Topologies in line with the bindings, and compare those that bindings name.

    Raises GroveExitError at the first that cannot be made.
    """
    code, listed = api.request("GET", _BINDINGS)
    if code == 404:
        return
    bindings = listed["items"]
    uids = {binding["metadata"]["uid"] for binding in bindings}
    _collect_garbage(api, uids)

    for binding in bindings:
        entries = binding["spec"].get("schedulerTopologyBindings") or ()
        schedulers = [entry["schedulerName"] for entry in entries]
        if "kai-scheduler" not in schedulers:
            _sync(api, binding)

        if entries or "status" in binding:
            compared = [_compared(api, binding, entry) for entry in entries]
            _tell(api, binding, compared)


def _compared(api: AdminApi, binding: dict[str, Any], entry: dict[str, str]) -> dict[str, Any]:
    """What the operator says of one topology that a binding names, and never touches."""
    scheduler = entry["schedulerName"]
    name = entry["topologyReference"]
    code, topology = api.request("GET", f"{_KAI}/{name}")

    if scheduler != "kai-scheduler":
        message = f'scheduler backend "{scheduler}" is not available for topology management'
    elif code == 404:
        message = f'KAI Topology "{name}" not found'
    elif topology["spec"]["levels"] != _levels(binding):
        message = "KAI Topology levels differ from ClusterTopologyBinding levels"
    else:
        return {
            **entry,
            "inSync": True,
            "schedulerBackendTopologyObservedGeneration": 1,
        }
    return {
        **entry,
        "inSync": False,
        "message": message,
    }


def _tell(api: AdminApi, binding: dict[str, Any], statuses: list[dict[str, Any]]) -> None:
    status = {
        "observedGeneration": binding["metadata"]["generation"],
        "schedulerTopologyStatuses": statuses,
    }
    if binding.get("status") == status:
        return
    api.patch(f"{_BINDINGS}/{binding['metadata']['name']}/status", {"status": status})


def _levels(binding: dict[str, Any]) -> list[dict[str, str]]:
    return [{"nodeLabel": level["key"]} for level in binding["spec"]["levels"]]


def _sync(api: AdminApi, binding: dict[str, Any]) -> None:
    name = binding["metadata"]["name"]
    uid = binding["metadata"]["uid"]
    path = f"{_KAI}/{name}"
    code, _ = api.request("GET", _KAI)
    if code == 404:
        raise GroveExitError('no matches for kind "Topology" in version "kai.scheduler/v1alpha1"')

    levels = _levels(binding)
    code, topology = api.request("GET", path)
    if code == 200:
        if _controller(topology) != uid:
            raise GroveExitError(
                f"KAI Topology {name} is not owned by ClusterTopologyBinding {name}"
            )
        if topology["spec"]["levels"] == levels:
            return
        code, answer = api.request("DELETE", path)
        assert code == 200, answer

    owner = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "name": name,
        "uid": uid,
        "controller": True,
    }
    wanted = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"levels": levels},
    }
    code, answer = api.request("POST", _KAI, wanted)
    if code != 201:
        raise GroveExitError(answer["message"])


def _collect_garbage(api: AdminApi, bindings: set[str]) -> None:
    code, topologies = api.request("GET", _KAI)
    if code != 200:
        return

    for topology in topologies["items"]:
        metadata = topology["metadata"]
        owners = metadata.get("ownerReferences") or ()
        kinds = [owner["kind"] for owner in owners]
        if "ClusterTopologyBinding" not in kinds:
            continue
        if _controller(topology) not in bindings:
            name = metadata["name"]
            code, answer = api.request("DELETE", f"{_KAI}/{name}")
            assert code == 200, answer


def _controller(document: dict[str, Any]) -> str | None:
    """The uid of the owner that controls an object."""
    for owner in document["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None
