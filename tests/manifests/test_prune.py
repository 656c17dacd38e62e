"""The prune Job: what its token may do on a real API server; its program removes everything with no more."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.prune_attempts import FORBIDDEN, IN_FORCE, OTHER_DAEMON_SETS, SLINKY, UNPUBLISHED, WORK
from tests.manifests.rights import AGENTS, CONTROLLERS, OTHER, OWN
from tests.manifests.support import NAMESPACE, TOPOLOGIES, Manifests, apply_folder, built, variables_of, write_overlay
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.bound_pods import create_node_paths, share_node_paths
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
    apply_folder(api, kubectl, MANIFESTS / "prune")
    label_nodes(api)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "toposcope-node-plan"}}
    api.create(f"{NAMESPACE}/configmaps", config_map)
    share_node_paths(api)
    create_node_paths(api, {})
    for path in PUBLISHED:
        for name, metadata in UNPUBLISHED.items():
            topology = published(path, name, **metadata)
            api.create(path, topology)
    create_other_daemon_sets(api)
    token = rights.unbound_token(api, "toposcope-prune")
    rights.wait_for(api, IN_FORCE, token)
    return token


def label_nodes(api: ApiUnderTest) -> None:
    """Two nodes with what Toposcope writes, and with the same keys as others write them."""
    rights.make_node(api, OWN)
    rights.make_node(api, OTHER)
    metadata = {
        "labels": {
            "gpu.topology/gpus": "8",
            "gpu.topology/shape": "abc",
            "nvidia.com/gpu.present": "true",
        },
        "annotations": {"gpu.topology/matrix": "{}"},
    }
    api.patch(OWN, {"metadata": metadata})

    own = "confined-own"
    apply_as(api, MANAGER, own, labels={COUNT: "8"})
    apply_as(api, "toposcope-controller", own, annotations={SLINKY: "a:b"})

    other = "confined-other"
    discovered = {
        COUNT: "8",
        "gpu.topology/gpus": "8",
    }
    apply_as(api, "slinky", other, annotations={SLINKY: "a:b"})
    apply_as(api, "gpu-feature-discovery", other, labels=discovered)


def create_other_daemon_sets(api: ApiUnderTest) -> None:
    agent = api.get(f"{AGENTS}/toposcope-agent")
    for name, labels in OTHER_DAEMON_SETS.items():
        daemon_set = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "labels": labels},
            "spec": agent["spec"],
        }
        api.create(AGENTS, daemon_set)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORBIDDEN)
def test_token_may_do_nothing_else(installed_once: ApiUnderTest, token: str, kind: str) -> None:
    before = rights.untouched(installed_once)
    rights.assert_answers(installed_once, FORBIDDEN[kind], token)
    assert rights.untouched(installed_once) == before


@pytest.mark.slow
def test_token_may_do_its_work(installed_once: ApiUnderTest, token: str) -> None:
    rights.assert_answers(installed_once, WORK, token)


@pytest.mark.slow
def test_policies_bind_no_administrator(installed_once: ApiUnderTest, token: str) -> None:
    assert token
    paths = [f"{AGENTS}/other"]
    for path in PUBLISHED:
        paths.append(f"{path}/theirs")
    for path in paths:
        code, answer = installed_once.request("DELETE", f"{path}?dryRun=All")
        assert code == 200, answer


def names(api: ApiUnderTest, path: str) -> list[str]:
    """The names of the objects of a collection."""
    items = api.get(path)["items"]
    return [item["metadata"]["name"] for item in items]


@pytest.mark.slow
def test_program_removes_everything_with_no_more_than_its_token(
    installed_once: ApiUnderTest, token: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = installed_once
    assert rights.run_agent("confined-own", api.kubeconfig, "--nvidia-labels") == 0
    ready = {"type": "Ready", "status": "True"}
    api.patch(f"{OWN}/status", {"status": {"conditions": [ready]}})
    api.patch(OWN, {"metadata": {"labels": {"kubernetes.io/hostname": "own"}}})
    status = main(["controller", "--once", "--kubeconfig", str(api.kubeconfig)])
    assert status == 0
    codes = []
    for path in PUBLISHED:
        code, _ = api.request("GET", f"{path}/cluster")
        codes.append(code)
    assert 200 in codes  # something was published

    capsys.readouterr()
    kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
    status = main(["uninstall", "--yes", "--kubeconfig", str(kubeconfig)])
    assert status == 0
    output = capsys.readouterr().out
    steps = [
        "stopped daemonset",
        "stopped deployment",
        "deleted clustertopologybinding",
        "deleted cluster",
        "cleaned",
    ]
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


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.usefixtures("token")  # with which the Job's ServiceAccount is there
def test_job_waits_for_the_pods_that_write_and_for_no_other(
    installed_once: ApiUnderTest, kubectl: str, prune: Manifests, tmp_path: Path
) -> None:
    api = installed_once
    overlay = write_overlay(tmp_path.resolve() / "overlay", ["ui"])
    apply_folder(api, kubectl, overlay)
    with_page = built(kubectl, overlay)
    pods = f"{NAMESPACE}/pods"
    for manifests, program in (
        (with_page, "agent"),
        (with_page, "controller"),
        (prune, "prune"),
        (with_page, "ui"),
    ):
        pod = manifests.pod(program, program, runtimeClassName=None)
        api.create(pods, pod)

    selector = quote(WRITERS)
    assert names(api, f"{pods}?labelSelector={selector}") == ["agent", "controller"]


def test_manifests_of_the_job_agree_with_the_base(base: Manifests, prune: Manifests) -> None:
    job_pod = prune.pod_spec("prune")
    agent_pod = base.pod_spec("agent")
    assert job_pod["securityContext"] == agent_pod["securityContext"]
    assert job_pod["tolerations"] == agent_pod["tolerations"]

    job = prune.container("prune")
    agent = base.container("agent")
    assert job["securityContext"] == agent["securityContext"]
    assert job["image"] == agent["image"]
    limits = job["resources"]["limits"]
    assert limits.keys() == {"memory"}

    for item in prune:
        metadata = item["metadata"]
        assert metadata["labels"]["app.kubernetes.io/version"] == __version__
        assert metadata.get("namespace", "toposcope-system") == "toposcope-system"
    assert base.by_name().keys().isdisjoint(prune.by_name())


def test_labels_that_it_may_take_are_those_that_an_agent_writes(prune: Manifests) -> None:
    policy = prune.get("ValidatingAdmissionPolicy", "toposcope-prune-nodes.gpu.topology")
    labels = yaml.load(variables_of(policy)["moreLabels"], yaml.CSafeLoader)
    assert set(labels) == KEYS
