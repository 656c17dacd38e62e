"""Watches what must not happen, on connections of its own straight to the API server."""

import http.client
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self

from tools.apiserver.client import AdminApi
from tools.chaos.cluster import BEAT, CLIQUE, GROVE, KAI, KUEUE, LOST, NODES, TOPOLOGIES
from tools.chaos.desired import timeless
from tools.chaos.machines import PREFIX, Machine
from tools.chaos.violations import Findings

_PAUSE_SECONDS: Final = 0.3
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
        self._machines: dict[str, Machine] = {}
        for machine in machines:
            self._machines[machine.node] = machine
        self._findings = findings
        self._planted: dict[str, dict[str, Any]] = {}
        self._last_states: dict[str, tuple[str, dict[str, str]]] = {}

    def plant(self, node: dict[str, Any]) -> None:
        """What others have written on a Node, which must stay."""
        metadata = node["metadata"]
        name = metadata["name"]
        self._planted[name] = {
            **others(node),
            "ours": ours(metadata["labels"]),
        }

    def gone(self, document: dict[str, Any]) -> None:
        """A Node was deleted: what it carried went with it."""
        self._last_states.pop(document["metadata"]["name"], None)

    def seen(self, node: dict[str, Any]) -> None:
        """Judge one state of a Node."""
        metadata = node["metadata"]
        name = metadata["name"]
        uid = metadata["uid"]
        labels = ours(metadata.get("labels") or {})
        planted = self._planted.get(name)
        if planted is None:
            return
        self._findings.checked("foreign")
        now = {**others(node), "ours": labels}
        self._judge_others(name, planted, now)

        machine = self._machines.get(name)
        if machine is None:
            return
        self._findings.checked("labels")
        before_uid, before = self._last_states.get(name, ("", {}))
        self._last_states[name] = (uid, labels)
        if before_uid == uid:
            self._judge_lost(machine, before, labels)
        self._judge_said(machine, before, labels)

    def _judge_lost(self, machine: Machine, before: dict[str, str], labels: dict[str, str]) -> None:
        """Judge the labels that a Node had and has no more."""
        lost = before.keys() - labels.keys()
        for key in sorted(lost):
            if machine.may_lose(key):
                continue
            self._findings.add(
                "labels",
                f"node {machine.node}: {key} ({before[key]}) disappeared without evidence",
            )

    def _judge_said(self, machine: Machine, before: dict[str, str], labels: dict[str, str]) -> None:
        """Judge the labels that a Node has got, or with another value."""
        for key, value in sorted(labels.items()):
            if before.get(key) == value:
                continue
            if machine.may_say(key, value):
                continue
            self._findings.add(
                "labels",
                f"node {machine.node}: {key} became {value!r} without evidence",
            )

    def _judge_others(self, name: str, planted: dict[str, Any], now: dict[str, Any]) -> None:
        """Judge what is not an agent's to write. The clique may be away: its writer has stopped."""
        for part, was in planted.items():
            value = now[part]
            if part == "ours" and name in self._machines:
                continue
            if part == "clique" and value is None:
                continue
            if value != was:
                finding = f"node {name}: {part} were {was} and are {value}"
                self._findings.add("foreign", finding)


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
        planted = self._planted.get(name)
        if planted is None:
            return
        self._findings.checked("foreign")
        now = _essence(document)
        if now != planted:
            path = f"{self._collection}/{name}"
            self._findings.add("foreign", f"{path} became {now}")


def _expected(wanted: Sequence[str], shown: Sequence[str], lacking: set[str]) -> list[str]:
    """The wanted levels without those that may be lacking and are."""
    expected = []
    for key in wanted:
        if key in shown or key not in lacking:
            expected.append(key)
    return expected


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
        levels = status.get("levels")
        wanted = self.levels.get(name)
        if wanted is None or not levels:
            return
        self._findings.checked("levels")

        keys = [level["key"] for level in levels]
        lacking = self.may_lack(name)
        if keys != _expected(wanted, keys, lacking):
            finding = f"status of {name} shows the levels {keys}, should be {wanted}"
            self._findings.add("levels", finding)

        if not lacking:
            conditions = status.get("conditions") or ()
            self._judge_conditions(name, conditions)

    def _judge_conditions(self, name: str, conditions: Iterable[dict[str, Any]]) -> None:
        for condition in conditions:
            if condition["type"] != "TopologyLevelsAvailable":
                continue
            if condition["status"] == "False":
                message = condition["message"]
                self._findings.add("levels", f"status of {name} says: {message}")


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

        rules: dict[str, Rules] = {
            NODES: self.nodes,
            TOPOLOGIES: self.topologies,
            **self.objects,
        }
        self._threads = []
        for path, rule in rules.items():
            thread = threading.Thread(
                target=self._follow,
                args=(path, rule),
                daemon=True,
            )
            self._threads.append(thread)

    def _follow(self, path: str, rules: Rules) -> None:
        while not self._stop.is_set():
            try:
                self._watch(path, rules)
            except _TROUBLE:
                self._stop.wait(_PAUSE_SECONDS)
            except Exception as error:
                self.broken = error
                raise

    def _watch(self, path: str, rules: Rules) -> None:
        """List, then watch for as long as the server lets us."""
        listed = self._api.get(path)
        for item in listed["items"]:
            rules.seen(item)

        version = listed["metadata"]["resourceVersion"]
        query = f"resourceVersion={version}&timeoutSeconds=20"
        with self._api.watch(path, query) as events:
            for event in events:
                kind = event["type"]
                if self._stop.is_set() or kind == "ERROR":
                    return
                document = event["object"]
                if kind == "DELETED":
                    rules.gone(document)
                else:
                    rules.seen(document)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        # The threads are daemons that end with their watches; nobody waits for those.
        self._stop.set()
