"""The page's server in the cluster: what it is made of, and what its token may and may not do."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests.support import NAMESPACE, TOPOLOGIES, Manifests, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node, wait_until
from tests.support.paths import MANIFESTS
from toposcope.kube.config import load
from toposcope.ui.facts import Facts
from toposcope.ui.live import EXPECTED, LiveSource
from toposcope.ui.program import listening

ACCOUNT = f"{NAMESPACE}/serviceaccounts/toposcope-ui/token"
PODS = "/api/v1/pods"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAY = {
    ("", "nodes"): {"get", "list", "watch"},
    ("", "pods"): {"list", "watch"},
    ("gpu.topology", "clustertopologies"): {"list", "watch"},
}
OTHERS = (
    ("", "nodes/proxy"),
    ("", "nodes/status"),
    ("", "pods/log"),
    ("", "pods/exec"),
    ("", "pods/eviction"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "events"),
    ("", "services/proxy"),
    ("", "serviceaccounts/token"),
    ("apps", "deployments"),
    ("batch", "jobs"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("gpu.topology", "clustertopologies/status"),
    ("grove.io", "clustertopologybindings"),
    ("kai.scheduler", "topologies"),
    ("rbac.authorization.k8s.io", "clusterroles"),
)
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "overlay"
    folder.mkdir()
    text = {
        "resources": [os.path.relpath(MANIFESTS / "base", folder)],
        "components": [os.path.relpath(MANIFESTS / "components" / "ui", folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(text))
    return folder


@pytest.fixture
def found(kubectl: str, overlay: Path) -> Manifests:
    return Manifests(list(yaml.safe_load_all(run_kubectl(kubectl, "kustomize", overlay).stdout)))


def test_the_pod_is_confined_and_listens_where_its_probes_ask(found: Manifests) -> None:
    spec = found.pod_template("ui")["spec"]
    (container,) = spec["containers"]

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["args"][:3] == ["ui", "--listen", "::"]
    assert container["args"][4] == str(container["ports"][0]["containerPort"])
    assert "memory" in container["resources"]["limits"]
    assert "volumes" not in spec
    service = found.get("Service", "toposcope-ui")["spec"]
    labels = found.pod_template("ui")["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    controller = found.get("Deployment", "toposcope-controller")["spec"]["selector"]["matchLabels"]
    assert not controller.items() <= labels.items()
    assert container["image"] == found.pod_template("controller")["spec"]["containers"][0]["image"]


def test_no_pod_may_reach_the_page(found: Manifests) -> None:
    policy = found.get("NetworkPolicy", "toposcope-ui")["spec"]

    assert policy["ingress"] == []
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["podSelector"]["matchLabels"].items() <= found.pod_template("ui")["metadata"]["labels"].items()


def test_it_listens_for_both_families() -> None:
    with listening("::", 0) as listener, listening("127.0.0.1", 0):
        assert listener.getsockname()[1]


@pytest.mark.real_api("RBAC, TokenRequest and Pod Security admission")
def test_the_token_reads_what_the_page_shows_and_nothing_else(
    installed: ApiUnderTest, kubectl: str, overlay: Path, found: Manifests, tmp_path: Path
) -> None:
    api = installed
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", overlay)
    code, answer = api.request("POST", f"{NAMESPACE}/pods?dryRun=All", found.pod("ui", "tried"))
    assert code == 201, answer
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = api.create(ACCOUNT, request)["status"]["token"]
    wait_until(lambda: api.request("GET", NODES, token=token)[0] == 200, "the role is in force")

    assert {request: _granted(api, token, *request) for request in MAY} == MAY
    assert {other: _granted(api, token, *other) for other in OTHERS} == {other: set() for other in OTHERS}
    assert api.request("GET", PODS, token=token)[0] == 200
    assert api.request("GET", TOPOLOGIES, token=token)[0] == 200
    assert api.request("GET", f"{NAMESPACE}/secrets", token=token)[0] == 403
    assert api.request("POST", NODES, node("made"), token=token)[0] == 403
    assert api.request("DELETE", f"{TOPOLOGIES}/cluster", token=token)[0] == 403

    # And it is enough for the program.
    api.create(NODES, node("seen"))
    config = yaml.safe_load(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "ui").write_text(yaml.safe_dump(config))
    changed = threading.Event()
    facts = Facts("the real one", EXPECTED, changed.set)
    source = LiveSource(load(str(tmp_path / "ui")), facts)
    source.start()
    wait_until(lambda: facts.complete, "everything was read")
    assert (facts.stale(), facts.warnings(), facts.pods_known) == (None, [], True)
    assert [topology.name for topology in facts.topologies()] == ["cluster"]
    seen = source.node("seen")
    assert seen
    assert source.published()[0] == ()
    source.close()


def _granted(api: ApiUnderTest, token: str, group: str, resource: str) -> set[str]:
    granted = set()
    for verb in VERBS:
        name, _, part = resource.partition("/")
        attributes: dict[str, Any] = {"group": group, "resource": name, "subresource": part, "verb": verb}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        _, answer = api.request("POST", REVIEW, review, token=token)
        if answer["status"]["allowed"]:
            granted.add(verb)
    return granted
