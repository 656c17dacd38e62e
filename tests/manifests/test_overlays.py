"""An overlay that renames the base or moves it: the policies confine the programs under their new names too."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.prune_attempts import LIST_PROGRAMS
from tests.manifests.support import apply_folder, built, create_runtime_class, serve, write_overlay
from tests.support.api import ApiUnderTest, pod_token, wait_until
from tests.support.paths import MANIFESTS
from tests.support.publishing import install
from tests.support.runtime import WatchRuntime
from toposcope.agent.publish import NodePublisher
from toposcope.api.label_keys import GPUS
from toposcope.cli.main import main
from toposcope.controller.confinement import RIGHTS, foreign_writes
from toposcope.integrations.grove.api import OLDER_TOPOLOGIES
from toposcope.integrations.registry import PUBLISHED
from toposcope.kube.account_rights import AccountRights
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.confinement import FOREIGN_NODE_WRITES, Confinement

pytestmark = [pytest.mark.slow, pytest.mark.real_api]

AGENT_WORK = (
    rights.apply_node("label its Node", rights.OWN, labels={GPUS: "8"}),
    rights.post("report on its Node", rights.EVENTS, rights.event("confined-own.1f")),
)
AGENT_FORBIDDEN = (
    rights.merge_metadata(
        "label its Node otherwise",
        f"{rights.OWN}?dryRun=All",
        "only write labels under gpu.topology/",
        labels={"a": "b"},
    ),
    rights.apply_node("label another Node", rights.OTHER, "may not write node confined-other", labels={GPUS: "8"}),
    rights.post(
        "report on another Node",
        f"{rights.EVENTS}?dryRun=All",
        rights.event("a.1", about="confined-other"),
        "may not write Events",
    ),
)
CONTROLLER_FORBIDDEN = (
    rights.post(
        "make a topology",
        f"{rights.TOPOLOGIES}?dryRun=All",
        {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": "a"}},
        "that it created for segments",
    ),
    rights.post(
        "speak for the kubelet",
        f"{rights.EVENTS}?dryRun=All",
        rights.event("a.2", by="kubelet"),
        "only write its own Events",
    ),
)
SCHEDULERS = (
    "grove-clustertopologybindings-alpha10",
    "kai-topologies-v0.17",
    "kueue-topologies-v0.19",
    "volcano-hypernodes-v1.14",
)
RENAMED = [{"op": "replace", "path": "/metadata/name", "value": "gpu-labeller"}]
BINDING = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


class Overlay:
    """An overlay of the base with some fields, applied; and tokens of pods on its first Node."""

    def __init__(self, api: ApiUnderTest, kubectl: str, folder: Path, **fields: Any) -> None:
        self._api = api
        folder = write_overlay(folder / "overlay", (), **fields)
        serve(api, kubectl)
        apply_folder(api, kubectl, folder)
        create_runtime_class(api)
        rights.make_node(api, rights.OWN)
        rights.make_node(api, rights.OTHER)
        self._manifests = built(kubectl, folder)

    def token(self, program: str) -> str:
        """A token of a pod of the program, whatever the overlay calls it."""
        kind = "DaemonSet" if program == "agent" else "Deployment"
        (workload,) = self._manifests.of_kind(kind)
        (namespace,) = self._manifests.of_kind("Namespace")
        template = workload["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"a-{program}"},
            "spec": {**template["spec"], "nodeName": "confined-own"},
        }
        name = namespace["metadata"]["name"]
        created = self._api.create(f"/api/v1/namespaces/{name}/pods", pod)
        return pod_token(self._api, created)


@pytest.mark.regression
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"namespace": "gpu-fleet"}, id="namespace"),
        pytest.param({"namePrefix": "acme-", "nameSuffix": "-eu"}, id="names"),
    ],
)
def test_policies_follow_an_overlay(api: ApiUnderTest, kubectl: str, tmp_path: Path, fields: dict[str, Any]) -> None:
    overlay = Overlay(api, kubectl, tmp_path, **fields)
    agent = overlay.token("agent")
    controller = overlay.token("controller")
    rights.wait_for(api, AGENT_WORK, agent)
    rights.wait_for(api, AGENT_FORBIDDEN, agent)
    rights.wait_for(api, CONTROLLER_FORBIDDEN, controller)


@pytest.mark.regression
def test_prune_job_stops_programs_whatever_they_are_called(api: ApiUnderTest, kubectl: str, tmp_path: Path) -> None:
    resources = []
    for name in ("base", "prune"):
        resources.append(os.path.relpath(MANIFESTS / name, tmp_path / "overlay"))
    Overlay(
        api,
        kubectl,
        tmp_path,
        resources=resources,
        namePrefix="acme-",
    )
    token = rights.unbound_token(api, "acme-toposcope-prune")
    rights.wait_for(api, (LIST_PROGRAMS,), token)
    kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
    status = main(["uninstall", "--yes", "--kubeconfig", str(kubeconfig)])
    assert status == 0
    assert api.get(rights.AGENTS)["items"] == []
    assert api.get(rights.CONTROLLERS)["items"] == []


ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterrole"


def grant_nodes(api: ApiUnderTest) -> None:
    """Let the controller patch Nodes."""
    metadata = {
        "name": "former",
        "labels": {"app.kubernetes.io/part-of": "toposcope"},
    }
    rule = {
        "apiGroups": [""],
        "resources": ["nodes"],
        "verbs": ["patch"],
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [rule],
    }
    api.create(f"{ROLES}s", role)
    account = {
        "kind": "ServiceAccount",
        "name": "toposcope-controller",
        "namespace": "toposcope-system",
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "former",
        },
        "subjects": [account],
    }
    api.create(f"{ROLES}bindings", binding)


def delete(api: ApiUnderTest, path: str) -> None:
    code, answer = api.request("DELETE", path)
    assert code == 200, answer


def becomes(proof: Confinement, *, confined: bool) -> None:
    """Wait until a program finds itself confined, or not."""

    def is_so() -> bool:
        proof.check()
        return proof.is_confined is confined

    wait_until(is_so, f"confined: {confined}")


@pytest.fixture
def client_of(api: ApiUnderTest, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], ApiClient]:
    """Makes a client of the owner of a token."""

    def make(token: str) -> ApiClient:
        kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
        client = ApiClient(load(str(kubeconfig)))
        request.addfinalizer(client.close)
        return client

    return make


@pytest.mark.regression
def test_agent_notices_names_that_no_policy_looks_for(
    api: ApiUnderTest, kubectl: str, tmp_path: Path, client_of: Callable[[str], ApiClient]
) -> None:
    patch = {
        "target": {"kind": "ServiceAccount", "name": "toposcope-agent"},
        "patch": yaml.safe_dump(RENAMED),
    }
    overlay = Overlay(api, kubectl, tmp_path, patches=[patch])
    token = overlay.token("agent")
    rights.wait_for(api, (AGENT_WORK[0],), token)
    client = client_of(token)
    publisher = NodePublisher(client, "confined-own")
    proof = Confinement(
        client,
        publisher.foreign_writes,
        None,
        WatchRuntime(0, passing=10_000.0),
    )

    becomes(proof, confined=False)

    accepted = (
        "a label outside gpu.topology/",
        "an annotation outside gpu.topology/",
        *FOREIGN_NODE_WRITES,
        "an Event about another Node;",
    )
    assert f"would accept {', '.join(accepted)}" in proof.ready()
    labels = api.get(rights.OWN)["metadata"]["labels"]
    assert labels.keys() == rights.FOREIGN["labels"].keys() | {GPUS}


@pytest.mark.regression
def test_controller_notices_what_confines_it(
    api: ApiUnderTest, kubectl: str, tmp_path: Path, client_of: Callable[[str], ApiClient]
) -> None:
    """Rights that it has beside its own, bindings that are gone; and the way back."""
    overlay = Overlay(api, kubectl, tmp_path)
    token = overlay.token("controller")
    rights.wait_for(api, (CONTROLLER_FORBIDDEN[0],), token)
    client = client_of(token)
    proof = Confinement(
        client,
        functools.partial(foreign_writes, client, "a-controller"),
        AccountRights(RIGHTS, "toposcope-system"),
        WatchRuntime(0, passing=10_000.0),
    )
    becomes(proof, confined=True)

    grant_nodes(api)  # as an installation of a former version leaves it
    becomes(proof, confined=False)
    assert "may do more than the program needs: patch nodes;" in proof.ready()
    delete(api, f"{ROLES}bindings/former")
    delete(api, f"{ROLES}s/former")
    becomes(proof, confined=True)

    install(api, *SCHEDULERS)
    becomes(proof, confined=True)

    for name in ("agent-events", "controller-segments", "controller-published"):
        delete(api, f"{BINDING}/toposcope-{name}.gpu.topology")
    accepted = ["a ClusterTopology that belongs to no segment"]
    for kind in PUBLISHED:
        if kind is not OLDER_TOPOLOGIES:
            accepted.append(f"a topology among {kind.name}")
    expected = f"would accept {', '.join(accepted)}; are"

    def all_are_accepted() -> bool:
        proof.check()
        return expected in proof.ready()

    wait_until(all_are_accepted, expected)
    apply_folder(api, kubectl, MANIFESTS / "base")
    becomes(proof, confined=True)
    assert proof.ready() == ""
