"""The same random writes to both servers: every answer must have the same state and the same owners."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulator.apiserver.widgets import WIDGETS, widget_crd
from tests.support.api import APPLY, JSON_PATCH, MERGE, NODES, ApiUnderTest

if TYPE_CHECKING:
    from pathlib import Path

    from tools.apiserver.server import RealApiServer
    from toposcope.simulator.apiserver import EmbeddedApiServer

WRITES = 120
WHEN = "2026-01-01T00:00:00Z"


class Writer:
    """Makes up writes to one object by three managers."""

    def __init__(self, kind: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._kind = kind
        self._version = {"Widget": "example.com/v1", "Node": "v1"}[kind]
        self.name = f"{kind.lower()}-{seed}"

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def some(self, *names: str) -> list[str]:
        return self._random.sample(names, self._random.randint(0, len(names)))

    def texts(self, *names: str) -> dict[str, str]:
        return {name: self._random.choice("12") for name in self.some(*names)}

    def spec(self) -> dict[str, Any]:
        if self._kind == "Node":
            return {"unschedulable": True} if self.chance(0.3) else {}
        parts = [{"name": name, **self.texts("value")} for name in self.some("a", "b", "c")]
        free: Any = self._random.choice([{}, {"a": 1}, {"a": {"b": [1]}}, {"a": {"c": 2}}, {"b": [{"x": 1}]}])
        fields = {
            "count": self._random.randint(1, 3),
            "mode": self._random.choice(["Auto", "Never"]),
            "parts": parts,
            "tags": self.some("x", "y", "z"),
            "order": [*self.some("x", "y"), "z"],
            "extra": self.texts("a", "b"),
            "free": free,
        }
        return {"name": self._random.choice(["abc", "abd"]), **{k: v for k, v in fields.items() if self.chance(0.4)}}

    def status(self) -> dict[str, Any]:
        times = {"lastTransitionTime": WHEN, "lastHeartbeatTime": WHEN} if self._kind == "Node" else {}
        conditions = [
            {"type": name, "status": self._random.choice(["True", "False"]), **self.texts("reason"), **times}
            for name in self.some("A", "B", "C")
        ]
        return {"conditions": conditions}

    def object(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self.name}
        for field in ("labels", "annotations"):
            if self.chance(0.5):
                metadata[field] = self.texts("a", "b", "c", "d")
        return {"apiVersion": self._version, "kind": self._kind, "metadata": metadata, "spec": self.spec()}

    def next(self) -> tuple[str, str, Any, str]:
        """Method, subresource with query, body, content type."""
        manager = f"?fieldManager={self._random.choice(['m1', 'm2', 'm3'])}"
        force = f"&force={self._random.choice(['true', 'false'])}"
        obj = self.object()
        kind = self._random.choices(["apply", "apply status", "merge", "merge status", "remove"], [5, 1, 2, 1, 1])[0]
        if kind == "apply":
            return "PATCH", manager + force, obj, APPLY
        if kind == "apply status":
            del obj["spec"]
            return "PATCH", f"/status{manager}&force=true", {**obj, "status": self.status()}, APPLY
        if kind == "merge":
            return "PATCH", manager, {"metadata": obj["metadata"], "spec": obj["spec"]}, MERGE
        if kind == "merge status":
            return "PATCH", f"/status{manager}", {"status": self.status()}, MERGE
        return "PATCH", manager, [{"op": "remove", "path": "/metadata/labels/a"}], JSON_PATCH


def comparable(answer: Any) -> Any:
    """Leave out what must differ, and what admission and Go's zero values add on the real server."""
    answer = copy.deepcopy(answer)
    metadata = answer["metadata"]
    for name in ("uid", "resourceVersion", "creationTimestamp"):
        metadata.pop(name, None)
    entries = [{**entry, "time": ""} for entry in metadata.get("managedFields", ())]
    metadata["managedFields"] = sorted(map(json.dumps, ({k: e[k] for k in sorted(e)} for e in entries)))
    if answer.get("kind") == "Node":
        answer["spec"].pop("taints", None)
        for condition in answer["status"].get("conditions", ()):
            condition.setdefault("status", "")
    return answer


@pytest.fixture
def both(embedded_server: EmbeddedApiServer, real_server: RealApiServer, tmp_path: Path) -> list[ApiUnderTest]:
    real, embedded = ApiUnderTest.of_real(real_server, tmp_path), ApiUnderTest.of_embedded(embedded_server, tmp_path)
    for api in (real, embedded):
        api.ensure_crd(widget_crd())
    return [real, embedded]


@pytest.mark.parametrize("kind", ["Widget", "Node"])
@pytest.mark.parametrize("seed", range(2))
def test_random_writes(both: list[ApiUnderTest], kind: str, seed: int) -> None:
    writer = Writer(kind, seed)
    collection = {"Widget": WIDGETS, "Node": NODES}[kind]
    path = f"{collection}/{writer.name}"
    first = writer.object()
    try:
        for api in both:
            api.create(
                f"{collection}?fieldManager=m1", {**first, "metadata": {**first["metadata"], "labels": {"a": "1"}}}
            )
        for index in range(WRITES):
            method, where, body, content_type = writer.next()
            real, embedded = (api.request(method, path + where, body, content_type=content_type) for api in both)
            said = f"write {index}: {method} {where} {json.dumps(body)}"
            assert embedded[0] == real[0], (said, embedded[1], real[1])
            if real[0] == 200:
                assert comparable(embedded[1]) == comparable(real[1]), said
    finally:
        both[0].request("DELETE", path)
