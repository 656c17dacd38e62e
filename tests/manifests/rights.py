"""Attempts: requests with a token of one of the programs, and what must become of each."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.manifests.support import NAMESPACE
from tests.support.api import APPLY, JSON_PATCH, MERGE, NODES, ApiUnderTest, node, wait_until
from toposcope.cli.main import main

OWN, OTHER = f"{NODES}/confined-own", f"{NODES}/confined-other"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
# What a Node brings along that is not ours to touch.
FOREIGN = {
    "labels": {"example.com/pool": "h100", "topology.kubernetes.io/zone": "a"},
    "annotations": {"example.com/note": "keep"},
}
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
POLICY = "toposcope-agent.gpu.topology"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
# All of an Event that an update may change.
SERIES = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}


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


def apply_node(what: str, path: str, says: str = "", **metadata: Any) -> Attempt:
    """A Node's metadata, applied as the agent does it."""
    return apply(what, path, node(path.rpartition("/")[2], **metadata), says, "toposcope-agent")


def event(
    name: str, *, kind: str = "Node", about: str = "confined-own", by: str = "gpu.topology/agent"
) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"apiVersion": "v1", "kind": kind, "name": about},
        "reportingController": by,
        "reportingInstance": "confined-own",
        "action": "Discover",
        "reason": "GpuMissing",
        "type": "Warning",
    }


def rbac(verb: str, resource: str) -> str:
    return f'cannot {verb} resource "{resource}"'


def reaching(account: str) -> tuple[Attempt, ...]:
    """What no program of ours may: reach for more than it was given."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "toposcope-system"}],
    }
    role = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    soft = {"spec": {"failurePolicy": "Ignore"}}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    unbind = rbac("delete", "validatingadmissionpolicybindings")
    accounts = f"{NAMESPACE}/serviceaccounts"
    bind, impersonate = rbac("create", "clusterrolebindings"), rbac("create", "serviceaccounts/token")
    return (
        Attempt("read secrets", "GET", "/api/v1/secrets", says=rbac("list", "secrets")),
        Attempt("read configuration", "GET", f"{NAMESPACE}/configmaps", says=rbac("list", "configmaps")),
        Attempt("read pods", "GET", "/api/v1/pods", says=rbac("list", "pods")),
        Attempt("run in a pod", "POST", f"{NAMESPACE}/pods/a/exec?command=sh", says=rbac("create", "pods/exec")),
        Attempt("make a pod", "POST", f"{NAMESPACE}/pods", {"kind": "Pod"}, says=rbac("create", "pods")),
        Attempt("bind itself to more", "POST", f"{roles}/clusterrolebindings", binding, says=bind),
        merge("widen its role", f"{roles}/clusterroles/{account}", role, rbac("patch", "clusterroles")),
        *(
            Attempt(f"make a token of {name}", "POST", f"{accounts}/{name}/token", TOKEN_REQUEST, says=impersonate)
            for name in ("toposcope-agent", "toposcope-controller")
        ),
        Attempt("switch its policy off", "DELETE", f"{bindings}/{POLICY}", says=unbind),
        merge("soften its policy", f"{policies}/{POLICY}", soft, rbac("patch", "validatingadmissionpolicies")),
    )


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
    """A token as `kubectl create token` gets it: bound to no pod, so that it names no node."""
    return api.create(f"{NAMESPACE}/serviceaccounts/{account}/token", TOKEN_REQUEST)["status"]["token"]


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
