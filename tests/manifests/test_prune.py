"""The prune Job: what its token may do on a real API server; its program removes everything with no more."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.prune_attempts import FORBIDDEN, IN_FORCE, OTHER_DAEMON_SETS, SLINKY, UNPUBLISHED, WORK
from tests.manifests.rights import AGENTS, CONTROLLERS, OTHER, OWN
from tests.manifests.support import NAMESPACE, TOPOLOGIES, Manifests, built, run_kubectl, write_overlay
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.paths import MANIFESTS
from tests.support.publishing import PUBLISHED, published, serve_all
from toposcope import __version__
from toposcope.agent.nvidia_labels import KEYS, MANAGER
from toposcope.cli.main import main
from toposcope.cli.removal import WRITERS

COUNT = "nvidia.com/gpu.count"


def apply_as(api: ApiUnderTest, manager: str, name: str, **metadata: Any) -> None:
    """Apply metadata of a Node as a certain field manager."""
    code, answer = api.apply(f"{NODES}/{name}", node(name, **metadata), manager)
    assert code == 200, answer


@pytest.fixture(scope="module")
def token(installed_once: ApiUnderTest, kubectl: str) -> str:
    """A token of the Job, on a cluster with things of ours and things of others."""
    api = installed_once
    serve_all(api)
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", MANIFESTS / "prune")
    for path in (OWN, OTHER):
        rights.make_node(api, path)
    metadata = {
        "labels": {"gpu.topology/gpus": "8", "gpu.topology/shape": "abc", "nvidia.com/gpu.present": "true"},
        "annotations": {"gpu.topology/matrix": "{}"},
    }
    api.patch(OWN, {"metadata": metadata})
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "toposcope-node-plan"}}
    api.create(f"{NAMESPACE}/configmaps", plan)

    own, other = "confined-own", "confined-other"
    apply_as(api, MANAGER, own, labels={COUNT: "8"})
    apply_as(api, "toposcope-controller", own, annotations={SLINKY: "a:b"})
    apply_as(api, "slinky", other, annotations={SLINKY: "a:b"})
    apply_as(api, "gpu-feature-discovery", other, labels={COUNT: "8", "gpu.topology/gpus": "8"})

    for path in PUBLISHED:
        for name, metadata in UNPUBLISHED.items():
            api.create(path, published(path, name, **metadata))
    spec = api.get(f"{AGENTS}/toposcope-agent")["spec"]
    for name, labels in OTHER_DAEMON_SETS.items():
        daemon_set = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
        api.create(AGENTS, daemon_set)
    token = rights.unbound_token(api, "toposcope-prune")
    rights.wait_for(api, IN_FORCE, token)
    return token


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_token_may_do_nothing_else(installed_once: ApiUnderTest, token: str, kind: str) -> None:
    before = rights.untouched(installed_once)
    rights.assert_answers(installed_once, FORBIDDEN[kind], token)
    assert rights.untouched(installed_once) == before


def test_token_may_do_its_work(installed_once: ApiUnderTest, token: str) -> None:
    rights.assert_answers(installed_once, WORK, token)


def test_policies_bind_no_administrator(installed_once: ApiUnderTest, token: str) -> None:
    assert token
    for path in (AGENTS + "/other", *(path + "/theirs" for path in PUBLISHED)):
        code, answer = installed_once.request("DELETE", f"{path}?dryRun=All")
        assert code == 200, answer


def names(api: ApiUnderTest, path: str) -> list[str]:
    """The names of the objects of a collection."""
    return [item["metadata"]["name"] for item in api.get(path)["items"]]


def test_program_removes_everything_with_no_more_than_its_token(
    installed_once: ApiUnderTest, token: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = installed_once
    assert rights.run_agent("confined-own", api.kubeconfig, "--nvidia-labels") == 0
    ready = {"type": "Ready", "status": "True"}
    api.patch(f"{OWN}/status", {"status": {"conditions": [ready]}})
    api.patch(OWN, {"metadata": {"labels": {"kubernetes.io/hostname": "own"}}})
    assert main(["controller", "--once", "--kubeconfig", str(api.kubeconfig)]) == 0
    answers = [api.request("GET", f"{path}/cluster") for path in PUBLISHED]
    assert 200 in [code for code, _ in answers]  # something was published

    capsys.readouterr()
    kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
    assert main(["uninstall", "--yes", "--kubeconfig", str(kubeconfig)]) == 0
    output = capsys.readouterr().out
    steps = ["stopped daemonset", "stopped deployment", "deleted clustertopologybinding", "deleted cluster", "cleaned"]
    assert sorted(steps, key=output.index) == steps, output

    assert names(api, AGENTS) == list(OTHER_DAEMON_SETS)
    assert names(api, CONTROLLERS) == []
    assert names(api, TOPOLOGIES) == []
    for path in PUBLISHED:
        assert names(api, path) == list(UNPUBLISHED)
    metadata = api.get(OWN)["metadata"]
    assert metadata["labels"] == {
        **rights.FOREIGN["labels"],
        "nvidia.com/gpu.present": "true",
        "kubernetes.io/hostname": "own",
    }
    assert metadata["annotations"] == rights.FOREIGN["annotations"]


@pytest.mark.regression
def test_job_waits_for_the_pods_that_write_and_for_no_other(
    installed_once: ApiUnderTest, token: str, kubectl: str, base: Manifests, prune: Manifests, tmp_path: Path
) -> None:
    assert token  # its ServiceAccount is there
    page = write_overlay(tmp_path.resolve() / "overlay", ["ui"])
    run_kubectl(kubectl, "--kubeconfig", installed_once.kubeconfig, "apply", "--server-side", "-k", page)
    pods = f"{NAMESPACE}/pods"
    for manifests, name in ((base, "agent"), (base, "controller"), (prune, "prune"), (built(kubectl, page), "ui")):
        installed_once.create(pods, manifests.pod(name, name, runtimeClassName=None))
    assert names(installed_once, f"{pods}?labelSelector={quote(WRITERS)}") == ["agent", "controller"]


def test_manifests_of_the_job_agree_with_the_base(base: Manifests, prune: Manifests) -> None:
    job_pod, agent_pod = prune.pod_spec("prune"), base.pod_spec("agent")
    assert job_pod["securityContext"] == agent_pod["securityContext"]
    assert job_pod["tolerations"] == agent_pod["tolerations"]
    job, agent = prune.container("prune"), base.container("agent")
    assert job["securityContext"] == agent["securityContext"]
    assert job["image"] == agent["image"]
    assert set(job["resources"]["limits"]) == {"memory"}
    for item in prune:
        metadata = item["metadata"]
        assert metadata["labels"]["app.kubernetes.io/version"] == __version__
        assert metadata.get("namespace", "toposcope-system") == "toposcope-system"
    assert base.by_name().keys().isdisjoint(prune.by_name())


def test_labels_that_it_may_take_are_those_that_an_agent_writes(prune: Manifests) -> None:
    spec = prune.get("ValidatingAdmissionPolicy", "toposcope-prune-nodes.gpu.topology")["spec"]
    expressions = {variable["name"]: variable["expression"] for variable in spec["variables"]}
    assert set(yaml.safe_load(expressions["moreLabels"])) == KEYS
