"""What Grove's operator does with ClusterTopologyBindings, and the garbage collector after it.

Where only an API server runs, nobody else does it. The operator is that of v0.1.0-alpha.9 and
later, with kai-scheduler enabled, as its chart has it, and with kueue where asked for (GREP-704).
"""

from collections.abc import Collection
from typing import Any

from tools.apiserver.client import AdminApi
from toposcope.errors import ToposcopeError

_BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
_KAI = "/apis/kai.scheduler/v1alpha1/topologies"
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
_TITLES = {"kai-scheduler": "KAI", "kueue": "Kueue"}
_COLLECTIONS = {"kai-scheduler": _KAI, "kueue": _KUEUE}


class GroveExitError(ToposcopeError):
    """The operator ends at its start; the message says at what."""


def start_grove(
    api: AdminApi,
    backends: Collection[str] = ("kai-scheduler",),
    making: Collection[str] = ("kai-scheduler",),
) -> None:
    """Bring KAI's Topologies in line with the bindings, and compare those that bindings name.

    `making` are the backends whose topologyBindingPolicy is AutoCreate. Raises GroveExitError at
    the first Topology that cannot be made.
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
        for scheduler in set(making).difference(schedulers):
            _sync(api, binding, scheduler)

        if entries or "status" in binding:
            compared = [_compared(api, binding, entry, backends) for entry in entries]
            _tell(api, binding, compared)


def _compared(
    api: AdminApi, binding: dict[str, Any], entry: dict[str, str], backends: Collection[str]
) -> dict[str, Any]:
    """What the operator says of one topology that a binding names, and never touches."""
    scheduler = entry["schedulerName"]
    name = entry["topologyReference"]
    title = _TITLES.get(scheduler, "")
    code, topology = api.request("GET", f"{_COLLECTIONS.get(scheduler, _KAI)}/{name}")

    if scheduler not in backends:
        message = f'scheduler backend "{scheduler}" is not available for topology management'
    elif code == 404:
        message = f'{title} Topology "{name}" not found'
    elif topology["spec"]["levels"] != _levels(binding):
        message = f"{title} Topology levels differ from ClusterTopologyBinding levels"
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


def _sync(api: AdminApi, binding: dict[str, Any], scheduler: str) -> None:
    name = binding["metadata"]["name"]
    uid = binding["metadata"]["uid"]
    collection = _COLLECTIONS[scheduler]
    path = f"{collection}/{name}"
    version = collection.removeprefix("/apis/").removesuffix("/topologies")
    code, _ = api.request("GET", collection)
    if code == 404:
        raise GroveExitError(f'no matches for kind "Topology" in version "{version}"')

    levels = _levels(binding)
    code, topology = api.request("GET", path)
    if code == 200:
        if _controller(topology) != uid:
            raise GroveExitError(
                f"{_TITLES[scheduler]} Topology {name} is not owned by "
                f"ClusterTopologyBinding {name}"
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
        "apiVersion": version,
        "kind": "Topology",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"levels": levels},
    }
    code, answer = api.request("POST", collection, wanted)
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
