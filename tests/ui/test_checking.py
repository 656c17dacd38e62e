"""Pasted workloads: the engine of `toposcope check`, and its bounds on untrusted text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.snapshot.clusters import pod_of, view
from tests.support.saved import pod
from tests.support.workloads import pod_clique_set
from tests.ui.serving import Served, facts_of, served
from toposcope.ui import protocol
from toposcope.ui.checking import expanded_size


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two racks of four nodes; one pod occupies a node of the first."""
    nodes = [view(f"h{number}", f"rack-{number // 4}") for number in range(8)]
    facts = facts_of(nodes)
    occupying = pod_of(pod("a", "h1", 8))
    facts.put_pod("train/a", occupying)
    folder = tmp_path_factory.mktemp("page")
    with served(folder, facts) as server:
        yield server


def _one(server: Served, document: Any) -> dict[str, Any]:
    text = yaml.safe_dump(document)
    status, found = server.check(text)
    assert status == 200, found
    msgspec.convert(found, protocol.CheckAnswer)
    assert found["problems"] == []
    (check,) = found["checks"]
    return dict(check)


def test_workload_that_fits_has_domains_with_room_by_their_paths(server: Served) -> None:
    found = _one(server, pod_clique_set("model", 3, "rack"))
    assert found["verdict"] == "fits"
    assert found["view"] == "cluster"
    assert found["group"] == "model"
    assert found["demands"] == ["model: in one rack, 3 pods with 24 GPUs"]
    first, second = found["fits"]
    assert first == {
        "path": ["z", "b1", "rack-0"],
        "nodes": 4,
        "free": 24,
    }
    assert second == {
        "path": ["z", "b1", "rack-1"],
        "nodes": 4,
        "free": 32,
    }
    assert found["fitsExact"] is True


def test_workload_when_a_field_is_unread_is_unclear(server: Served) -> None:
    bound = {"nodeName": "h0", "containers": [{"name": "c", "image": "x"}]}
    found = _one(server, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": bound})
    assert found["verdict"] == "unclear"
    assert (
        found["notes"][0] == "not read: spec.nodeName (line 9): the pod is bound to this node, and no scheduler sees it"
    )


def test_kind_when_nobody_reads_its_pods_is_unclear(server: Served) -> None:
    found = _one(server, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {}})
    assert (found["verdict"], found["workload"], found["system"]) == ("unclear", "daemonset/d", "")
    assert found["fits"] == []


def test_workload_that_is_too_large_for_any_rack_never_fits(server: Served) -> None:
    found = _one(server, pod_clique_set("model", 5, "rack"))
    assert found["verdict"] == "never"
    assert found["well"] is False
    assert found["fits"] == []
    assert found["answer"] == "cannot fit: model needs 40 GPUs in one rack, largest has 32 (rack-0)"


def test_workload_with_an_unknown_level_is_refused(server: Served) -> None:
    found = _one(server, pod_clique_set("model", 1, "superpod"))
    assert found["verdict"] == "refused"
    finding = found["findings"][0]
    assert finding["severity"] == "error"
    assert finding["field"] == "spec.template.topologyConstraint.pack.required"
    assert finding["message"] == (
        "topology domain 'superpod' does not exist in cluster topology [zone block rack nvlink-domain host]"
    )


def test_several_objects_are_checked_together(server: Served) -> None:
    documents = [
        pod_clique_set("model", 1),
        pod_clique_set("model", 2),
    ]
    text = yaml.safe_dump_all(documents)
    status, found = server.check(text)
    assert status == 200
    verdicts = [check["verdict"] for check in found["checks"]]
    assert verdicts == ["fits", "fits"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "there is no object in the text; paste a workload as for kubectl apply", id="empty"),
        pytest.param("spec: {}", "kind: is missing, so the kind of the object is unknown", id="without-kind"),
        pytest.param("a: [", "not YAML", id="no-yaml"),
        pytest.param("just words", "not a Kubernetes object", id="words"),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
            "nothing to check: no supported system",
            id="config-map",
        ),
    ],
)
def test_text_that_is_no_workload_is_a_problem(server: Served, text: str, problem: str) -> None:
    status, found = server.check(text)
    assert status == 200
    assert found["checks"] == []
    problems = "; ".join(found["problems"])
    assert problem in problems


def test_yaml_alias_bombs_are_not_expanded(server: Served) -> None:
    lines = [
        "apiVersion: batch/v1",
        "kind: Job",
        "metadata: {name: x}",
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
    ]
    for number in range(1, 5):
        alias = f"*a{number - 1}"
        aliases = ", ".join([alias] * 10)
        lines.append(f"a{number}: &a{number} [{aliases}]")
    text = "\n".join(lines)
    status, found = server.check(text)
    assert status == 200
    assert "has more than 100,000 values when its YAML aliases are expanded" in found["problems"][0]


def test_alias_of_itself_has_no_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    shared = {"a": [1, 2]}
    assert expanded_size(loop) == float("inf")
    assert expanded_size([shared, shared, 3]) == 1 + 2 * (1 + 3) + 1


def test_number_of_objects_is_limited(server: Served) -> None:
    document = yaml.safe_dump(pod_clique_set("model", 1))
    text = "---\n".join([document] * 51)
    status, found = server.check(text)
    assert status == 200
    assert len(found["checks"]) == 50
    assert "only the first 50 objects are checked" in found["problems"][0]


def test_markup_in_a_name_comes_back_as_text(server: Served) -> None:
    document = pod_clique_set("model", 1)
    document["metadata"] = {"name": "</script><script>alert(1)</script>"}
    found = _one(server, document)
    assert "</script>" in found["workload"]
    _, headers, _ = server.ask(
        "/api/check",
        "POST",
        b"{}",
        Content_Type="application/json",
    )
    assert headers["content-type"] == "application/json"


def test_request_size_is_limited(tmp_path: Path) -> None:
    too_long = "x" * (300 << 10)
    with served(tmp_path) as found:
        status, answer = found.check(too_long)
    assert status == 413
    assert answer["error"].startswith("more than 256 KiB")
