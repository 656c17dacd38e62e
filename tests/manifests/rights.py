"""Attempts: requests with a token of one of the programs, and what must become of each."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.support.api import APPLY, JSON_PATCH, MERGE, ApiUnderTest, account_token, node, wait_until
from toposcope.cli.main import main
from toposcope.integrations.binding_paths import path_of_object

NODES: Final = "/api/v1/nodes"
OWN: Final = f"{NODES}/confined-own"
OTHER: Final = f"{NODES}/confined-other"
GHOST: Final = f"{NODES}/ghost"
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
TOPOLOGIES: Final = "/apis/gpu.topology/v1alpha1/clustertopologies"
HOME: Final = "/api/v1/namespaces/toposcope-system"
PLAN: Final = f"{HOME}/configmaps/toposcope-node-plan"
PATHS: Final = path_of_object("toposcope-system")
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases"
AGENTS: Final = "/apis/apps/v1/namespaces/toposcope-system/daemonsets"
CONTROLLERS: Final = "/apis/apps/v1/namespaces/toposcope-system/deployments"
FLAVORS: Final = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"

FOREIGN: Final[dict[str, dict[str, str]]] = {
    "labels": {"example.com/pool": "h100", "topology.kubernetes.io/zone": "a"},
    "annotations": {"example.com/note": "keep"},
}
"""What a Node has that is not ours to touch."""
OWNER: Final = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}
"""An owner, with which an object would be garbage-collected."""
VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request; a refused one has in `says` what the answer must contain, an allowed one nothing."""

    what: str
    method: str
    path: str
    body: Any = None
    media: str = "application/json"
    says: str = ""


def get(what: str, path: str, says: str = "") -> Attempt:
    """Read an object or a list."""
    return Attempt(what, "GET", path, says=says)


def delete(what: str, path: str, says: str = "") -> Attempt:
    """Delete an object or a collection."""
    return Attempt(what, "DELETE", path, says=says)


def post(what: str, path: str, body: dict[str, Any] | None = None, says: str = "") -> Attempt:
    """Create an object."""
    return Attempt(what, "POST", path, body, says=says)


def merge(what: str, path: str, body: dict[str, Any], says: str = "") -> Attempt:
    """A merge patch."""
    return Attempt(what, "PATCH", path, body, MERGE, says)


def merge_metadata(what: str, path: str, says: str = "", **metadata: Any) -> Attempt:
    """A merge patch of metadata."""
    return merge(what, path, {"metadata": metadata}, says)


def json_patch(what: str, path: str, op: str, field: str, value: Any = None, *, says: str = "") -> Attempt:
    """A JSON patch with one operation."""
    return Attempt(what, "PATCH", path, [{"op": op, "path": field, "value": value}], JSON_PATCH, says)


def apply(what: str, path: str, body: dict[str, Any], says: str = "", manager: str = "toposcope-controller") -> Attempt:
    """A forced server-side apply."""
    return Attempt(what, "PATCH", f"{path}?fieldManager={manager}&force=true", body, APPLY, says)


def apply_node(what: str, path: str, says: str = "", by: str = "toposcope-agent", **metadata: Any) -> Attempt:
    """A Node's metadata, applied as the agent does it, or another manager."""
    name = path.rpartition("/")[2]
    return apply(what, path, node(name, **metadata), says, by)


def event(
    name: str | None, *, kind: str = "Node", about: str = "confined-own", by: str = "gpu.topology/agent", **more: Any
) -> dict[str, Any]:
    """An Event as the agent writes it; what `more` has goes into its metadata and regarding, or beside them."""
    body: dict[str, Any] = {
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
    for key, value in more.items():
        body[key] = {**body.get(key, {}), **value}
    return body


def count_event(what: str, name: str, says: str = "") -> Attempt:
    """Count an Event of the default namespace on."""
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    return merge(what, f"{EVENTS}/{name}", {"series": series}, says)


def managed(manager: str, fields: dict[str, Any], *, api_version: str = "v1", **more: str) -> dict[str, Any]:
    """An entry of managedFields as a forger writes it; `more` may have its subresource."""
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def anyone_may_not(account: str) -> tuple[Attempt, ...]:
    """Reaching for more than any program was given, with the token of this service account."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "toposcope-system"}],
    }
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    admission = "/apis/admissionregistration.k8s.io/v1"
    return (
        get("read secrets", "/api/v1/secrets", 'cannot list resource "secrets"'),
        get("read configuration", f"{HOME}/configmaps", 'cannot list resource "configmaps"'),
        get("read pods", "/api/v1/pods", 'cannot list resource "pods"'),
        post("run in a pod", f"{HOME}/pods/a/exec?command=sh", says='cannot create resource "pods/exec"'),
        post("make a pod", f"{HOME}/pods", {"kind": "Pod"}, 'cannot create resource "pods"'),
        post(
            "bind itself to more",
            f"{rbac}/clusterrolebindings",
            binding,
            'cannot create resource "clusterrolebindings"',
        ),
        merge(
            "widen its role",
            f"{rbac}/clusterroles/{account}",
            {"rules": [everything]},
            'cannot patch resource "clusterroles"',
        ),
        post(
            "make a token of toposcope-agent",
            f"{HOME}/serviceaccounts/toposcope-agent/token",
            token_request,
            'cannot create resource "serviceaccounts/token"',
        ),
        post(
            "make a token of toposcope-controller",
            f"{HOME}/serviceaccounts/toposcope-controller/token",
            token_request,
            'cannot create resource "serviceaccounts/token"',
        ),
        delete(
            "switch its policy off",
            f"{admission}/validatingadmissionpolicybindings/toposcope-agent.gpu.topology",
            'cannot delete resource "validatingadmissionpolicybindings"',
        ),
        merge(
            "soften its policy",
            f"{admission}/validatingadmissionpolicies/toposcope-agent.gpu.topology",
            {"spec": {"failurePolicy": "Ignore"}},
            'cannot patch resource "validatingadmissionpolicies"',
        ),
    )


def surprises(api: ApiUnderTest, attempts: Iterable[Attempt], token: str) -> list[str]:
    """What did not end as the attempt says: each with its request, its answer, and the answer that was expected."""
    unexpected = []
    for attempt in attempts:
        code, answer = api.request(attempt.method, attempt.path, attempt.body, content_type=attempt.media, token=token)
        message = answer.get("message", "")
        if attempt.says:
            is_expected = code == 403 and attempt.says in message
            expected = f"403 with '{attempt.says}'"
        else:
            is_expected = code in {200, 201}
            expected = "200 or 201"
        if not is_expected:
            request = f"{attempt.method} {attempt.path}"
            unexpected.append(f"{attempt.what}: {request}: expected {expected}, got {code} {message}")
    return unexpected


def assert_answers(api: ApiUnderTest, attempts: Iterable[Attempt], token: str) -> None:
    """Make all attempts; fails with the request, the answer and the expectation of each that ended otherwise."""
    unexpected = surprises(api, attempts, token)
    if unexpected:
        raise AssertionError("\n".join(unexpected))


def wait_for(api: ApiUnderTest, probes: Iterable[Attempt], token: str) -> None:
    """Wait until roles and policies, which take effect a moment after they are written, have done so."""
    for probe in probes:
        is_in_force = partial(_is_answered, api, probe, token)
        wait_until(is_in_force, f"in force: {probe.what}")


def _is_answered(api: ApiUnderTest, attempt: Attempt, token: str) -> bool:
    """Whether an attempt ends as it says."""
    return not surprises(api, [attempt], token)


def granted(api: ApiUnderTest, token: str, group: str, resource: str) -> set[str]:
    """The verbs that RBAC grants on a resource, or on a `resource/subresource`; the kind need not be served."""
    name, _, subresource = resource.partition("/")
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    verbs = set()
    for verb in VERBS:
        attributes = {"group": group, "resource": name, "subresource": subresource, "verb": verb}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        _, answer = api.request("POST", path, review, token=token)
        if answer["status"]["allowed"]:
            verbs.add(verb)
    return verbs


Grants = dict[tuple[str, str], set[str]]
"""Verbs by group and resource."""


def grants(**resources_by_verbs: list[str]) -> Grants:
    """What `granted` finds: `get_list=["nodes", "jobs.batch"]`; `none` has what is asked for and not granted."""
    verbs_by_resource = {}
    for verbs, resources in resources_by_verbs.items():
        for resource in resources:
            name, _, group = resource.partition(".")
            verbs_by_resource[group, name] = set() if verbs == "none" else set(verbs.split("_"))
    return verbs_by_resource


def granted_of(api: ApiUnderTest, token: str, resources: Iterable[tuple[str, str]]) -> Grants:
    """The verbs that RBAC grants on each of these resources, given by group and name."""
    return {(group, resource): granted(api, token, group, resource) for group, resource in resources}


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as a warning or worse."""
    return [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


def make_node(api: ApiUnderTest, path: str) -> None:
    """A Node with labels and annotations of others."""
    name = path.rpartition("/")[2]
    api.create(NODES, node(name, **FOREIGN))


def untouched(api: ApiUnderTest) -> list[dict[str, Any]]:
    """All of both Nodes that is not the agent's to write."""
    return [without_ours(api.get(path)) for path in (OWN, OTHER)]


def without_ours(entry: dict[str, Any]) -> dict[str, Any]:
    """A Node without what only our programs write."""
    metadata = dict(entry["metadata"])
    metadata.pop("managedFields", None)
    del metadata["resourceVersion"]
    for field in ("labels", "annotations"):
        metadata[field] = {key: value for key, value in metadata[field].items() if not key.startswith("gpu.topology/")}
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
    config = yaml.load(api.kubeconfig.read_text(encoding="utf-8"), yaml.CSafeLoader)
    config["users"][0]["user"] = {"token": token}
    kubeconfig = folder / "confined"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    return kubeconfig
