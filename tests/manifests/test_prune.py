"""The prune Job: what its token may do on a real API server; its program removes everything with no more."""

from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.prune_attempts import FORBIDDEN, IN_FORCE, OTHER_DAEMON_SETS, UNPUBLISHED, WORK
from tests.manifests.rights import AGENTS, CONTROLLERS, OTHER, OWN
from tests.manifests.support import NAMESPACE, TOPOLOGIES, Manifests, built, run_kubectl, write_overlay
from tests.support.api import MERGE, ApiUnderTest, node
from tests.support.paths import MANIFESTS
from tests.support.publishing import PUBLISHED, published, serve_all
from toposcope import __version__
from toposcope.agent.nvidia_labels import KEYS, MANAGER
from toposcope.cli.main import main
from toposcope.cli.removal import WRITERS


@pytest.fixture(scope="module")
def token(installed_once: ApiUnderTest, kubectl: str) -> str:
    """A token of the Job, on a cluster with things of ours and things of others."""
    api = installed_once
    serve_all(api)
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", MANIFESTS / "prune")
    for path in (OWN, OTHER):
        rights.make_node(api, path)
    annotations = {"gpu.topology/matrix": "{}"}
    ours = {"gpu.topology/gpus": "8", "gpu.topology/shape": "abc", "nvidia.com/gpu.present": "true"}
    api.patch(OWN, {"metadata": {"labels": ours, "annotations": annotations}})
    counted = node("confined-own", labels={"nvidia.com/gpu.count": "8"})
    assert api.apply(OWN, counted, MANAGER)[0] == 200
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "toposcope-node-plan"}}
    api.create(f"{NAMESPACE}/configmaps", plan)
    placed = {"topology.slinky.slurm.net/spec": "a:b"}
    assert api.apply(OWN, node("confined-own", annotations=placed), "toposcope-controller")[0] == 200
    assert api.apply(OTHER, node("confined-other", annotations=placed), "slinky")[0] == 200
    of_others = node("confined-other", labels={"nvidia.com/gpu.count": "8", "gpu.topology/gpus": "8"})
    assert api.apply(OTHER, of_others, "gpu-feature-discovery")[0] == 200
    for path in PUBLISHED:
        for name, metadata in UNPUBLISHED.items():
            api.create(path, published(path, name, **metadata))
    spec = api.get(f"{AGENTS}/toposcope-agent")["spec"]
    for name, labels in OTHER_DAEMON_SETS.items():
        metadata = {"name": name, "labels": {f"app.kubernetes.io/{label}": value for label, value in labels.items()}}
        api.create(AGENTS, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})
    token = rights.unbound_token(api, "toposcope-prune")
    rights.wait_for(api, IN_FORCE, token)
    return token


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_it_may_do_nothing_else(installed_once: ApiUnderTest, token: str, kind: str) -> None:
    before = rights.untouched(installed_once)
    assert rights.surprises(installed_once, FORBIDDEN[kind], token) == []
    assert rights.untouched(installed_once) == before


def test_it_may_do_its_work(installed_once: ApiUnderTest, token: str) -> None:
    assert rights.surprises(installed_once, WORK, token) == []
    # And an admin's is nobody's business.
    for path in (f"{AGENTS}/other", *(f"{path}/theirs" for path in PUBLISHED)):
        assert installed_once.request("DELETE", f"{path}?dryRun=All")[0] == 200


def test_the_program_removes_everything_with_no_more_than_its_token(
    installed_once: ApiUnderTest, token: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = installed_once
    assert rights.run_agent("confined-own", api.kubeconfig, "--nvidia-labels") == 0
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    api.request("PATCH", f"{OWN}/status", ready, content_type=MERGE)
    api.request("PATCH", OWN, {"metadata": {"labels": {"kubernetes.io/hostname": "own"}}}, content_type=MERGE)
    assert main(["controller", "--once", "--kubeconfig", str(api.kubeconfig)]) == 0
    there = [path for path in PUBLISHED if api.request("GET", f"{path}/cluster")[0] == 200]
    assert there
    capsys.readouterr()
    assert main(["uninstall", "--yes", "--kubeconfig", str(rights.kubeconfig_with(api, token, tmp_path))]) == 0
    output = capsys.readouterr().out
    order = ("stopped daemonset", "stopped deployment", "deleted clustertopologybinding", "deleted cluster", "cleaned")
    assert [output.index(word) for word in order] == sorted(output.index(word) for word in order), output
    assert [item["metadata"]["name"] for item in api.get(AGENTS)["items"]] == [*OTHER_DAEMON_SETS]
    assert api.get(CONTROLLERS)["items"] == api.get(TOPOLOGIES)["items"] == []
    for path in PUBLISHED:
        assert [item["metadata"]["name"] for item in api.get(path)["items"]] == list(UNPUBLISHED)
    left = api.get(OWN)["metadata"]
    foreign = rights.FOREIGN["labels"] | {"nvidia.com/gpu.present": "true", "kubernetes.io/hostname": "own"}
    assert (left["labels"], left["annotations"]) == (foreign, rights.FOREIGN["annotations"])


@pytest.mark.regression
def test_it_waits_for_the_pods_that_write_and_for_no_other(
    installed_once: ApiUnderTest, token: str, kubectl: str, base: Manifests, prune: Manifests, tmp_path: Path
) -> None:
    assert token  # its ServiceAccount is there
    page = write_overlay(tmp_path.resolve() / "overlay", ["ui"])
    run_kubectl(kubectl, "--kubeconfig", installed_once.kubeconfig, "apply", "--server-side", "-k", page)
    pods = f"{NAMESPACE}/pods"
    for manifests, name in ((base, "agent"), (base, "controller"), (prune, "prune"), (built(kubectl, page), "ui")):
        installed_once.create(pods, manifests.pod(name, name, runtimeClassName=None))
    held = installed_once.get(f"{pods}?labelSelector={quote(WRITERS)}")["items"]
    assert [pod["metadata"]["name"] for pod in held] == ["agent", "controller"]


def test_its_manifests_agree_with_the_base(base: Manifests, prune: Manifests) -> None:
    spec, agent = prune.pod_template("prune")["spec"], base.pod_template("agent")["spec"]
    assert spec["securityContext"] == agent["securityContext"]
    assert spec["tolerations"] == agent["tolerations"]
    (container,), (other,) = spec["containers"], agent["containers"]
    assert container["securityContext"] == other["securityContext"]
    assert container["image"] == other["image"]
    assert set(container["resources"]["limits"]) == {"memory"}
    assert {o["metadata"]["labels"]["app.kubernetes.io/version"] for o in prune} == {__version__}
    assert all(o["metadata"].get("namespace", "toposcope-system") == "toposcope-system" for o in prune)
    ours = {(o["kind"], o["metadata"]["name"]) for o in base}
    assert ours.isdisjoint((o["kind"], o["metadata"]["name"]) for o in prune)


def test_the_labels_that_it_may_take_are_those_that_an_agent_writes(prune: Manifests) -> None:
    spec = prune.get("ValidatingAdmissionPolicy", "toposcope-prune-nodes.gpu.topology")["spec"]
    (more,) = (v["expression"] for v in spec["variables"] if v["name"] == "moreLabels")
    assert set(yaml.safe_load(more)) == KEYS
