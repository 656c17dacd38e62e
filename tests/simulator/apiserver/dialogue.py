"""What tests ask an API server beyond the requests of `ApiUnderTest`, and how they read its answers."""

from collections.abc import Iterator
from typing import Any

from tests.support.api import APPLY, NODES, ApiUnderTest, node

NODE = f"{NODES}/n1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

Event = dict[str, Any]


def create_node(api: ApiUnderTest, name: str = "n1", /, **labels: str) -> Any:
    """Create a Node with these labels."""
    return api.create(NODES, node(name, labels=labels))


def config_map(name: str) -> dict[str, Any]:
    """A ConfigMap without data."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def applied(api: ApiUnderTest, path: str, obj: Any, manager: str, *, force: bool = False, code: int = 200) -> Any:
    """The answer to a server-side apply, which must have this status."""
    query = f"fieldManager={manager}&force={str(force).lower()}"
    actual, answer = api.request(
        "PATCH",
        f"{path}?{query}",
        obj,
        content_type=APPLY,
    )
    assert actual == code, answer
    return answer


def conflict(api: ApiUnderTest, path: str, obj: Any, manager: str) -> Any:
    """The Status of an apply that goes against another manager's fields."""
    return applied(api, path, obj, manager, code=409)


def get(api: ApiUnderTest, path: str, accept: str) -> Any:
    """What must be there, in another form."""
    code, answer = api.request("GET", path, accept=accept)
    assert code == 200, answer
    return answer


def version_of(answer: Any) -> str:
    """The resource version of an object or a list."""
    version = answer["metadata"]["resourceVersion"]
    return str(version)


def names_of(answer: Any) -> list[str]:
    """The names in a list."""
    return [item["metadata"]["name"] for item in answer["items"]]


def owners_of(answer: Any, label: str) -> list[str]:
    """Managers of a label, each with its operation, as in `agent Apply`."""
    owners = []
    metadata = answer["metadata"]
    for entry in metadata.get("managedFields", ()):
        fields = entry["fieldsV1"]
        labels = fields.get("f:metadata", {}).get("f:labels", {})
        if f"f:{label}" not in labels:
            continue
        manager = entry["manager"]
        operation = entry["operation"]
        owners.append(f"{manager} {operation}")
    return sorted(owners)


def expect(events: Iterator[Event], *expected: str, in_order: bool = True) -> list[Event]:
    """The next events of a watch, each by its type and name, as in `ADDED n1`.

    Their versions ascend, unless a watch begins with what is there: that may come in any order.
    """
    seen = []
    for words in expected:
        event = next(events)
        metadata = event["object"]["metadata"]
        name = metadata.get("name", "")
        actual = f"{event['type']} {name}"
        assert actual.strip() == words
        seen.append(event)
    if in_order:
        assert_ascending(seen)
    return seen


def assert_ascending(events: list[Event]) -> None:
    """Each event has a later version than the one before it."""
    versions = []
    for event in events:
        version = version_of(event["object"])
        versions.append(int(version))
    assert versions == sorted(versions)
