"""Servers that refuse, that go away, and credentials that are none: what people read, and how the command ends."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Command, Ran
from tests.support.api import (
    MERGE,
    NODES,
    RBAC,
    ApiUnderTest,
    account_token,
    bind,
    create_namespace,
    create_service_account,
    role,
)
from tests.support.paths import CRD, ROOT
from tests.support.saved import cluster_topology, demo_nodes
from toposcope.explain.object_store import AROUND, POD, SUBJECTS
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import HttpRequest

TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"
STATUS = {
    "nodes": 2,
    "gpus": 8,
    "levels": [
        {
            "domain": "rack",
            "key": "r",
            "domains": 1,
            "nodes": 2,
            "missing": 0,
            "available": True,
        }
    ],
    "conditions": [],
}
WORK = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}'


@pytest.fixture
def work(tmp_path: Path) -> str:
    file = tmp_path / "work.json"
    file.write_text(WORK)
    return str(file)


@pytest.fixture
def commands(work: str, tmp_path: Path) -> list[list[str]]:
    """Every command that looks at a cluster."""
    (first,) = demo_nodes(most=1)
    before = tmp_path / "before.json"
    before.write_text(json.dumps(first))
    file = tmp_path / "x"
    return [
        ["tree"],
        ["nodes"],
        ["levels"],
        ["matrix", "gb200-01"],
        ["suggest"],
        ["save", str(file)],
        ["check", "-f", work],
        ["explain", "pod/p"],
        ["diff", str(before)],
        ["export", "--format", "kai"],
    ]


def kubeconfig(api: ApiUnderTest, token: str, path: Path) -> str:
    """The file of somebody with this token."""
    document = yaml.load(api.kubeconfig.read_text(), yaml.CSafeLoader)
    (user,) = document["users"]
    user["user"] = {"token": token}
    path.write_text(json.dumps(document))
    return str(path)


def grant(api: ApiUnderTest, name: str, group: str, resource: str) -> None:
    rule = {"apiGroups": [group], "resources": [resource], "verbs": ["list"]}
    bind(api, role(name, rule), "people", "viewer")


def documented_role() -> dict[str, Any]:
    """The one in docs/check.md."""
    page = ROOT / "docs" / "check.md"
    text = page.read_text(encoding="utf-8")
    _, _, rights = text.partition("\n## Rights\n")
    _, _, example = rights.partition("```yaml\n")
    example, _, _ = example.partition("```")
    role: dict[str, Any] = yaml.load(example, yaml.CSafeLoader)
    return role


def once(toposcope: Command, words: list[str], holds: Callable[[Ran], bool]) -> Ran:
    """The authorizer hears of a new binding a moment later; each question is a request, which is pause enough."""
    for _ in range(500):
        ran = toposcope(*words, code=None)
        if holds(ran):
            return ran
    pytest.fail(f"the binding never took effect: {ran.err}")


def create_cluster(api: ApiUnderTest) -> None:
    """Two nodes, and a ClusterTopology whose status a controller has written."""
    crd = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)
    api.install_crd(crd)
    for shown in demo_nodes(most=2):
        metadata = shown["metadata"]
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": metadata["name"],
                "labels": metadata["labels"],
                "annotations": metadata["annotations"],
            },
        }
        api.create(NODES, node)
    api.create(TOPOLOGIES, cluster_topology(required=["rack"]))
    api.request(
        "PATCH",
        f"{TOPOLOGIES}/cluster/status",
        {"status": STATUS},
        content_type=MERGE,
    )


@pytest.mark.real_api("the embedded server lets everybody do everything")
def test_missing_right_is_named_with_what_to_ask_for(
    api: ApiUnderTest, commands: list[list[str]], toposcope: Command, tmp_path: Path
) -> None:
    create_cluster(api)
    create_namespace(api, "people")
    create_service_account(api, "people", "viewer")
    token = account_token(api, "people", "viewer")
    where = ["--kubeconfig", kubeconfig(api, token, tmp_path / "viewer.json")]

    for words in commands:  # no right at all
        code, out, err = toposcope(*words, *where, code=None)
        assert (code, out) == (2, ""), words
        assert f"toposcope {words[0]}: these credentials cannot list nodes" in err, words
        assert "ask an admin for a ClusterRole with the verb list on nodes (the API server: nodes " in err
        assert "Traceback" not in err

    grant(api, "see-topologies", "gpu.topology", "clustertopologies")
    code, out, err = once(toposcope, ["tree", *where], lambda ran: bool(ran.out))
    assert code == 2
    assert out.startswith("ClusterTopology cluster: rack (by the controller's last count)\ncluster: 2 nodes, 8 GPUs\n")
    assert "cannot list nodes" in err
    assert "this is the controller's last count, as with --summary" in err
    as_json = toposcope("tree -o json", *where, code=2)
    assert as_json.out == ""  # programs would take it for something else
    toposcope("tree --summary", *where, code=1)

    grant(api, "see-nodes", "", "nodes")
    code, out, err = once(toposcope, ["tree", *where], lambda ran: "last count" not in ran.out)
    assert code == 1  # no kubelet has said that the nodes are ready
    assert "NODES" in out
    assert "warning: these credentials cannot list pods, so free GPUs are unknown" in err
    assert "the verb list on pods in all namespaces (the API server: pods is forbidden: User" in err
    explained = toposcope("explain node/gb200-01", *where, code=1)
    assert "?       driver        ResourceSlices cannot be listed" in explained.out
    code, out, err = toposcope("explain", "job/x", *where, code=None)
    assert code == 2
    assert "jobs.batch" in err
    assert err.count("ask an admin for the verb list on them in namespace default: docs/check.md, section Rights") == 1
    for words in commands:
        code, out, err = toposcope(*words, *where, code=None)
        assert "Traceback" not in err, words
        assert "cannot list nodes" not in err, words

    bind(api, documented_role(), "people", "viewer")
    once(toposcope, ["explain", "job/x", *where], lambda ran: "credentials" not in ran.err)
    for words in commands:
        ran = toposcope(*words, *where, code=None)
        assert "credentials" not in ran.err, words

    where = ["--kubeconfig", kubeconfig(api, "no-token-of-anybody", tmp_path / "nobody.json")]
    code, out, err = toposcope("tree", *where, code=None)
    assert (code, out) == (2, "")
    assert err.startswith("toposcope tree: 401 Unauthorized: ")
    assert "the API server rejects these credentials: log in again" in err
    for resource in ("clusterrolebindings", "clusterroles"):
        for name in ("see-topologies", "see-nodes", "toposcope-viewer"):
            api.request("DELETE", f"{RBAC}/{resource}/{name}")


def test_documented_role_covers_every_kind_that_explain_reads() -> None:
    role = documented_role()
    allowed: set[tuple[str, str]] = set()
    for rule in role["rules"]:
        if "list" in rule["verbs"]:
            pairs = itertools.product(rule["apiGroups"], rule["resources"])
            allowed.update(pairs)
    kinds = set()
    for kind in (POD, *SUBJECTS, *AROUND):
        kinds.add((kind.group, kind.plural))
    assert kinds - allowed == set()


def test_server_that_goes_away_is_reported_in_one_line(
    commands: list[list[str]], toposcope: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its second page of nodes never comes: refused by a server that shuts down, or not answered at all."""
    monkeypatch.setattr("toposcope.kube.pages.PAGE_OBJECTS", 1)
    where = ["--kubeconfig", str(tmp_path / "kubeconfig")]
    with EmbeddedApiServer() as server:
        api = ApiUnderTest.of_embedded(server, tmp_path)
        for name in ("gb200-01", "gb200-02"):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            api.create(NODES, node)

        def second_page(request: HttpRequest) -> bool:
            return request.path == NODES and "continue" in request.query

        server.faults.reject(503, 1_000, applies=second_page)
        for words in commands:
            if words[0] == "matrix":
                continue  # reads one node, so there is no second page
            code, out, err = toposcope(*words, *where, code=None)
            assert (code, out) == (2, ""), words
            last_line = err.splitlines()[-1]
            assert last_line.startswith(f"toposcope {words[0]}: 503 ServiceUnavailable: the server is"), err
    for words in commands:
        code, out, err = toposcope(*words, *where, code=None)
        assert code == 2, words
        if words[0] == "check":
            assert "not checked without a cluster" in out, words
        else:
            assert out == "", words
        assert len(err.splitlines()) == 1, err
        assert err.startswith(f"toposcope {words[0]}: {server.url} does not answer: "), err
