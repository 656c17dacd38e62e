"""An overlay that renames the base or moves it: the policies confine the programs under their new names too."""

import functools
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.prune_attempts import LIST_PROGRAMS
from tests.manifests.support import built, run_kubectl, serve, write_overlay
from tests.support.api import ApiUnderTest, pod_token, wait_until
from tests.support.paths import MANIFESTS
from tests.support.publishing import install
from tests.support.runtime import WatchRuntime
from toposcope.agent.publish import Publisher
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
        "that it made for segments",
    ),
    rights.post(
        "speak for the kubelet",
        f"{rights.EVENTS}?dryRun=All",
        rights.event("a.2", by="kubelet"),
        "only write Events of its own",
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
        run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", folder)
        runtime_class = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        }
        api.apply("/apis/node.k8s.io/v1/runtimeclasses/nvidia", runtime_class)
        for path in (rights.OWN, rights.OTHER):
            rights.make_node(api, path)
        self._manifests = built(kubectl, folder)

    def token(self, program: str) -> str:
        """A token of a pod of the program, whatever the overlay calls it."""
        (workload,) = self._manifests.of_kind("DaemonSet" if program == "agent" else "Deployment")
        (namespace,) = self._manifests.of_kind("Namespace")
        pods = f"/api/v1/namespaces/{namespace['metadata']['name']}/pods"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"a-{program}"},
            "spec": {**workload["spec"]["template"]["spec"], "nodeName": "confined-own"},
        }
        return pod_token(self._api, self._api.create(pods, pod))


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
    agent, controller = overlay.token("agent"), overlay.token("controller")
    rights.wait_for(api, AGENT_WORK, agent)
    rights.wait_for(api, AGENT_FORBIDDEN, agent)
    rights.wait_for(api, CONTROLLER_FORBIDDEN, controller)


@pytest.mark.regression
def test_prune_job_stops_programs_whatever_they_are_called(api: ApiUnderTest, kubectl: str, tmp_path: Path) -> None:
    both = [os.path.relpath(MANIFESTS / name, tmp_path / "overlay") for name in ("base", "prune")]
    Overlay(api, kubectl, tmp_path, resources=both, namePrefix="acme-")
    token = rights.unbound_token(api, "acme-toposcope-prune")
    rights.wait_for(api, (LIST_PROGRAMS,), token)
    kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
    assert main(["uninstall", "--yes", "--kubeconfig", str(kubeconfig)]) == 0
    assert api.get(rights.AGENTS)["items"] == []
    assert api.get(rights.CONTROLLERS)["items"] == []


ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterrole"


def grant_nodes(api: ApiUnderTest) -> None:
    """Let the controller patch Nodes."""
    version, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    named = {
        "apiVersion": version,
        "metadata": {"name": "former", "labels": {"app.kubernetes.io/part-of": "toposcope"}},
    }
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]
    api.create(f"{ROLES}s", named | {"kind": "ClusterRole", "rules": rules})
    account = {"kind": "ServiceAccount", "name": "toposcope-controller", "namespace": "toposcope-system"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "former"}
    api.create(f"{ROLES}bindings", named | {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]})


@pytest.mark.regression
def test_programs_notice_what_confines(
    api: ApiUnderTest, kubectl: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Names that no policy looks for, a binding that is gone; and the way back."""
    target = {"kind": "ServiceAccount", "name": "toposcope-agent"}
    overlay = Overlay(api, kubectl, tmp_path, patches=[{"target": target, "patch": yaml.safe_dump(RENAMED)}])
    proofs = {}
    for program, attempt in (("agent", AGENT_WORK[0]), ("controller", CONTROLLER_FORBIDDEN[0])):
        token = overlay.token(program)
        rights.wait_for(api, (attempt,), token)
        client = ApiClient(load(str(rights.kubeconfig_with(api, token, tmp_path))))
        request.addfinalizer(client.close)
        agents = Publisher(client, "confined-own").foreign_writes
        writes = agents if program == "agent" else functools.partial(foreign_writes, client, "a-controller")
        granted = AccountRights(RIGHTS, "toposcope-system") if program == "controller" else None
        proofs[program] = Confinement(client, writes, granted, WatchRuntime(0, passing=10_000.0))

    def becomes(program: str, confined: bool) -> None:
        def so() -> bool:
            proofs[program].check()
            return proofs[program].confined is confined

        wait_until(so, f"{program} confined: {confined}")

    becomes("agent", False)
    refused = ("a label outside gpu.topology/", "an annotation outside gpu.topology/", *FOREIGN_NODE_WRITES)
    accepted = f"would accept {', '.join(refused)}, an Event about another Node;"
    assert accepted in proofs["agent"].ready()
    assert api.get(rights.OWN)["metadata"]["labels"].keys() == rights.FOREIGN["labels"].keys() | {GPUS}
    becomes("controller", True)
    grant_nodes(api)  # as an installation of a former version leaves it
    becomes("controller", False)
    assert "may do more than the program needs: patch nodes;" in proofs["controller"].ready()
    for kind in ("bindings", "s"):
        assert api.request("DELETE", f"{ROLES}{kind}/former")[0] == 200
    becomes("controller", True)
    install(api, *SCHEDULERS)
    becomes("controller", True)
    for name in ("agent-events", "controller-segments", "controller-published"):
        assert api.request("DELETE", f"{BINDING}/toposcope-{name}.gpu.topology")[0] == 200
    kinds = ", ".join(f"a topology among {kind.name}" for kind in PUBLISHED if kind is not OLDER_TOPOLOGIES)
    said = f"would accept a ClusterTopology that belongs to no segment, {kinds}; are"

    def all_are_accepted() -> bool:
        proofs["controller"].check()
        return said in proofs["controller"].ready()

    wait_until(all_are_accepted, said)
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", MANIFESTS / "base")
    becomes("controller", True)
    assert proofs["controller"].ready() == ""
