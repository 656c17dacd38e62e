"""`toposcope check` of workloads in files, against saved clusters and without one."""

import json
from pathlib import Path

import pytest
from tests.cli.clusters import busy, cordoned, hgx, linked, plain, sliced, tight, trays
from tests.cli.conftest import Command, CommandOnCluster, Save, Write, write_cluster
from tests.support.pages import expected_page
from tests.support.paths import DOCUMENTS
from tests.support.saved import cluster_topology, demo_nodes

regression = pytest.mark.regression


def document(name: str) -> str:
    """A file of tests/documents/cli/."""
    return (DOCUMENTS / "cli" / name).read_text(encoding="utf-8")


def pod_clique_set(name: str, *, required: str, replicas: int, gpus: int) -> str:
    """A PodCliqueSet of Grove whose pods must share a domain."""
    return f"""\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}, namespace: ml, labels: {{kai.scheduler/queue: research}}}}
spec:
  template:
    topologyConstraint: {{topologyName: cluster, pack: {{required: {required}}}}}
    cliques:
    - name: worker
      spec:
        roleName: worker
        replicas: {replicas}
        podSpec:
          schedulerName: kai-scheduler
          containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]
  replicas: 1
"""


MISSPELT = pod_clique_set("llm", required="rak", replicas=2, gpus=4)
HUGE = pod_clique_set("huge", required="nvlink-domain", replicas=20, gpus=4)
LARGE = pod_clique_set("large", required="nvlink-domain", replicas=18, gpus=4)
SMALL = pod_clique_set("small", required="rack", replicas=4, gpus=8)
NO_PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle}
spec:
  replicas: 0
  selector: {matchLabels: {app: idle}}
  template:
    metadata: {labels: {app: idle}}
    spec: {containers: [{name: main, image: none}]}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
WORKLOADS = f"{MISSPELT}---\n{HUGE}---\n{LARGE}---\n{SMALL}---\n{CONFIG_MAP}"


# Against a saved cluster


UNREAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve, namespace: ml}
spec:
  replicas: 1
  template:
    spec:
      nodeName: h200-1
      containers: [{name: main, image: x}]
"""


def test_check_when_a_field_is_unread_ends_as_unclear(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", UNREAD)
    ran = toposcope_on(busy, "check -f work.yaml", code=3)
    assert ran.out.splitlines() == [
        "work.yaml, document 1, line 1: deployment/serve -n ml (Kubernetes)",
        ("  not read: spec.template.spec.nodeName (line 8): the pod is bound to this node, and no scheduler sees it"),
        "  unclear: spec.template.spec.nodeName is not read; without it: fits: 1 pod on 1 node",
        "1 workload checked, 1 unclear",
    ]


def test_check_without_a_cluster_names_unread_fields(toposcope: Command, write: Write) -> None:
    write("work.yaml", UNREAD)
    ran = toposcope("check -f work.yaml -o json", code=3)
    why = "the pod is bound to this node, and no scheduler sees it"
    assert ran.json["workloads"][0]["unread"] == [{"field": "spec.template.spec.nodeName", "line": 8, "why": why}]


@regression
def test_check_of_workloads_is_its_page(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", WORKLOADS)
    ran = toposcope_on(busy, "check -f work.yaml", code=1)
    assert ran.out == expected_page("cli/pages/check.txt", ran.out)


@regression
def test_check_names_the_workloads_that_are_not_well(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", WORKLOADS)
    ran = toposcope_on(busy, "check -f work.yaml -o name", code=1)
    assert ran.out.splitlines() == ["podcliqueset/llm -n ml", "podcliqueset/huge -n ml", "podcliqueset/large -n ml"]


@regression
def test_check_for_scripts_has_findings_and_verdicts(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", WORKLOADS)
    llm, huge, large, small = toposcope_on(busy, "check -f work.yaml -o json", code=1).json["workloads"]
    assert llm["workload"] == "podcliqueset/llm -n ml"
    assert llm["findings"] == [
        {
            "rule": "grove/domain-exists",
            "severity": "error",
            "field": "spec.template.topologyConstraint.pack.required",
            "line": 6,
            "message": (
                "topology domain 'rak' does not exist in cluster topology [zone block rack nvlink-domain host]"
            ),
            "fix": "did you mean 'rack'?",
        }
    ]
    assert huge["workload"] == "podcliqueset/huge -n ml"
    assert huge["verdict"]["kind"] == "never"
    assert huge["verdict"]["shortage"]["needs"] == 80
    assert huge["verdict"]["shortage"]["largest"] == 72
    assert large["verdict"]["remedies"] == [
        {
            "act": "drain",
            "domain": "55c2d310-698c-4ab6-864f-82cfbd9dfc5a.32766",
            "nodes": ["gb200-01", "gb200-02"],
            "pods": ["train/busy-0", "train/busy-1"],
            "tolerations": [],
        }
    ]
    assert small["workload"] == "podcliqueset/small -n ml"
    assert small["well"] is True
    assert small["verdict"]["placement"][0]["nodes"] == {
        "h200-1": 1,
        "h200-2": 1,
        "h200-3": 1,
        "h200-4": 1,
    }


@regression
def test_check_for_scripts_places_objects_of_a_list(toposcope_on: CommandOnCluster, write: Write) -> None:
    broken = "a: [\n"
    objects = """\
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: Job
  metadata: {name: other}
- apiVersion: grove.io/v1alpha1
  kind: PodCliqueSet
  metadata: {name: small, namespace: ml, labels: {kai.scheduler/queue: research}}
  spec:
    template:
      topologyConstraint: {topologyName: cluster, pack: {required: rak}}
      cliques: [{name: worker, spec: {roleName: worker, replicas: 4, podSpec: {schedulerName: kai-scheduler}}}]
    replicas: 1
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: other}
"""
    write("work.yaml", f"{broken}---\n{objects}")
    ran = toposcope_on(busy, "check -f work.yaml -o json", code=2)
    checked = ran.json
    small = checked["workloads"][1]
    assert small["place"] == "work.yaml, document 2, item 2, line 2"
    assert small["findings"][0]["line"] == 14
    assert small["notes"][0] == "room is not checked until the levels are right"
    assert checked["passedOver"] == ["work.yaml, document 2, item 3, line 2"]
    assert checked["problems"] == ["work.yaml, document 1, line 2: not YAML: did not find expected node content"]
    assert "\ntoposcope check: 1 problem in the input\n" in ran.err


@regression
def test_check_explains_the_placement(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", SMALL)
    out = toposcope_on(busy, "check -f work.yaml --explain").out
    assert "\n    small must stay in one rack: 2 of 4 racks have room for it alone\n" in out
    assert "\n    small: 4 pods in rack-3: h200-1, h200-2, h200-3, h200-4\n" in out


@regression
def test_check_says_which_nodes_to_uncordon(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", SMALL)
    out = toposcope_on(cordoned, "check -f work.yaml", code=1).out
    assert (
        "  does not fit now: a pod of small needs 8 GPUs, and no node that it may use has more than 4 free (gb200-02)"
        in out
    )
    assert "    would fit if 4 nodes of rack-3 were Ready and not cordoned: h200-1, h200-2, h200-3, h200-4" in out
    assert "    8 nodes are left out: is cordoned (h200-1, h200-2, h200-3, h200-4, h200-5 and 3 more)" in out


@regression
def test_check_goes_on_after_documents_that_are_no_objects(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", f"a: [\n---\n{SMALL}---\n7\n")
    ran = toposcope_on(busy, "check -f work.yaml", code=2)
    assert "podcliqueset/small" in ran.out
    assert "work.yaml, document 1, line 2: not YAML" in ran.err
    assert "work.yaml, document 3" in ran.err
    assert "\ntoposcope check: 2 problems in the input\n" in ran.err


@regression
def test_check_of_nothing_ends_with_2(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", "---\n# nothing\n")
    err = toposcope_on(busy, "check -f work.yaml", code=2).err
    assert "toposcope check: there are no objects in work.yaml, so nothing was checked\n" in err


@regression
def test_check_of_kinds_without_rules_ends_with_3(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", CONFIG_MAP)
    ran = toposcope_on(busy, "check -f work.yaml", code=3)
    assert ran.out == "0 workloads checked, 1 object of other kinds skipped (ConfigMap)\n"
    assert "toposcope check: nothing was checked: there are no rules for ConfigMap\n" in ran.err


@regression
def test_check_of_workloads_without_pods_ends_with_3(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", NO_PODS)
    ran = toposcope_on(busy, "check -f work.yaml", code=3)
    assert ran.out.splitlines()[-1] == "1 workload checked"
    assert "toposcope check: room was not checked: the workloads request no pods\n" in ran.err
    write("work.yaml", f"{NO_PODS}---\n{SMALL}")
    assert toposcope_on(busy, "check -f work.yaml").out.splitlines()[-1] == "2 workloads checked"


@regression
@pytest.mark.usefixtures("folder")
def test_missing_file_is_the_only_complaint(toposcope_on: CommandOnCluster, toposcope: Command) -> None:
    message = "lost.yaml: No such file or directory\ntoposcope check: 1 problem in the input\n"
    on_cluster = toposcope_on(busy, "check -f lost.yaml", code=2)
    alone = toposcope("check -f lost.yaml", code=2)
    for ran in (on_cluster, alone):
        assert message in ran.err
        assert "warning" not in ran.out + ran.err


@regression
@pytest.mark.usefixtures("folder")
def test_standard_input_holds_workloads_or_cluster(toposcope: Command) -> None:
    err = toposcope("check -f - --from -", code=2).err
    assert "standard input can hold the workloads or the cluster, not both" in err


@regression
def test_check_against_live_objects_needs_a_cluster(toposcope: Command, write: Write) -> None:
    write("work.yaml", SMALL)
    err = toposcope("check -f work.yaml --from work.yaml --against live", code=2).err
    assert "--against live needs a cluster, and --from reads files" in err


@regression
def test_change_that_is_immutable_is_an_error_against_the_present_object(
    toposcope_on: CommandOnCluster, write: Write
) -> None:
    write("work.yaml", SMALL)
    write("present.yaml", SMALL.replace("required: rack", "required: host"))
    out = toposcope_on(plain, "check -f work.yaml --against present.yaml", code=1).out
    assert (
        "error: spec.template.topologyConstraint (line 6): PodCliqueSet topology constraint cannot be changed from "
        'required="host" preferred="" to required="rack" preferred=""'
    ) in out


@regression
def test_change_is_no_error_without_the_present_object(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", SMALL)
    assert "fits: " in toposcope_on(plain, "check -f work.yaml").out


# Pods with resource claims, by devices


@regression
def test_claims_fit_by_free_devices(toposcope_on: CommandOnCluster, write: Write) -> None:
    """8 GPUs on each of h200-2 to 4, 7 on h200-1, 4 on each of three other nodes."""
    write("work.yaml", document("claims.yaml"))
    out = toposcope_on(sliced, "check -f work.yaml", code=1).out
    assert "fits: 10 pods on 7 nodes" in out
    assert (
        "does not fit now: eleven needs 11 x resourceclaimtemplate/four -n default, the nodes it may use have 10" in out
    )
    assert "would fit if 1 node of the cluster were drained: h200-1" in out
    assert "cannot fit: twelve needs 12 x resourceclaimtemplate/four -n default, the nodes it may use have 11" in out


@regression
def test_extended_resource_of_a_device_class_fits_by_free_devices(toposcope_on: CommandOnCluster, write: Write) -> None:
    """7 of 8 GPUs are free on h200-1, and no device plugin has any there."""
    write(
        "work.yaml",
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: seven}
        spec:
          nodeSelector: {kubernetes.io/hostname: h200-1}
          containers: [{name: c, resources: {limits: {nvidia.com/gpu: 7}}}]
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: eight}
        spec:
          nodeSelector: {kubernetes.io/hostname: h200-1}
          containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]
        """,
    )
    out = toposcope_on(linked, "check -f work.yaml", code=1).out
    assert "fits: 1 pod on 1 node" in out
    assert "does not fit now: a pod of eight needs 8 GPUs, and no node that it may use has more than 7 free" in out


# Whether three pods of each size, which fill every node to the last, fit takes too long to try.


def tight_job_set() -> str:
    """A JobSet of twelve sizes of pods, three of each."""
    job = "{{name: c{0}, template: {{spec: {{parallelism: 3, template: {{spec: {{containers: [{1}]}}}}}}}}}}"
    container = "{{name: main, resources: {{requests: {{cpu: {0}m}}}}}}"
    lines = ["apiVersion: jobset.x-k8s.io/v1alpha2", "kind: JobSet", "metadata: {name: tight}"]
    lines += ["spec:", "  replicatedJobs:"]
    for size in (*range(278, 388, 10), 392):
        lines.append(f"  - {job.format(size, container.format(size))}")
    return "\n".join([*lines, ""])


@regression
def test_what_cannot_be_exact_is_unclear_with_code_3(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", tight_job_set())
    out = toposcope_on(tight, "check -f work.yaml", code=3).out
    assert "  unclear: there is enough room in total" in out
    assert "1 workload checked, 1 unclear\n" in out


@regression
def test_unclear_workload_is_named(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", tight_job_set())
    assert toposcope_on(tight, "check -f work.yaml -o name", code=3).out == "jobset/tight\n"


@regression
def test_unclear_workload_is_not_well_for_scripts(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", tight_job_set())
    (workload,) = toposcope_on(tight, "check -f work.yaml -o json", code=3).json["workloads"]
    assert workload["well"] is False
    assert workload["verdict"]["kind"] == "unclear"


@regression
def test_wrong_workload_beside_an_unclear_one_ends_with_1(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", tight_job_set())
    write("wrong.yaml", MISSPELT)
    toposcope_on(tight, "check -f work.yaml -f wrong.yaml", code=1)


# Pools of OSMO


@regression
def test_check_of_osmo_configurations_is_its_page(toposcope_on: CommandOnCluster, write: Write) -> None:
    """A pool of OSMO in the same run, and a document of a kind that nobody knows."""
    write("work.yaml", document("osmo-configurations.yaml"))
    ran = toposcope_on(trays, "check -f work.yaml", code=1)
    assert ran.out == expected_page("cli/pages/configurations.txt", ran.out)


WORKFLOW = document("osmo-configurations.yaml").partition("---\n")[0].replace("key: rak", "key: rack")


@regression
def test_osmo_pool_is_read_as_osmo_prints_it(toposcope_on: CommandOnCluster, write: Write) -> None:
    keys = [{"key": "rack", "label": "cloud.google.com/gce-topology-subblock"}]
    write("work.yaml", WORKFLOW)
    write("pool.json", json.dumps({"pools": {"gb200": {"topology_keys": keys}}}, indent=2))
    out = toposcope_on(trays, "check -f work.yaml -f pool.json").out
    assert "fits: rack rack-1 (4 nodes, " in out


@regression
def test_document_without_a_kind_is_a_problem_beside_others(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", f"what: is this\n---\n{WORKFLOW}")
    ran = toposcope_on(trays, "check -f work.yaml", code=2)
    assert "workflow/train" in ran.out
    assert "work.yaml, document 1, line 1: kind: is missing, so the kind of the object is unknown" in ran.err


@pytest.mark.slow
def test_check_of_ten_thousand_documents_ends(tmp_path: Path, toposcope: Command) -> None:
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(), cluster_topology())
    leader_worker_set = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "x"},
    }
    line = json.dumps(leader_worker_set) + "\n"
    many = tmp_path / "many.json"
    many.write_text(line * 10_000)
    out = toposcope(f"check -f {many} --from {cluster}").out
    assert out.splitlines()[-1] == "10000 workloads checked"


@regression
def test_check_fills_in_a_template_of_osmo(toposcope_on: CommandOnCluster, write: Write) -> None:
    write(
        "work.yaml",
        """
workflow:
  name: {{ name }}
  resources: {default: {gpu: {{ gpus }} }}
  tasks: [{name: a, resource: other}]
default-values: {name: demo, gpus: 9}
""",
    )
    ran = toposcope_on(busy, "check -f work.yaml", code=1)
    assert "workflow/demo (OSMO)" in ran.out
    assert "error: workflow.tasks[0].resource: resource 'other' is not in workflow.resources" in ran.out
    write("work.yaml", "workflow: {name: x, pool: {{ pool }} }\n")
    ran = toposcope_on(busy, "check -f work.yaml", code=2)
    assert "work.yaml, document 1, line 1: this OSMO template has no value for pool: add it" in ran.err


@pytest.mark.regression
def test_level_that_kueue_will_not_get_is_an_error(toposcope: Command, save: Save, write: Write) -> None:
    """Without a Topology in the files, the one that would be published counts: it does not begin with own names."""
    write(
        "job.yaml",
        """
        apiVersion: batch/v1
        kind: Job
        metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: q}}
        spec:
          suspend: true
          template:
            metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: gpu.topology/nvlink-domain}}
            spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}
        """,
    )
    out = toposcope(f"check -f job.yaml --from {save(hgx)}", code=1).out
    assert "error: spec.template.metadata.annotations" in out
    assert "gpu.topology/nvlink-domain" in out


@regression
def test_files_without_limits_are_noted_once(toposcope: Command, tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes(most=8), cluster_topology())
    work = tmp_path / "work.yaml"
    work.write_text(f"{SMALL}---\n{LARGE}")
    err = toposcope(f"check -f {work} --from {cluster}", code=None).err
    assert err.count("note: the files have no") == 1
    assert (
        "note: the files have no LimitRanges or ResourceQuotas, so their defaults and limits are not checked; "
        "if the cluster has any, save them too: kubectl get limitranges,resourcequotas -A -o yaml"
    ) in err
