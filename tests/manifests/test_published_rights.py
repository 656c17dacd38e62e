"""Of what schedulers read, the controller's token may write what the controller published, and nothing of others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.support import TOPOLOGIES
from tests.support.api import MERGE, NODES, ApiUnderTest, node
from tests.support.publishing import PUBLISHED, published, serve_all
from toposcope.api.label_keys import GPUS, HOSTNAME
from toposcope.cli.main import main

ONLY_OURS = "the controller may only write topologies that it published from a ClusterTopology"
NO_OTHER_OWNER = "the controller may not give what it published another owner"
UID = "11111111-2222-3333-4444-555555555555"


def owner(**parts: Any) -> dict[str, Any]:
    known = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "name": "ours", "uid": UID}
    return {**known, "controller": True, **parts}


def marks(managed_by: str = "toposcope", **parts: Any) -> dict[str, Any]:
    """Metadata of an object that was published, as far as the arguments do not say otherwise."""
    return {"labels": {"app.kubernetes.io/managed-by": managed_by}, "ownerReferences": [owner(**parts)]}


def publish(what: str, path: str, name: str, says: str = "", **parts: Any) -> rights.Attempt:
    return rights.apply(what, f"{path}/{name}", published(path, name, **marks(**parts)), says)


def may(path: str) -> Iterator[rights.Attempt]:
    yield publish(f"publish {path}", path, "new")
    yield rights.json_patch(f"change {path}", f"{path}/new", "replace", "/spec/levels", [])
    yield rights.Attempt(f"rehearse {path}", "POST", f"{path}?dryRun=All", published(path, "new-dry-run", **marks()))
    yield rights.Attempt(f"take back {path}", "DELETE", f"{path}/new")


def may_not(path: str) -> Iterator[rights.Attempt]:
    theirs = f"{path}/theirs"
    yield rights.Attempt(f"make an unmarked {path}", "POST", path, published(path, "a"), says=ONLY_OURS)
    yield publish(f"make {path} of another manager", path, "b", ONLY_OURS, managed_by="me")
    yield publish(f"make {path} of a Node", path, "c", ONLY_OURS, kind="Node")
    yield publish(f"make {path} of Grove's ClusterTopology", path, "d", ONLY_OURS, apiVersion="grove.io/v1alpha1")
    yield publish(f"make {path} beside its owner", path, "e", ONLY_OURS, controller=False)
    yield rights.merge(f"change another's {path}", theirs, {"spec": {"levels": []}}, ONLY_OURS)
    yield publish(f"take another's {path} over", path, "theirs", ONLY_OURS)
    yield rights.merge(f"mark another's {path}", theirs, {"metadata": marks()}, ONLY_OURS)
    yield rights.Attempt(f"delete another's {path}", "DELETE", theirs, says=ONLY_OURS)
    yield rights.Attempt(f"delete all {path}", "DELETE", path, says="cannot deletecollection")
    yield rights.merge(f"unmark {path}", f"{path}/ours", {"metadata": {"labels": None}}, ONLY_OURS)
    field = "/metadata/ownerReferences/0/uid"
    yield rights.json_patch(f"give away {path}", f"{path}/ours", "replace", field, UID[::-1], NO_OTHER_OWNER)


@pytest.fixture(scope="module")
def token(installed_once: ApiUnderTest) -> str:
    """A token of the controller, where each kind has an object that was published and one of somebody else."""
    api = installed_once
    serve_all(api)
    for path in PUBLISHED:
        api.create(path, published(path, "theirs"))
        api.create(path, published(path, "ours", **marks()))
    token = rights.unbound_token(api, "toposcope-controller")
    any_kind = next(iter(PUBLISHED))
    foreign = published(any_kind, "probe")
    writing = rights.Attempt("only what it published", "POST", f"{any_kind}?dryRun=All", foreign, says=ONLY_OURS)
    probes = (rights.Attempt("reading Nodes", "GET", NODES), writing)
    rights.wait_for(api, probes, token)
    return token


@pytest.mark.parametrize("path", PUBLISHED)
def test_it_keeps_what_it_published(installed_once: ApiUnderTest, token: str, path: str) -> None:
    assert rights.surprises(installed_once, may(path), token) == []


@pytest.mark.parametrize("path", PUBLISHED)
def test_it_touches_nothing_of_others(installed_once: ApiUnderTest, token: str, path: str) -> None:
    before = [installed_once.get(f"{path}/{name}") for name in ("ours", "theirs")]
    assert rights.surprises(installed_once, may_not(path), token) == []
    assert [installed_once.get(f"{path}/{name}") for name in ("ours", "theirs")] == before


def test_the_program_publishes_and_takes_back_with_no_more_than_its_token(
    installed_once: ApiUnderTest, token: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = installed_once
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    api.create(NODES, node("gpu-1", labels={HOSTNAME: "gpu-1", GPUS: "8"}))
    api.request("PATCH", f"{NODES}/gpu-1/status", ready, content_type=MERGE)
    command = ["controller", "--once", "--kubeconfig", str(rights.kubeconfig_with(api, token, tmp_path))]
    grove, _, kai, kueue, _ = PUBLISHED

    def after(**options: str) -> list[str]:
        """What there is once the program has run with these options for publishing."""
        api.patch(f"{TOPOLOGIES}/cluster", {"spec": {"publish": options}})
        assert main(command) == 0
        return [path for path in PUBLISHED if api.request("GET", f"{path}/cluster")[0] == 200]

    assert after() == [grove, kueue]  # Grove itself makes KAI's of its binding
    assert after(grove="Never") == [kai, kueue]
    assert after(grove="Auto") == [grove, kai, kueue]
    named = {"schedulerName": "kai-scheduler", "topologyReference": "cluster"}
    assert api.get(f"{grove}/cluster")["spec"]["schedulerTopologyBindings"] == [named]
    assert after(kai="Never", kueue="Never") == [grove]
    assert after(grove="Never") == []
    assert [record.getMessage() for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []


def test_it_binds_nobody_else(installed_once: ApiUnderTest, token: str) -> None:
    assert token
    path = next(iter(PUBLISHED))
    installed_once.patch(f"{path}/theirs", {"spec": {"a": "b"}})
