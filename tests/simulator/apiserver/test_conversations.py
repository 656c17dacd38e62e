"""Requests and what a server answers to them: creates, replaces, patches, applies (KEP-555), deletes."""

from typing import Any

import msgspec
import pytest

from tests.simulator.apiserver.widgets import WIDGETS, widget, widget_crd
from tests.support.api import APPLY, JSON_PATCH, MERGE, NODES, ApiUnderTest, node
from tests.support.paths import FIXTURES
from toposcope.api.yaml_text import load

_KINDS = {"PATCH": MERGE, "JSON": JSON_PATCH, "APPLY": APPLY, "FORCE": APPLY}


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """See tests/fixtures/conversations.yaml."""

    ask: str
    send: Any = None
    node: dict[str, Any] | None = None
    widget: dict[str, Any] | None = None
    kind: str = ""
    accept: str = "application/json"
    code: int = 0
    gives: dict[str, Any] = {}
    says: str = ""
    lacks: list[str] = []
    owners: dict[str, list[str]] = {}

    def body(self) -> Any:
        if self.node is not None:
            return node(**{"name": "n1", **self.node})
        if self.widget is not None:
            return widget("w1", **self.widget)
        return self.send.encode() if isinstance(self.send, str) else self.send


CONVERSATIONS = msgspec.convert(load((FIXTURES / "conversations.yaml").read_bytes()), dict[str, list[Step]])


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation(api: ApiUnderTest, name: str) -> None:
    if "widgets" in str(CONVERSATIONS[name]):
        api.ensure_crd(widget_crd())
    for step in CONVERSATIONS[name]:
        method, *managers, path = step.ask.split()
        path = path.replace("nodes", NODES, 1).replace("widgets", WIDGETS, 1) if path[0] != "/" else path
        path += f"?fieldManager={managers[0]}&force={str(method == 'FORCE').lower()}" if managers else ""
        verb = "PATCH" if method in _KINDS else method
        kind = step.kind or _KINDS.get(method, "application/json")
        code, answer = api.request(verb, path, step.body(), content_type=kind, accept=step.accept)
        assert code == (step.code or (201 if verb == "POST" else 200)), answer
        assert {place: found(answer, place) for place in step.gives} == step.gives
        assert step.says in (answer if isinstance(answer, str) else answer.get("message", ""))
        assert [place for place in step.lacks if found(answer, place) is not None] == []
        assert {key: owners(answer, key) for key in step.owners} == step.owners


def found(answer: Any, place: str) -> Any:
    """What is at a path of fields and indexes; None where there is nothing."""
    for part in place.split("."):
        if isinstance(answer, list):
            answer = answer[int(part)] if int(part) < len(answer) else None
        elif answer is not None:
            answer = answer.get(part)
    return answer


def owners(answer: dict[str, Any], key: str) -> list[str]:
    """Managers of a label, each with its operation."""
    return sorted(
        f"{entry['manager']} {entry['operation']}"
        for entry in answer["metadata"].get("managedFields", ())
        if f"f:{key}" in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
    )
