"""`toposcope check` on saved files and against live objects; what it prints stands here as users see it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Command, page, requests_to, write_cluster
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from tests.support.upstream_crds import stand_in
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.manifests import cluster_topology_crd

CHANGED = (
    "error: spec.template.topologyConstraint (line 6): PodCliqueSet topology constraint cannot be changed from "
    'required="host" preferred="" to required="rack" preferred=""'
)


def pod_clique_set(name: str, domain: str, pods: int, gpus: int) -> str:
    return f"""\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}, namespace: ml, labels: {{kai.scheduler/queue: research}}}}
spec:
  template:
    topologyConstraint: {{topologyName: cluster, pack: {{required: {domain}}}}}
    cliques:
    - name: worker
      spec:
        roleName: worker
        replicas: {pods}
        podSpec:
          schedulerName: kai-scheduler
          containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]
  replicas: 1
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The demo's nodes, two of the NVL72's trays in use."""
    file = tmp_path / "cluster.json"
    pods = [pod("busy-1", "gb200-01", 4), pod("busy-2", "gb200-02", 4)]
    file.write_text(saved([*demo_nodes(), *pods, cluster_topology()]))
    return file


@pytest.fixture
def workloads(tmp_path: Path) -> Path:
    file = tmp_path / "work.yaml"
    sets = [
        pod_clique_set("llm", "rak", 2, 4),
        pod_clique_set("huge", "nvlink-domain", 20, 4),
        pod_clique_set("large", "nvlink-domain", 18, 4),
        pod_clique_set("small", "rack", 4, 8),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n",
    ]
    file.write_text("---\n".join(sets))
    return file


def test_the_answer_for_each_workload(cluster: Path, workloads: Path, toposcope: Command) -> None:
    assert toposcope(f"check -f {workloads} --from {cluster}", code=1).out == page("check.txt").format(file=workloads)


def test_explain_shows_the_reasoning(cluster: Path, tmp_path: Path, toposcope: Command) -> None:
    (tmp_path / "good.yaml").write_text(pod_clique_set("small", "rack", 4, 8))
    lines = toposcope(f"check -f {tmp_path / 'good.yaml'} --from {cluster} --explain").out.splitlines()
    assert "    small must stay in one rack: 2 of 4 racks have room for it alone" in lines
    assert "    small: 4 pods in rack-3: h200-1, h200-2, h200-3, h200-4" in lines


def test_nodes_that_do_not_count_are_named(tmp_path: Path, toposcope: Command) -> None:
    nodes = demo_nodes()
    for node in nodes:
        if node["metadata"]["name"].startswith("h200"):
            node["spec"] = {"unschedulable": True}
    cluster = write_cluster(tmp_path / "cluster.json", *nodes, pod("one", "gb200-01", 4), cluster_topology())
    (tmp_path / "work.yaml").write_text(pod_clique_set("small", "rack", 4, 8))
    out = toposcope(f"check -f {tmp_path / 'work.yaml'} --from {cluster}", code=1).out
    lacks = "a pod of small needs 8 GPUs, and no node that it may use has more than 4 free (gb200-02)"
    assert f"  does not fit now: {lacks}" in out
    assert "    would fit if 4 nodes of rack-3 were Ready and not cordoned: h200-1, h200-2, h200-3, h200-4" in out
    assert "    8 nodes are left out: is cordoned (h200-1, h200-2, h200-3, h200-4, h200-5 and 3 more)" in out


def test_rules_about_changes_need_the_object_as_it_is(cluster: Path, tmp_path: Path, toposcope: Command) -> None:
    new, old = tmp_path / "new.yaml", tmp_path / "old.yaml"
    new.write_text(pod_clique_set("small", "rack", 2, 8))
    old.write_text(pod_clique_set("small", "host", 2, 8))
    toposcope(f"check -f {new} --from {cluster}")
    out = toposcope(f"check -f {new} --from {cluster} --against {old}", code=1).out
    assert CHANGED in out


def test_json_says_the_same(cluster: Path, workloads: Path, toposcope: Command) -> None:
    document = toposcope(f"check -f {workloads} --from {cluster} -o json", code=1).json
    found = {answer["workload"]: answer for answer in document["workloads"]}
    assert found["podcliqueset/llm -n ml"]["findings"] == [
        {
            "rule": "grove/domain-exists",
            "severity": "error",
            "field": "spec.template.topologyConstraint.pack.required",
            "line": 6,
            "message": "topology domain 'rak' does not exist in cluster topology [zone block rack nvlink-domain host]",
            "fix": "did you mean 'rack'?",
        }
    ]
    huge = found["podcliqueset/huge -n ml"]["verdict"]
    large = found["podcliqueset/large -n ml"]["verdict"]
    assert large["remedies"] == [
        {
            "act": "drain",
            "domain": "55c2d310-698c-4ab6-864f-82cfbd9dfc5a.32766",
            "nodes": ["gb200-01", "gb200-02"],
            "pods": ["train/busy-1", "train/busy-2"],
            "tolerations": [],
        }
    ]
    assert (huge["kind"], huge["shortage"]["needs"], huge["shortage"]["largest"]) == ("never", 80, 72)
    small = found["podcliqueset/small -n ml"]
    assert small["well"]
    assert small["verdict"]["placement"][0]["nodes"] == {f"h200-{number}": 1 for number in range(1, 5)}


def requesting(cpu: int) -> dict[str, Any]:
    """A pod's spec."""
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": f"{cpu}m"}}}]}


def test_what_is_unclear_has_an_exit_code_of_its_own(tmp_path: Path, toposcope: Command) -> None:
    """Three pods of each size fill every node to the last; whether that can be done takes too long to try."""
    ready = {"allocatable": {"cpu": "1", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}, "status": ready} for i in range(12)]
    cluster = write_cluster(tmp_path / "cluster.json", *nodes)
    jobs = [
        {"name": f"c{cpu}", "template": {"spec": {"parallelism": 3, "template": {"spec": requesting(cpu)}}}}
        for cpu in (*range(278, 388, 10), 392)
    ]
    tight = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "tight"}}
    (tmp_path / "tight.yaml").write_text(yaml.safe_dump({**tight, "spec": {"replicatedJobs": jobs}}))
    check = f"check -f {tmp_path / 'tight.yaml'} --from {cluster}"
    out = toposcope(check, code=3).out
    assert "  unclear: there is enough room in total" in out
    assert out.endswith("1 workload checked, 1 unclear\n")
    assert toposcope(f"{check} -o name", code=3).out == "jobset/tight\n"
    (found,) = json.loads(toposcope(f"{check} -o json", code=3).out)["workloads"]
    assert (found["well"], found["verdict"]["kind"]) == (False, "unclear")
    (tmp_path / "wrong.yaml").write_text(pod_clique_set("wrong", "rak", 20, 4))
    toposcope(f"{check} -f {tmp_path / 'wrong.yaml'}", code=1)


def test_names_of_what_is_not_well(cluster: Path, workloads: Path, toposcope: Command) -> None:
    assert toposcope(f"check -f {workloads} --from {cluster} -o name", code=1).out.splitlines() == [
        f"podcliqueset/{name} -n ml" for name in ("llm", "huge", "large")
    ]


def test_every_problem_of_bad_files_in_one_run(cluster: Path, tmp_path: Path, toposcope: Command) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [\n---\n" + pod_clique_set("small", "rack", 4, 8) + "---\n7\n")
    captured = toposcope(f"check -f {bad} --from {cluster}", code=2)
    assert "podcliqueset/small" in captured.out
    assert len(captured.err.splitlines()) == 3
    assert f"{bad}, document 1, line 2: not YAML" in captured.err
    assert f"{bad}, document 3" in captured.err


def test_ten_thousand_documents(cluster: Path, tmp_path: Path, toposcope: Command) -> None:
    many = tmp_path / "many.json"
    document = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "x"}}
    many.write_text("\n".join(json.dumps(document) for _ in range(10_000)))
    assert toposcope(f"check -f {many} --from {cluster}").out.splitlines()[-1] == "10000 workloads checked"


def test_nothing_to_check_is_no_good_news(cluster: Path, tmp_path: Path, toposcope: Command) -> None:
    """A template that came out empty must not pass for one that was checked."""
    empty = tmp_path / "empty.yaml"
    empty.write_text("---\n# nothing\n")
    error = toposcope(f"check -f {empty} --from {cluster}", code=2).err
    assert f"toposcope check: there are no objects in {empty}, so nothing was checked\n" in error


def test_standard_input_is_one_thing_only(toposcope: Command) -> None:
    error = toposcope("check -f - --from -", code=2).err
    assert "standard input can hold the workloads or the cluster, not both" in error


# The objects in the cluster are asked for only where there are rules about changes.


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    with EmbeddedApiServer() as server:
        sets = stand_in("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets")
        present = yaml.safe_load(pod_clique_set("llm", "host", 2, 8))
        server.load([cluster_topology_crd(), sets, cluster_topology(), present, *demo_nodes(most=4)])
        yield server


@pytest.fixture
def where(server: EmbeddedApiServer, tmp_path: Path) -> list[str]:
    server.write_kubeconfig(tmp_path / "kubeconfig")
    return ["--kubeconfig", str(tmp_path / "kubeconfig")]


def work(folder: Path, *names: str) -> str:
    file = folder / "work.yaml"
    file.write_text("---\n".join(pod_clique_set(name, "rack", 2, 8) for name in names))
    return str(file)


def test_of_a_running_cluster_the_objects_there_count(
    where: list[str], server: EmbeddedApiServer, tmp_path: Path, toposcope: Command
) -> None:
    file, requests = work(tmp_path, "llm", "new"), requests_to(server)
    assert toposcope(f"check -f {file}", *where, code=1).out.count(CHANGED) == 1
    sets = [request.path.rpartition("/")[2] for request in requests if "/podcliquesets" in request.path]
    assert sets == ["llm", "new"]
    assert {request.method for request in requests} == {"GET"}
    assert CHANGED not in toposcope(f"check -f {file}", *where, "--against", "none", code=1).out


def test_a_file_counts_more_than_the_cluster(where: list[str], tmp_path: Path, toposcope: Command) -> None:
    file = work(tmp_path, "llm")
    assert CHANGED not in toposcope(f"check -f {file}", *where, "--against", "live", "--against", file).out


def test_files_hold_no_live_objects(tmp_path: Path, toposcope: Command) -> None:
    file = work(tmp_path, "llm")
    error = toposcope(f"check -f {file} --from {file} --against live", code=2).err
    assert "--against live needs a cluster, and --from reads files" in error


def with_constraint(name: str, old: str, new: str) -> str:
    return pod_clique_set(name, "rack", 4, 8).replace(old, new)


KUEUE_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: tune, labels: {kueue.x-k8s.io/queue-name: gpus}}
spec:
  parallelism: 2
  template:
    metadata: {annotations: {ANNOTATIONS}}
    spec: {restartPolicy: Never, containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}
"""
NARROWER = "    - {name: w, spec: {replicas: 1}, topologyConstraint: {topologyName: cluster, pack: {required: zone}}}\n"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (pod_clique_set("small", "rack", 4, 8), 3, "1 workload checked\n"),
        (pod_clique_set("own", "shelf", 4, 8), 3, "advice: spec.template.topologyConstraint.pack.required (line 6):"),
        (with_constraint("field", "pack: {required", "pack: {requird"), 1, "error: "),
        (pod_clique_set("parts", "rack", 4, 8).replace("    cliques:\n", "    cliques:\n" + NARROWER), 1, "narrower"),
        (KUEUE_JOB.replace("ANNOTATIONS", "kueue.x-k8s.io/podset-required-topology: rack"), 3, "label keys are taken"),
        (
            KUEUE_JOB.replace(
                "ANNOTATIONS",
                "kueue.x-k8s.io/podset-required-topology: a.b/c, kueue.x-k8s.io/podset-preferred-topology: a.b/c",
            ),
            1,
            "must not contain more than one topology annotation",
        ),
    ],
    ids=["well", "own level", "field", "hierarchy", "domain for key", "annotations"],
)
def test_what_needs_no_cluster_is_checked_without_one(
    text: str, code: int, words: str, tmp_path: Path, toposcope: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "work.yaml").write_text(text)
    ran = toposcope(f"check -f {tmp_path / 'work.yaml'}", code=code)
    assert words in ran.out
    assert "note: not checked without a cluster: topologies, levels, queues, what exists already, and room" in ran.out
    assert "fit" not in ran.out
    assert ran.err.startswith("warning: checked without a cluster: no API server to talk to: ")


def test_a_server_that_does_not_answer_is_said_after_what_is_known(tmp_path: Path, toposcope: Command) -> None:
    (tmp_path / "work.yaml").write_text(with_constraint("field", "pack: {required", "pack: {requird"))
    config = tmp_path / "config"
    config.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}],"
        " current-context: c}"
    )
    ran = toposcope(f"check -f {tmp_path / 'work.yaml'} --kubeconfig {config}", code=2)
    assert "1 workload checked, 1 error" in ran.out
    assert ran.err.startswith("toposcope check: http://127.0.0.1:1")


@pytest.mark.parametrize("with_cluster", [True, False])
def test_a_missing_file_is_the_first_complaint(
    with_cluster: bool, cluster: Path, tmp_path: Path, toposcope: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    source = f"--from {cluster}" if with_cluster else ""
    assert toposcope(f"check -f {tmp_path / 'lost.yaml'} {source}", code=2).err == (
        f"{tmp_path / 'lost.yaml'}: No such file or directory\ntoposcope check: 1 problem in the input\n"
    )


def test_objects_without_rules_are_not_good_news_either(cluster: Path, tmp_path: Path, toposcope: Command) -> None:
    (tmp_path / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")
    ran = toposcope(f"check -f {tmp_path / 'map.yaml'} --from {cluster}", code=2)
    assert ran.out == "0 workloads checked, 1 object of other kinds skipped (ConfigMap)\n"
    assert ran.err.endswith("toposcope check: nothing was checked: there are no rules for ConfigMap\n")
