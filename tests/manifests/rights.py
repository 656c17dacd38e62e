"""Attempts: requests with a token of one of the programs, and what must become of each."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.manifests.support import NAMESPACE
from tests.support.api import APPLY, MERGE, NODES, ApiUnderTest, node, wait_until

OWN, OTHER = f"{NODES}/confined-own", f"{NODES}/confined-other"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
# What a Node brings along that is not ours to touch.
FOREIGN = {
    "labels": {"example.com/pool": "h100", "topology.kubernetes.io/zone": "a"},
    "annotations": {"example.com/note": "keep"},
}
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


def apply_metadata(path: str, **metadata: Any) -> dict[str, Any]:
    return {
        "path": f"{path}?fieldManager=toposcope-agent&force=true",
        "body": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": path.rpartition("/")[2], **metadata}},
        "media": APPLY,
    }


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
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "toposcope-system"}],
    }
    role = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    policies = "/apis/admissionregistration.k8s.io/v1"
    return (
        Attempt("read secrets", "GET", "/api/v1/secrets", says=rbac("list", "secrets")),
        Attempt("read configuration", "GET", f"{NAMESPACE}/configmaps", says=rbac("list", "configmaps")),
        Attempt("read pods", "GET", "/api/v1/pods", says=rbac("list", "pods")),
        Attempt("run in a pod", "POST", f"{NAMESPACE}/pods/a/exec?command=sh", says=rbac("create", "pods/exec")),
        Attempt("make a pod", "POST", f"{NAMESPACE}/pods", {"kind": "Pod"}, says=rbac("create", "pods")),
        Attempt(
            "bind itself to more",
            "POST",
            f"{roles}/clusterrolebindings",
            binding,
            says=rbac("create", "clusterrolebindings"),
        ),
        Attempt(
            "widen its role",
            "PATCH",
            f"{roles}/clusterroles/{account}",
            role,
            MERGE,
            says=rbac("patch", "clusterroles"),
        ),
        *(
            Attempt(
                f"make a token of {name}",
                "POST",
                f"{NAMESPACE}/serviceaccounts/{name}/token",
                token_request,
                says=rbac("create", "serviceaccounts/token"),
            )
            for name in ("toposcope-agent", "toposcope-controller")
        ),
        Attempt(
            "switch its policy off",
            "DELETE",
            f"{policies}/validatingadmissionpolicybindings/toposcope-agent.gpu.topology",
            says=rbac("delete", "validatingadmissionpolicybindings"),
        ),
        Attempt(
            "soften its policy",
            "PATCH",
            f"{policies}/validatingadmissionpolicies/toposcope-agent.gpu.topology",
            {"spec": {"failurePolicy": "Ignore"}},
            MERGE,
            says=rbac("patch", "validatingadmissionpolicies"),
        ),
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
        wait_until(functools.partial(_as_it_should_be, api, probe, token), f"in force: {probe.what}")


def _as_it_should_be(api: ApiUnderTest, probe: Attempt, token: str) -> bool:
    return not surprises(api, (probe,), token)


def granted(api: ApiUnderTest, token: str, group: str, resource: str, verbs: Iterable[str]) -> frozenset[str]:
    """The verbs that RBAC grants; the kind need not be served for that."""
    found = set()
    for verb in verbs:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"group": group, "resource": resource, "verb": verb}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        _, answer = api.request("POST", path, review, token=token)
        if answer["status"]["allowed"]:
            found.add(verb)
    return frozenset(found)


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
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = api.create(f"{NAMESPACE}/serviceaccounts/{account}/token", request)["status"]["token"]
    return token


def kubeconfig_with(api: ApiUnderTest, token: str, folder: Path) -> Path:
    """A kubeconfig with this token."""
    config = yaml.safe_load(api.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    kubeconfig = folder / "confined"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    return kubeconfig
