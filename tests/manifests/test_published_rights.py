"""Of what schedulers read, the controller's token may write what the controller published, and nothing of others."""

from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.support import TOPOLOGIES
from tests.support.api import MERGE, NODES, ApiUnderTest, node
from tests.support.publishing import PUBLISHED, published, serve_all
from toposcope.api.label_keys import GPUS, HOSTNAME
from toposcope.cli.main import main

pytestmark = pytest.mark.slow

ONLY_OURS = "the controller may only write topologies that it published from a ClusterTopology"
NO_OTHER_OWNER = "the controller may not change the owner of a published topology"
UID = "11111111-2222-3333-4444-555555555555"


def marks(managed_by: str = "toposcope", **owner: Any) -> dict[str, Any]:
    """Metadata of an object that was published, as far as the arguments do not say otherwise."""
    reference = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "name": "ours",
        "uid": UID,
        "controller": True,
        **owner,
    }
    return {"labels": {"app.kubernetes.io/managed-by": managed_by}, "ownerReferences": [reference]}


def publish(what: str, path: str, name: str, says: str = "", **changes: Any) -> rights.Attempt:
    """Apply an object as the controller publishes it, but for these changes of its marks."""
    document = published(path, name, **marks(**changes))
    return rights.apply(what, f"{path}/{name}", document, says)


def work(path: str) -> list[rights.Attempt]:
    """What the controller does with a kind of topologies."""
    rehearsed = published(path, "new-dry-run", **marks())
    return [
        publish("publish", path, "new"),
        rights.json_patch("change", f"{path}/new", "replace", "/spec/levels", []),
        rights.post("rehearse", f"{path}?dryRun=All", rehearsed),
        rights.delete("take back", f"{path}/new"),
    ]


def forbidden(path: str) -> list[rights.Attempt]:
    """What the controller may not do with a kind of topologies."""
    ours, theirs = f"{path}/ours", f"{path}/theirs"
    return [
        rights.post("make an unmarked one", path, published(path, "a"), ONLY_OURS),
        publish("make one of another manager", path, "b", ONLY_OURS, managed_by="me"),
        publish("make one of a Node", path, "c", ONLY_OURS, kind="Node"),
        publish("make one of Grove's ClusterTopology", path, "d", ONLY_OURS, apiVersion="grove.io/v1alpha1"),
        publish("make one beside its owner", path, "e", ONLY_OURS, controller=False),
        rights.merge("change another's", theirs, {"spec": {"levels": []}}, ONLY_OURS),
        publish("take another's over", path, "theirs", ONLY_OURS),
        rights.merge("mark another's", theirs, {"metadata": marks()}, ONLY_OURS),
        rights.delete("delete another's", theirs, ONLY_OURS),
        rights.delete("delete all", path, "cannot deletecollection"),
        rights.merge_metadata("unmark", ours, ONLY_OURS, labels=None),
        rights.json_patch(
            "give away",
            ours,
            "replace",
            "/metadata/ownerReferences/0/uid",
            UID[::-1],
            says=NO_OTHER_OWNER,
        ),
    ]


@pytest.fixture(scope="module")
def token(installed_once: ApiUnderTest) -> str:
    """A token of the controller, where each kind has an object that was published and one of somebody else."""
    api = installed_once
    serve_all(api)
    for path in PUBLISHED:
        api.create(path, published(path, "theirs"))
        api.create(path, published(path, "ours", **marks()))
    token = rights.unbound_token(api, "toposcope-controller")
    first_kind = next(iter(PUBLISHED))
    unmarked = published(first_kind, "probe")
    probes = (
        rights.get("reading Nodes", NODES),
        rights.post("only what it published", f"{first_kind}?dryRun=All", unmarked, ONLY_OURS),
    )
    rights.wait_for(api, probes, token)
    return token


@pytest.mark.parametrize("path", PUBLISHED)
def test_controller_may_write_what_it_published(installed_once: ApiUnderTest, token: str, path: str) -> None:
    rights.assert_answers(installed_once, work(path), token)


@pytest.mark.parametrize("path", PUBLISHED)
def test_controller_may_write_no_topology_of_others(installed_once: ApiUnderTest, token: str, path: str) -> None:
    api = installed_once
    ours = api.get(f"{path}/ours")
    theirs = api.get(f"{path}/theirs")

    rights.assert_answers(api, forbidden(path), token)

    assert api.get(f"{path}/ours") == ours
    assert api.get(f"{path}/theirs") == theirs


def test_program_publishes_and_takes_back_with_no_more_than_its_token(
    installed_once: ApiUnderTest, token: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = installed_once
    labels = {HOSTNAME: "gpu-1", GPUS: "8"}
    api.create(NODES, node("gpu-1", labels=labels))
    ready = {"type": "Ready", "status": "True"}
    api.request(
        "PATCH",
        f"{NODES}/gpu-1/status",
        {"status": {"conditions": [ready]}},
        content_type=MERGE,
    )
    kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
    grove, _, kai, kueue, _ = PUBLISHED

    def after(**options: str) -> list[str]:
        """What there is once the program has run with these options for publishing."""
        api.patch(f"{TOPOLOGIES}/cluster", {"spec": {"publish": options}})
        status = main(["controller", "--once", "--kubeconfig", str(kubeconfig)])
        assert status == 0
        found = []
        for path in PUBLISHED:
            code, _ = api.request("GET", f"{path}/cluster")
            if code == 200:
                found.append(path)
        return found

    assert after() == [grove, kueue]  # Grove itself makes KAI's of its binding
    assert after(grove="Never") == [kai, kueue]
    assert after(grove="Auto") == [grove, kai, kueue]
    binding = api.get(f"{grove}/cluster")
    (bound,) = binding["spec"]["schedulerTopologyBindings"]
    assert bound == {
        "schedulerName": "kai-scheduler",
        "topologyReference": "cluster",
    }
    assert after(kai="Never", kueue="Never") == [grove]
    assert after(grove="Never") == []
    assert rights.complaints(caplog) == []


def test_policy_binds_nobody_else(installed_once: ApiUnderTest, token: str) -> None:
    assert token
    path = next(iter(PUBLISHED))
    installed_once.patch(f"{path}/theirs", {"spec": {"a": "b"}})
