"""An overlay that renames the base or moves it: the policies confine the programs under their new names too."""

from pathlib import Path
from typing import Any

import pytest

from tests.manifests.rights import EVENTS, OTHER, OWN, Attempt, apply_node, event, make_node, merge, wait_for
from tests.manifests.support import TOPOLOGIES, Manifests, built, run_kubectl, serve, write_overlay
from tests.support.api import ApiUnderTest, pod_token
from toposcope.api.label_keys import GPUS

pytestmark = pytest.mark.real_api

AGENT_MAY = (
    apply_node("label its Node", OWN, labels={GPUS: "8"}),
    Attempt("report on its Node", "POST", EVENTS, event("confined-own.1")),
)
AGENT_MAY_NOT = (
    merge(
        "label its Node otherwise",
        f"{OWN}?dryRun=All",
        {"metadata": {"labels": {"a": "b"}}},
        "only write labels under gpu.topology/",
    ),
    apply_node("label another Node", OTHER, "may not write node confined-other", labels={GPUS: "8"}),
    Attempt(
        "report on another Node",
        "POST",
        f"{EVENTS}?dryRun=All",
        event("a.1", about="confined-other"),
        says="may not write Events",
    ),
)
TOPOLOGY = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": "a"}}
CONTROLLER_MAY_NOT = (
    Attempt("make a topology", "POST", f"{TOPOLOGIES}?dryRun=All", TOPOLOGY, says="that it made for segments"),
    Attempt(
        "speak for the kubelet",
        "POST",
        f"{EVENTS}?dryRun=All",
        event("a.2", by="kubelet"),
        says="only write Events of its own",
    ),
)


@pytest.mark.parametrize("fields", [{"namespace": "gpu-fleet"}, {"namePrefix": "acme-", "nameSuffix": "-eu"}], ids=min)
def test_the_policies_follow_an_overlay(
    api: ApiUnderTest, kubectl: str, tmp_path: Path, fields: dict[str, Any]
) -> None:
    overlay = write_overlay(tmp_path / "overlay", (), **fields)
    serve(api, kubectl)
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", overlay)
    nvidia = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    api.apply("/apis/node.k8s.io/v1/runtimeclasses/nvidia", {**nvidia, "handler": "nvidia"})
    for path in (OWN, OTHER):
        make_node(api, path)
    found = built(kubectl, overlay)

    def token(program: str) -> str:
        """Of a pod on the first Node."""
        pod = pod_of(found, program)
        return pod_token(api, api.create(f"/api/v1/namespaces/{namespace(found)}/pods", pod))

    agent, controller = token("agent"), token("controller")
    wait_for(api, AGENT_MAY, agent)
    wait_for(api, AGENT_MAY_NOT, agent)
    wait_for(api, CONTROLLER_MAY_NOT, controller)


def namespace(found: Manifests) -> str:
    (name,) = (o["metadata"]["name"] for o in found if o["kind"] == "Namespace")
    return name


def pod_of(found: Manifests, program: str) -> dict[str, Any]:
    kind = {"agent": "DaemonSet", "controller": "Deployment"}[program]
    (workload,) = (o for o in found if o["kind"] == kind)
    template = workload["spec"]["template"]
    metadata = {**template["metadata"], "name": f"a-{program}"}
    spec = {**template["spec"], "nodeName": "confined-own"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
