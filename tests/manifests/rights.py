"""Attempts: requests with a token of one of the programs, and what must become of each."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.support.api import APPLY, JSON_PATCH, MERGE, NODES, ApiUnderTest, account_token, node, wait_until
from tests.support.paths import FIXTURES
from tests.support.tables import named_objects
from toposcope.api.yaml_text import load
from toposcope.cli.main import main

_KNOWN = named_objects("rights/known.yaml")
PLACES: dict[str, str] = _KNOWN["places"]
OWN, OTHER, EVENTS = PLACES["OWN"], PLACES["OTHER"], PLACES["EVENTS"]
FOREIGN: dict[str, dict[str, str]] = _KNOWN["foreign"]
_MEDIA = dict.fromkeys(("body", "event"), "application/json") | {"merge": MERGE, "json_patch": JSON_PATCH}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request, and for a refused one what the answer must say."""

    what: str
    method: str
    path: str
    body: Any = None
    media: str = "application/json"
    says: str = ""


def merge(what: str, path: str, body: dict[str, Any], says: str = "") -> Attempt:
    """A merge patch."""
    return Attempt(what, "PATCH", path, body, MERGE, says)


def json_patch(what: str, path: str, op: str, field: str, value: Any = None, says: str = "") -> Attempt:
    """A JSON patch with one operation."""
    return Attempt(what, "PATCH", path, [{"op": op, "path": field, "value": value}], JSON_PATCH, says)


def apply(what: str, path: str, body: dict[str, Any], says: str = "", manager: str = "toposcope-controller") -> Attempt:
    """A forced server-side apply."""
    return Attempt(what, "PATCH", f"{path}?fieldManager={manager}&force=true", body, APPLY, says)


def apply_node(what: str, path: str, says: str = "", by: str = "toposcope-agent", **metadata: Any) -> Attempt:
    """A Node's metadata, applied as the agent does it, or another manager."""
    return apply(what, path, node(path.rpartition("/")[2], **metadata), says, by)


def event(
    name: str, *, kind: str = "Node", about: str = "confined-own", by: str = "gpu.topology/agent", **more: Any
) -> dict[str, Any]:
    """An Event as the agent writes it; what `more` has goes into its metadata and regarding, or beside them."""
    body = _KNOWN["event"] | {
        "metadata": {"name": name, "namespace": "default"},
        "regarding": {"apiVersion": "v1", "kind": kind, "name": about},
        "reportingController": by,
    }
    return body | {key: {**body.get(key, {}), **value} for key, value in more.items()}


def attempts(table: str, part: str, account: str = "") -> tuple[Attempt, ...]:
    """A part of a table in tests/fixtures/rights/, where ACCOUNT stands for a program's service account.

    A row has `what`, `request` (method and path), `says` for a refused one, and a body in the form that its key names.
    """
    text = (FIXTURES / "rights" / f"{table}.yaml").read_bytes().replace(b"ACCOUNT", account.encode())
    return tuple(_attempt(**row) for row in load(text)[part])


def _attempt(what: str, request: str, says: str = "", **given: Any) -> Attempt:
    method, _, path = request.partition(" ")
    path = re.sub("^[A-Z]*", lambda word: PLACES.get(word[0], ""), path)
    ((form, body),) = (given or {"body": None}).items()
    if form == "node":
        return apply_node(what, path, says, **body)
    if form == "apply":
        return apply(what, path, body, says)
    return Attempt(what, method, path, event(**body) if form == "event" else body, _MEDIA[form], says)


def surprises(api: ApiUnderTest, attempts: Iterable[Attempt], token: str) -> dict[str, tuple[int, str]]:
    """The attempts that did not end as the table says."""
    found = {}
    for a in attempts:
        code, answer = api.request(a.method, a.path, a.body, content_type=a.media, token=token)
        message = answer.get("message", "")
        as_expected = code == 403 and a.says in message if a.says else code in {200, 201}
        if not as_expected:
            found[a.what] = (code, message)
    return found


def wait_for(api: ApiUnderTest, probes: Iterable[Attempt], token: str) -> None:
    """Wait until roles and policies, which take effect a moment after they are written, have done so.

    One probe for each of them is enough, each asked until it is answered as it should be.
    """
    for probe in probes:
        wait_until(lambda probe=probe: not surprises(api, (probe,), token), f"in force: {probe.what}")  # type: ignore[misc]


def granted(api: ApiUnderTest, token: str, group: str, resource: str) -> set[str]:
    """The verbs that RBAC grants on a resource, or on a `resource/subresource`; the kind need not be served."""
    name, _, part = resource.partition("/")
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    found = set()
    for verb in VERBS:
        attributes = {"group": group, "resource": name, "subresource": part, "verb": verb}
        _, answer = api.request("POST", path, {**review, "spec": {"resourceAttributes": attributes}}, token=token)
        if answer["status"]["allowed"]:
            found.add(verb)
    return found


def grants(program: str) -> dict[tuple[str, str], set[str]]:
    """What `granted` finds for a program, by group and resource."""
    table = load((FIXTURES / "rights" / "grants.yaml").read_bytes())[program]
    listed = [(name.partition("."), set(verbs.split())) for verbs, names in table.items() for name in names]
    return {(group, resource): verbs for (resource, _, group), verbs in listed}


def make_node(api: ApiUnderTest, path: str) -> None:
    """A Node with labels and annotations of others."""
    api.create(NODES, node(path.rpartition("/")[2], **FOREIGN))


def untouched(api: ApiUnderTest) -> list[dict[str, Any]]:
    """All of both Nodes that is not the agent's to write."""
    return [without_ours(api.get(path)) for path in (OWN, OTHER)]


def without_ours(entry: dict[str, Any]) -> dict[str, Any]:
    """A Node without what only our programs write."""
    metadata = {k: v for k, v in entry["metadata"].items() if k not in {"managedFields", "resourceVersion"}}
    for field in ("labels", "annotations"):
        metadata[field] = {k: v for k, v in metadata[field].items() if not k.startswith("gpu.topology/")}
    return {**entry, "metadata": metadata}


def unbound_token(api: ApiUnderTest, account: str) -> str:
    """A token of a program's account that names no node."""
    return account_token(api, "toposcope-system", account)


def run_agent(name: str, kubeconfig: Path, *flags: str) -> int:
    """Have the agent describe a node once, on the machine of a DGX H200; its exit status."""
    return main(
        ["agent", "--once", "--profile", "dgx-h200", "--node-name", name, "--kubeconfig", str(kubeconfig), *flags]
    )


def kubeconfig_with(api: ApiUnderTest, token: str, folder: Path) -> Path:
    """A kubeconfig with this token."""
    config = yaml.safe_load(api.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    kubeconfig = folder / "confined"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    return kubeconfig
