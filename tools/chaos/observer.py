"""Watches what must not happen, on connections of its own straight to the API server."""

import http.client
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from tools.apiserver.client import AdminApi
from tools.chaos.cluster import BEAT, CLIQUE, GROVE, KAI, KUEUE, LOST, NODES, TOPOLOGIES
from tools.chaos.desired import timeless
from tools.chaos.machines import PREFIX, Machine
from tools.chaos.violations import Findings

_PAUSE: Final = 0.3
_TROUBLE: Final = (
    OSError,
    http.client.HTTPException,
    AssertionError,
    ValueError,
    KeyError,
    TypeError,
)
"""What a watch runs into while its server is being broken."""


def ours(keys: dict[str, str]) -> dict[str, str]:
    """The labels or annotations that are Toposcope's."""
    return {key: value for key, value in keys.items() if key.startswith(PREFIX)}


def others(node: dict[str, Any]) -> dict[str, Any]:
    """What a Node carries of others."""
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    spec = dict(node.get("spec", {}))
    for key in list(spec):
        if key.startswith("podCIDR"):
            del spec[key]
    return {
        "labels": _foreign(labels, (LOST, CLIQUE)),
        "clique": labels.get(CLIQUE),
        "annotations": _foreign(annotations, (BEAT,)),
        "finalizers": metadata.get("finalizers"),
        "owners": metadata.get("ownerReferences"),
        "spec": spec,
    }


def _foreign(entries: dict[str, str], ours: tuple[str, ...]) -> dict[str, str]:
    """Labels or annotations without those below our prefix, and without these."""
    foreign = dict(entries)
    for key in entries:
        if key in ours or key.startswith(PREFIX):
            del foreign[key]
    return foreign


class NodeRules:
    """What holds for Nodes, at every state of each that anybody could have seen."""

    def __init__(self, machines: list[Machine], findings: Findings) -> None:
        self._machines = {machine.node: machine for machine in machines}
        self._findings = findings
        self._planted: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, tuple[str, dict[str, str]]] = {}

    def plant(self, node: dict[str, Any]) -> None:
        """What others have written on a Node, which must stay."""
        self._planted[node["metadata"]["name"]] = {
            **others(node),
            "ours": ours(node["metadata"]["labels"]),
        }

    def gone(self, document: dict[str, Any]) -> None:
        """A Node was deleted: what it carried went with it."""
        self._seen.pop(document["metadata"]["name"], None)

    def seen(self, node: dict[str, Any]) -> None:
        """Judge one state of a Node."""
        metadata = node["metadata"]
        name, uid, labels = metadata["name"], metadata["uid"], ours(metadata.get("labels") or {})
        planted = self._planted.get(name)
        if planted is None:
            return
        self._findings.checked("foreign")
        self._judge_others(name, planted, {**others(node), "ours": labels})
        machine = self._machines.get(name)
        if machine is None:
            return
        self._findings.checked("labels")
        before_uid, before = self._seen.get(name, ("", {}))
        self._seen[name] = uid, labels
        if before_uid == uid:
            for key in sorted(before.keys() - labels.keys()):
                if not machine.may_lose(key):
                    self._findings.add(
                        "labels", f"node {name}: {key} ({before[key]}) disappeared without evidence"
                    )
        for key, value in sorted(labels.items()):
            if before.get(key) != value and not machine.may_say(key, value):
                self._findings.add(
                    "labels", f"node {name}: {key} became {value!r} without evidence"
                )

    def _judge_others(self, name: str, planted: dict[str, Any], now: dict[str, Any]) -> None:
        """Judge what is not an agent's to write. The clique may be away: its writer has stopped."""
        for part, was in planted.items():
            if part == "ours" and name in self._machines:
                continue
            if part == "clique" and now[part] is None:
                continue
            if now[part] != was:
                self._findings.add("foreign", f"node {name}: {part} were {was} and are {now[part]}")


class ObjectRules:
    """What holds for objects of others in one collection: they stay as they were planted."""

    def __init__(self, collection: str, findings: Findings) -> None:
        self._collection = collection
        self._findings = findings
        self._planted: dict[str, Any] = {}

    def plant(self, document: dict[str, Any]) -> None:
        """What somebody else made."""
        self._planted[document["metadata"]["name"]] = _essence(document)

    def forget_foreign(self) -> None:
        """Whoever made them takes them away, until they are planted anew: their names are free."""
        self._planted.clear()

    def gone(self, document: dict[str, Any]) -> None:
        """An object was deleted."""
        name = document["metadata"]["name"]
        if name in self._planted:
            self._findings.add("foreign", f"{self._collection}/{name} was deleted")

    def seen(self, document: dict[str, Any]) -> None:
        """Judge one state of an object."""
        name = document["metadata"]["name"]
        if name not in self._planted:
            return
        self._findings.checked("foreign")
        if _essence(document) != self._planted[name]:
            self._findings.add("foreign", f"{self._collection}/{name} became {_essence(document)}")


class TopologyRules:
    """What holds for a ClusterTopology that has been fine.

    Nothing but `may_lack` gives evidence against a level.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.levels: dict[str, Any] = {}
        """Name to the levels that its status should show."""
        self.may_lack: Callable[[str], set[str]] = lambda _name: set()
        """Which of them have been gone from all nodes for longer than their grace period."""

    def gone(self, document: dict[str, Any]) -> None:
        """Nothing to say: a ClusterTopology is the administrator's."""

    def seen(self, document: dict[str, Any]) -> None:
        """Judge one status."""
        name = document["metadata"]["name"]
        status = document.get("status") or {}
        wanted = self.levels.get(name)
        if wanted is None or not status.get("levels"):
            return
        self._findings.checked("levels")
        keys = [level["key"] for level in status["levels"]]
        lacking = self.may_lack(name)
        excused = lacking.difference(keys)
        if keys != [key for key in wanted if key not in excused]:
            self._findings.add(
                "levels", f"status of {name} shows the levels {keys}, should be {wanted}"
            )
        if not lacking:
            self._judge_conditions(name, status.get("conditions") or ())

    def _judge_conditions(self, name: str, conditions: Iterable[dict[str, Any]]) -> None:
        for condition in conditions:
            if condition["type"] == "TopologyLevelsAvailable" and condition["status"] == "False":
                self._findings.add("levels", f"status of {name} says: {condition['message']}")


def _essence(document: dict[str, Any]) -> Any:
    metadata = document["metadata"]
    kept = {
        name: metadata.get(name)
        for name in ("labels", "annotations", "ownerReferences", "finalizers")
    }
    return timeless({**kept, "spec": document.get("spec")})


Rules = NodeRules | ObjectRules | TopologyRules


class Observer:
    """Watches all collections; a context manager. Rules are called from one thread a collection."""

    def __init__(self, api: AdminApi, machines: list[Machine], findings: Findings) -> None:
        self._api = api
        self._stop = threading.Event()
        self.broken: Exception | None = None
        """Why it no longer sees everything; a run must not go on then."""
        self.nodes = NodeRules(machines, findings)
        self.topologies = TopologyRules(findings)
        self.objects = {path: ObjectRules(path, findings) for path in (GROVE, KAI, KUEUE)}
        rules: dict[str, Rules] = {NODES: self.nodes, TOPOLOGIES: self.topologies, **self.objects}
        self._threads = [
            threading.Thread(target=self._follow, args=(path, rule), daemon=True)
            for path, rule in rules.items()
        ]

    def _follow(self, path: str, rules: Rules) -> None:
        while not self._stop.is_set():
            try:
                self._watch(path, rules)
            except _TROUBLE:
                self._stop.wait(_PAUSE)
            except Exception as error:
                self.broken = error
                raise

    def _watch(self, path: str, rules: Rules) -> None:
        """List, then watch for as long as the server lets us."""
        listed = self._api.get(path)
        for item in listed["items"]:
            rules.seen(item)
        query = f"resourceVersion={listed['metadata']['resourceVersion']}&timeoutSeconds=20"
        with self._api.watch(path, query) as events:
            for event in events:
                if self._stop.is_set() or event["type"] == "ERROR":
                    return
                (rules.gone if event["type"] == "DELETED" else rules.seen)(event["object"])

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        # The threads are daemons that end with their watches; nobody waits for those.
        self._stop.set()
