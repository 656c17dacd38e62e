"""Requests and what a server answers to them: writes, applies (KEP-555), deletes, lists, watches."""

import json
import re
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
    like: dict[str, str] = {}
    says: str = ""
    lacks: list[str] = []
    owners: dict[str, list[str]] = {}
    saves: dict[str, str] = {}
    names: str | None = None
    meanwhile: list["Step"] = []
    events: list[str] = []
    ends: bool = False

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
    converse(api, CONVERSATIONS[name], {})


def converse(api: ApiUnderTest, steps: list[Step], saved: dict[str, Any]) -> None:
    for step in (filled(step, saved) for step in steps):
        method, *managers, path = step.ask.split()
        path = path.replace("nodes", NODES, 1).replace("widgets", WIDGETS, 1) if path[0] != "/" else path
        answer: Any
        if method == "WATCH":
            answer = watched(api, path, step, saved)
        else:
            path += f"?fieldManager={managers[0]}&force={str(method == 'FORCE').lower()}" if managers else ""
            verb = "PATCH" if method in _KINDS else method
            kind = step.kind or _KINDS.get(method, "application/json")
            code, answer = api.request(verb, path, step.body(), content_type=kind, accept=step.accept)
            assert code == (step.code or (201 if verb == "POST" else 200)), answer
            assert {key: owners(answer, key) for key in step.owners} == step.owners
        if step.says:
            about = answer[0]["object"] if method == "WATCH" else answer
            assert step.says in (about if isinstance(about, str) else about["message"])
        assert {place: found(answer, place) for place in step.gives} == step.gives
        assert [place for place, form in step.like.items() if not re.fullmatch(form, found(answer, place))] == []
        assert [place for place in step.lacks if found(answer, place) is not None] == []
        assert step.names is None or " ".join(item["metadata"]["name"] for item in answer["items"]) == step.names
        saved |= {word: found(answer, place) for word, place in step.saves.items()}


def watched(api: ApiUnderTest, path: str, step: Step, saved: dict[str, Any]) -> list[Any]:
    """The next events of a watch, while other requests are made."""
    path, _, query = path.partition("?")
    query += f"&timeoutSeconds={1 if step.ends and not step.events else 20}"
    with api.watch(path, query, accept=step.accept) as events:
        converse(api, step.meanwhile, saved)
        seen = [next(events) for _ in step.events]
        assert not step.ends or [*events] == []
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen if event["type"] != "ERROR"]
    assert versions == sorted(versions) or "sendInitialEvents" in query or "resourceVersion=" not in query
    assert [f"{event['type']} {event['object']['metadata'].get('name', '')}".strip() for event in seen] == step.events
    return seen


def filled(step: Step, saved: dict[str, Any]) -> Step:
    """The step with what was saved in the place of each `$word`; those of what happens meanwhile wait."""
    text = json.dumps(msgspec.to_builtins(msgspec.structs.replace(step, meanwhile=[])))
    for word, value in saved.items():
        whole = isinstance(value, dict)
        text = text.replace(f'"${word}"' if whole else f"${word}", json.dumps(value) if whole else str(value))
    return msgspec.structs.replace(msgspec.json.decode(text, type=Step), meanwhile=step.meanwhile)


def found(answer: Any, place: str) -> Any:
    """What is at a path of fields and indexes; None where there is nothing."""
    for part in filter(None, place.split(".")):
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
