"""Rules between pods: affinity, anti-affinity, topology spread and host ports decide what `check` says."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import check, error, snapshot_of, warning
from toposcope.placement.check import Checker
from toposcope.placement.sentences import answer as answer_of

pytestmark = pytest.mark.regression

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
CLIQUE = "nvidia.com/gpu.clique"
HOST = "kubernetes.io/hostname"
RACK = "topology.example.com/rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, *, gpus: int = 8, cpu: str = "64", **labels: str) -> Object:
    """A node that is Ready; `rack`, `clique`: its labels."""
    keys = {"rack": RACK, "clique": CLIQUE}
    named = {keys[key]: value for key, value in labels.items()}
    allocatable = {"cpu": cpu, "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **named}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def container(*, gpus: int = 1, port: int = 0) -> Object:
    ports = [{"containerPort": 80, "hostPort": port}] if port else []
    return {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {GPU: str(gpus)}}, "ports": ports}


def running(name: str, on: str, labels: Mapping[str, str], *, port: int = 0, **spec: Any) -> Object:
    """A pod of somebody else, without GPUs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels)},
        "spec": {"nodeName": on, "containers": [container(gpus=0, port=port)], **spec},
        "status": {"phase": "Running"},
    }


def template(labels: Mapping[str, str], *, gpus: int = 1, port: int = 0, **spec: Any) -> Object:
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {"containers": [container(gpus=gpus, port=port)], **spec},
    }


def job(pods: int, pod_template: Object, **metadata: Any) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", **metadata},
        "spec": {"parallelism": pods, "completions": pods, "template": pod_template},
    }


def deployment(pods: int, pod_template: Object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve", "namespace": "default"},
        "spec": {"replicas": pods, "template": pod_template},
    }


def mpi_job(workers: int, affinity: Object) -> Object:
    """NVIDIA's own: launcher and workers beside the workers."""
    launcher = template({}, gpus=0, affinity=affinity)
    worker = template({"rep": "w"}, gpus=4, affinity=affinity)
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "nccl", "namespace": "default"},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": launcher},
                "Worker": {"replicas": workers, "template": worker},
            }
        },
    }


def term(key: str, labels: Mapping[str, str], **more: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **more}


def near(*terms: Object) -> Object:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Object) -> Object:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def spread(key: str, labels: Mapping[str, str], **more: Any) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(labels)},
        **more,
    }


def verdict(workload: Object, objects: Iterable[Object]) -> str:
    return check(workload, objects).verdict


APP = {"app": "x"}
IN_CLIQUE = near(term(CLIQUE, {"rep": "w"}))
CLIQUES_OF_TWO = [
    node("a1", gpus=4, clique="aaaa"),
    node("a2", gpus=4, clique="aaaa"),
    node("b1", gpus=4, clique="bbbb"),
    node("b2", gpus=4, clique="bbbb"),
]
TWO_NODES = [node("n1"), node("n2")]


# pod affinity


def test_workers_of_one_clique_cannot_fit_in_cliques_of_two() -> None:
    assert verdict(mpi_job(4, IN_CLIQUE), CLIQUES_OF_TWO) == (
        "cannot fit: 2 of 4 pods of Worker find a node: podAffinity keeps them in one nvidia.com/gpu.clique; "
        "2 nodes didn't match pod affinity rules"
    )


def test_workers_of_one_clique_fit_where_each_clique_has_room() -> None:
    answer = check(mpi_job(2, IN_CLIQUE), CLIQUES_OF_TWO)
    assert answer.verdict == "fits: 3 pods on 2 nodes"


def test_workers_of_one_clique_are_unclear_where_one_is_too_small() -> None:
    cliques = [*CLIQUES_OF_TWO, node("a3", gpus=4, clique="aaaa")]
    assert verdict(mpi_job(3, IN_CLIQUE), cliques) == (
        "unclear: every pod can get a node, but kube-scheduler places pods one by one: if the first ones take "
        "the wrong nodes, only 2 of 3 pods of Worker find a node (podAffinity keeps them in one nvidia.com/gpu.clique)"
    )


def test_workers_of_a_full_clique_do_not_fit_now() -> None:
    full = running("o", "a2", {})
    full["spec"]["containers"] = [container(gpus=4)]
    nodes = [*CLIQUES_OF_TWO[:3], full]
    assert verdict(mpi_job(2, IN_CLIQUE), nodes).startswith("does not fit now: 1 of 2 pods of Worker finds a node")


def test_followers_go_where_a_running_pod_is() -> None:
    web = running("web", "n2", {"app": "web"})
    followers = job(2, template(APP, affinity=near(term(HOST, {"app": "web"}))))
    answer = check(followers, [*TWO_NODES, web])
    assert answer.verdict == "fits: 2 pods on 1 node"
    assert answer.explanation == [
        "train: 2 pods in n2",
        "1 node is left out: didn't match pod affinity rules (n1)",
    ]


def test_followers_of_nobody_do_not_fit_now() -> None:
    followers = job(2, template(APP, affinity=near(term(HOST, {"app": "web"}))))
    answer = check(followers, TWO_NODES)
    assert answer.verdict == "does not fit now: train needs 2 GPUs, the nodes it may use have none"
    assert answer.explanation == ["2 nodes are left out: didn't match pod affinity rules (n1, n2)"]


def test_first_pod_starts_where_its_mate_has_no_such_label() -> None:
    mate = running("mate", "bare", APP)
    nodes = [node("bare"), node("n1", rack="r1")]
    assert verdict(job(2, template(APP, affinity=near(term(RACK, APP)))), [*nodes, mate]) == "fits: 2 pods on 1 node"


def test_pods_of_another_namespace_are_no_mates() -> None:
    web = running("web", "n1", {"app": "web"})
    web["metadata"]["namespace"] = "else"
    own = job(1, template(APP, affinity=near(term(HOST, {"app": "web"}))))
    everywhere = job(1, template(APP, affinity=near(term(HOST, {"app": "web"}, namespaceSelector={}))))
    named = job(1, template(APP, affinity=near(term(HOST, {"app": "web"}, namespaces=["else"]))))
    assert verdict(own, [*TWO_NODES, web]) == "does not fit now: train needs 1 GPU, the nodes it may use have none"
    assert verdict(everywhere, [*TWO_NODES, web]) == "fits: 1 pod on 1 node"
    assert verdict(named, [*TWO_NODES, web]) == "fits: 1 pod on 1 node"


def test_namespaces_by_label_are_unclear() -> None:
    by_label = {"matchLabels": {"team": "x"}}
    affinity = apart(term(HOST, {"app": "web"}, namespaceSelector=by_label))
    web = running("web", "n1", {"app": "web"})
    web["metadata"]["namespace"] = "else"
    assert verdict(job(1, template(APP, affinity=affinity)), [*TWO_NODES, web]) == (
        "unclear: a namespaceSelector selects by namespace labels, which are not read"
    )


def test_label_that_a_controller_may_add_is_unclear() -> None:
    affinity = apart(term(HOST, {"jobset.sigs.k8s.io/job-index": "0"}))
    assert verdict(job(2, template(APP, affinity=affinity)), TWO_NODES) == (
        "unclear: a labelSelector uses a label that a controller adds to pods"
    )


def test_label_that_the_job_controller_adds_is_known() -> None:
    affinity = apart(term(HOST, {"job-name": "train"}))
    assert verdict(job(2, template(APP, affinity=affinity)), TWO_NODES) == "fits: 2 pods on 2 nodes"


# pod anti-affinity


def test_pods_that_share_no_node_need_a_node_each() -> None:
    alone = template(APP, affinity=apart(term(HOST, APP)))
    assert verdict(job(2, alone), TWO_NODES) == "fits: 2 pods on 2 nodes"
    assert verdict(job(3, alone), TWO_NODES) == (
        "cannot fit: 2 of 3 pods find a node: podAntiAffinity allows one per kubernetes.io/hostname; "
        "2 nodes didn't match pod anti-affinity rules"
    )


def test_pods_avoid_a_node_with_a_pod_that_they_do_not_stand() -> None:
    web = running("web", "n1", {"app": "web"})
    answer = check(job(1, template(APP, affinity=apart(term(HOST, {"app": "web"})))), [*TWO_NODES, web])
    assert answer.explanation == [
        "train: 1 pod in n2",
        "1 node is left out: didn't match pod anti-affinity rules (n1)",
    ]


def test_running_pod_keeps_others_out_of_its_rack() -> None:
    nodes = [node("n1", rack="r1"), node("n2", rack="r1"), node("n3", rack="r2")]
    lonely = running("lonely", "n1", {}, affinity=apart(term(RACK, APP)))
    answer = check(job(1, template(APP)), [*nodes, lonely])
    assert answer.explanation == [
        "train: 1 pod in n3",
        "2 nodes are left out: didn't satisfy existing pods anti-affinity rules (n1, n2)",
    ]
    assert verdict(job(1, template({"app": "y"})), [*nodes, lonely]) == "fits: 1 pod on 1 node"
    assert verdict(job(9, template(APP)), [*nodes, lonely]).startswith("does not fit now")


def test_new_replicas_stay_away_from_new_ones_only() -> None:
    affinity = apart(term(HOST, APP, matchLabelKeys=["pod-template-hash"]))
    old = [running(f"old-{name}", name, {**APP, "pod-template-hash": "abc"}) for name in ("n1", "n2")]
    serve = template(APP, affinity=affinity)
    assert verdict(deployment(2, serve), [*TWO_NODES, *old]) == "fits: 2 pods on 2 nodes"
    assert verdict(deployment(3, serve), [*TWO_NODES, *old]).startswith("cannot fit: 2 of 3 pods find a node")


@pytest.mark.parametrize(("pods", "head"), [(300, "fits"), (301, "cannot fit")])
def test_large_jobs_with_a_node_for_each_pod_get_an_answer(pods: int, head: str) -> None:
    nodes = [node(f"n{number}") for number in range(300)]
    alone = template(APP, affinity=apart(term(HOST, APP)))
    assert verdict(job(pods, alone), nodes).partition(":")[0] == head


# topology spread


def test_spread_over_a_label_that_no_node_has_cannot_fit() -> None:
    answer = check(deployment(2, template(APP, topologySpreadConstraints=[spread(RACK, APP)])), TWO_NODES)
    assert answer.verdict == "cannot fit: serve needs 2 GPUs, the nodes it may use have none"
    assert answer.explanation == [
        f"2 nodes are left out: lacks label {RACK}, the topologyKey of an affinity or spread constraint (n1, n2)"
    ]


def test_spread_over_fewer_domains_than_asked_for_stops_at_the_skew() -> None:
    wide = template(APP, topologySpreadConstraints=[spread(HOST, APP, minDomains=2)])
    assert verdict(job(3, wide), [node("n1")]) == (
        "cannot fit: 1 of 3 pods finds a node: topologySpreadConstraints allow a skew of 1 over "
        "kubernetes.io/hostname; 1 node didn't match pod topology spread constraints"
    )
    assert verdict(job(3, wide), TWO_NODES) == "fits: 3 pods on 2 nodes"


def test_spread_counts_a_domain_that_is_full() -> None:
    nodes = [node("n1", gpus=1), node("n2")]
    wide = template(APP, topologySpreadConstraints=[spread(HOST, APP)])
    assert verdict(job(3, wide), nodes) == "fits: 3 pods on 2 nodes"
    assert verdict(job(4, wide), nodes).startswith("cannot fit: 3 of 4 pods find a node")


def test_spread_counts_tainted_nodes_unless_it_honors_taints() -> None:
    tainted = node("n2")
    tainted["spec"] = {"taints": [{"key": "x", "effect": "NoSchedule"}]}
    ignoring = template(APP, topologySpreadConstraints=[spread(HOST, APP)])
    honoring = template(APP, topologySpreadConstraints=[spread(HOST, APP, nodeTaintsPolicy="Honor")])
    assert verdict(job(2, ignoring), [node("n1"), tainted]).startswith("cannot fit: 1 of 2 pods finds a node")
    assert verdict(job(2, honoring), [node("n1"), tainted]) == "fits: 2 pods on 1 node"


@pytest.mark.parametrize(("pods", "head"), [(301, "fits"), (302, "cannot fit")])
def test_large_jobs_that_spread_get_an_answer(pods: int, head: str) -> None:
    nodes = [node(f"a{number}", gpus=1, rack="a") for number in range(150)]
    nodes += [node(f"b{number}", gpus=8, rack="b") for number in range(150)]
    wide = template(APP, topologySpreadConstraints=[spread(RACK, APP)])
    assert verdict(job(pods, wide), nodes).partition(":")[0] == head


# host ports


def test_pods_with_a_host_port_need_a_node_each() -> None:
    assert verdict(job(2, template(APP, port=8080)), TWO_NODES) == "fits: 2 pods on 2 nodes"
    assert verdict(job(3, template(APP, port=8080)), TWO_NODES) == (
        "cannot fit: 2 of 3 pods find a node: only one pod per node can have host port 8080/TCP (hostPort); "
        "2 nodes didn't have free ports for the requested pod ports"
    )


def test_ports_of_running_pods_are_taken() -> None:
    answer = check(job(1, template(APP, port=8080)), [*TWO_NODES, running("r", "n1", {}, port=8080)])
    assert answer.explanation == [
        "train: 1 pod in n2",
        "1 node is left out: didn't have free ports for the requested pod ports (n1)",
    ]


def test_ports_of_the_host_network_are_taken() -> None:
    on_host = template(APP, hostNetwork=True)
    on_host["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    assert verdict(job(3, on_host), TWO_NODES).startswith("cannot fit: 2 of 3 pods find a node")


# other schedulers

KAI_METADATA = {
    "labels": {"kai.scheduler/queue": "default-queue"},
    "annotations": {"kai.scheduler/batch-min-member": "3"},
}


def kai_job(pod_template: Object) -> Object:
    pod_template["metadata"]["labels"]["kai.scheduler/queue"] = "default-queue"
    pod_template["spec"]["schedulerName"] = "kai-scheduler"
    return job(3, pod_template, **KAI_METADATA)


def test_kai_places_one_pod_with_a_host_port_on_each_node() -> None:
    three = [*TWO_NODES, node("n3")]
    answer = check(kai_job(template(APP, port=8080)), three)
    assert answer.verdict == "fits: 3 pods on 3 nodes"
    assert verdict(kai_job(template(APP, port=8080)), TWO_NODES).startswith(
        "cannot fit: 2 of 3 pods find a node: only one pod per node can have host port 8080/TCP (hostPort)"
    )


def test_kai_does_not_go_by_spread_constraints() -> None:
    wide = template(APP, topologySpreadConstraints=[spread(RACK, APP)])
    answer = check(kai_job(wide), TWO_NODES)
    assert answer.verdict == "fits: 3 pods on 1 node"
    assert (
        warning(
            "kai/spread",
            "",
            "KAI 0.17 ignores topologySpreadConstraints",
            fix="use podAntiAffinity to keep pods apart",
        )
        in answer.findings
    )


def test_kai_keeps_pods_apart_as_it_places_them() -> None:
    apart_by_host = template(APP, affinity=apart(term(HOST, APP)))
    answer = check(kai_job(apart_by_host), [*TWO_NODES, node("n3")])
    assert answer.verdict == "fits: 3 pods on 3 nodes"


def test_kai_gang_that_may_start_in_a_clique_that_is_too_small_is_unclear() -> None:
    nodes = [node("a1", gpus=2, clique="a"), node("b1", clique="b"), node("b2", clique="b")]
    together = template(APP, affinity=near(term(CLIQUE, APP)))
    assert verdict(kai_job(together), nodes) == (
        "unclear: KAI 0.17 places pods one by one: in one order the rules between them leave no node for the last "
        "pods, and it is unknown whether it uses another order"
    )


def test_kueue_that_assigns_two_pods_with_one_port_to_a_node_is_unclear() -> None:
    cluster = CheckedCluster("placement/clusters/kueue-queue", "placement/kueue-job")
    cluster.pods(2)
    cluster.gpus_per_pod(1)
    assert cluster.check().verdict.partition(":")[0] == "fits"
    cluster.edit_workload("spec.template.spec.containers[0].ports", [{"containerPort": 80, "hostPort": 8080}])
    assert cluster.check().verdict == (
        "unclear: Kueue ignores hostPort when it assigns nodes, and its pods would stay pending there"
    )


def test_kueue_that_assigns_one_pod_with_a_port_to_each_node_fits() -> None:
    cluster = CheckedCluster("placement/clusters/kueue-queue", "placement/kueue-job")
    cluster.pods(2)
    cluster.gpus_per_pod(8)
    cluster.edit_workload("spec.template.spec.containers[0].ports", [{"containerPort": 80, "hostPort": 8080}])
    assert cluster.check().verdict == "fits: example.com/rack r1 (2 nodes, 16 free GPUs)"


def test_volcano_with_a_level_and_a_port_is_unclear() -> None:
    cluster = CheckedCluster("placement/clusters/one-rack", "placement/volcano-job")
    cluster.edit_workload("spec.tasks[0].template.spec.containers[0].ports", [{"containerPort": 80, "hostPort": 80}])
    assert cluster.check().verdict == "unclear: toposcope's search for Volcano does not evaluate hostPort"


def volcano_job(**tasks: Object) -> Object:
    """A gang of one pod of each task."""
    written = [{"name": name, "replicas": 1, "template": pod_template} for name, pod_template in tasks.items()]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulerName": "volcano", "minAvailable": len(written), "tasks": written},
    }


def test_volcano_job_that_may_fill_the_only_node_of_a_pod_is_unclear() -> None:
    lonely = running("lonely", "n1", {}, affinity=apart(term(HOST, APP)))
    whole_node = volcano_job(large=template(APP, gpus=8), small=template({}))
    assert verdict(whole_node, TWO_NODES) == "fits: 2 pods on 2 nodes"

    assert verdict(whole_node, [*TWO_NODES, lonely]) == (
        "unclear: Volcano places differing pods and parts one by one without backtracking, so it may miss a valid "
        "placement"
    )
    assert verdict(whole_node, TWO_NODES) == "fits: 2 pods on 2 nodes"


def ray_cluster(workers: int, affinity: Object) -> Object:
    head = template({}, gpus=0)
    worker = template({}, affinity=affinity)
    group = {"groupName": "gpu", "replicas": workers, "template": worker}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray", "namespace": "default"},
        "spec": {"headGroupSpec": {"template": head}, "workerGroupSpecs": [group]},
    }


def test_labels_of_ray_workers_are_known() -> None:
    affinity = apart(term(HOST, {"ray.io/group": "gpu"}))
    assert verdict(ray_cluster(2, affinity), TWO_NODES) == "fits: 3 pods on 2 nodes"
    assert verdict(ray_cluster(3, affinity), TWO_NODES).startswith("cannot fit: 2 of 3 pods of gpu find a node")


def test_labels_of_the_training_operator_are_known() -> None:
    affinity = apart(term(HOST, {"training.kubeflow.org/job-name": "nccl"}))
    assert verdict(mpi_job(2, affinity), [*TWO_NODES, node("n3")]) == "fits: 3 pods on 3 nodes"
    assert verdict(mpi_job(2, affinity), TWO_NODES).startswith("cannot fit: ")


# selectors and labels


def test_term_without_selector_selects_no_pod() -> None:
    without_selector = apart({"topologyKey": HOST})
    assert verdict(job(3, template(APP, affinity=without_selector)), TWO_NODES) == "fits: 3 pods on 1 node"


def test_term_without_topology_key_is_an_error() -> None:
    answer = check(job(1, template(APP, affinity=apart({"labelSelector": {"matchLabels": APP}}))), TWO_NODES)
    assert answer.findings == [
        error(
            "pods/topology-key",
            f"spec.template.spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey",
            "can not be empty",
            fix="set it to a node label",
        )
    ]


def test_namespace_named_by_its_label_is_known() -> None:
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": "else"}}
    web = running("web", "n1", {"app": "web"})
    web["metadata"]["namespace"] = "else"
    affinity = apart(term(HOST, {"app": "web"}, namespaceSelector=by_name))
    answer = check(job(1, template(APP, affinity=affinity)), [*TWO_NODES, web])
    assert answer.verdict == "fits: 1 pod on 1 node"
    assert answer.explanation == [
        "train: 1 pod in n2",
        "1 node is left out: didn't match pod anti-affinity rules (n1)",
    ]


def test_index_that_is_not_kept_of_running_pods_is_unclear() -> None:
    affinity = apart(term(HOST, {"batch.kubernetes.io/job-completion-index": "0"}))
    assert verdict(job(1, template(APP, affinity=affinity)), TWO_NODES) == (
        "unclear: a labelSelector uses a label that a controller adds to pods"
    )


def test_affinity_to_a_label_that_a_controller_may_add_is_unclear() -> None:
    by_revision = near(term(HOST, APP, matchLabelKeys=["controller-revision-hash"]))
    group = {"size": 2, "workerTemplate": template(APP, affinity=by_revision)}
    serve = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "namespace": "default"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": group},
    }
    old = running("old", "n1", {**APP, "controller-revision-hash": "abc"})
    answer = check(serve, [node("n1", gpus=0), node("n2"), old])
    assert answer.verdict == "unclear: a labelSelector uses a label that a controller adds to pods"


def test_affinity_to_an_index_that_is_not_kept_of_running_pods_is_unclear() -> None:
    first = running("first", "n1", {**APP, "batch.kubernetes.io/job-completion-index": "0"})
    beside_first = near(term(HOST, {**APP, "batch.kubernetes.io/job-completion-index": "0"}))
    assert verdict(job(1, template({}, affinity=beside_first)), [*TWO_NODES, first]) == (
        "unclear: a labelSelector uses a label that a controller adds to pods"
    )


def test_spread_that_is_only_preferred_decides_nothing() -> None:
    anyway = spread(RACK, APP, whenUnsatisfiable="ScheduleAnyway")
    assert verdict(job(3, template(APP, topologySpreadConstraints=[anyway])), TWO_NODES) == "fits: 3 pods on 1 node"


@pytest.mark.parametrize("selector", [None, {}], ids=["none", "empty"])
def test_spread_without_selector_counts_no_pod(selector: Object | None) -> None:
    counting_nothing = spread(HOST, APP)
    counting_nothing["labelSelector"] = selector
    wide = template(APP, topologySpreadConstraints=[counting_nothing])
    assert verdict(job(3, wide), [node("n1", gpus=1), node("n2", gpus=2)]) == "fits: 3 pods on 2 nodes"


def test_spread_by_a_label_that_a_controller_may_add_is_unclear() -> None:
    wide = template(APP, topologySpreadConstraints=[spread(HOST, {"jobset.sigs.k8s.io/job-index": "0"})])
    assert verdict(job(2, wide), TWO_NODES) == "unclear: a labelSelector uses a label that a controller adds to pods"


def test_spread_ignores_nodes_without_the_label_of_another_spread() -> None:
    both = [spread(HOST, APP), spread(RACK, APP)]
    wide = template(APP, topologySpreadConstraints=both)
    nodes = [node("n1", rack="r1"), node("bare"), node("bare-too")]
    assert verdict(job(4, wide), nodes) == "fits: 4 pods on 1 node"


def test_spread_ignores_nodes_that_the_pods_do_not_select() -> None:
    on_n1 = template(APP, nodeSelector={RACK: "r1"}, topologySpreadConstraints=[spread(HOST, APP)])
    nodes = [node("n1", rack="r1"), node("n2", rack="r2")]
    assert verdict(job(4, on_n1), nodes) == "fits: 4 pods on 1 node"

    counting_all = spread(HOST, APP, nodeAffinityPolicy="Ignore")
    on_n1["spec"]["topologySpreadConstraints"] = [counting_all]
    assert verdict(job(4, on_n1), nodes).startswith("cannot fit: 1 of 4 pods finds a node")


def test_rules_on_a_file_that_lacks_labels_of_pods_are_unclear() -> None:
    alone = job(2, template(APP, affinity=apart(term(HOST, APP))))
    old_file = replace(snapshot_of([*TWO_NODES, running("r", "n1", {})], {}), knows_pod_rules=False)
    (checked,) = Checker(old_file, [alone]).check(alone)
    assert checked.verdict
    assert answer_of(checked.verdict) == (
        "unclear: its pods have rules about other pods, but an earlier version saved the cluster's file without what "
        "these rules need; save it again: toposcope save FILE"
    )

    without_pods = replace(snapshot_of(TWO_NODES, {}), knows_pod_rules=False)
    (checked,) = Checker(without_pods, [alone]).check(alone)
    assert checked.verdict
    assert answer_of(checked.verdict) == "fits: 2 pods on 2 nodes"


def test_mates_that_must_share_a_full_node_are_counted() -> None:
    together = template(APP, gpus=8, affinity=near(term(HOST, APP)))
    answer = verdict(deployment(2, together), [node("n0"), node("n1")])
    assert answer == (
        "cannot fit: 1 of 2 pods finds a node: podAffinity keeps them in one kubernetes.io/hostname; "
        "1 node didn't match pod affinity rules"
    )


def test_pods_apart_by_two_labels_are_held_to_the_stricter_one() -> None:
    separate = template(APP, gpus=8, affinity=apart(term(HOST, APP), term(RACK, APP)))
    nodes = [node("n0", rack="a"), node("n1", rack="a"), node("n2")]
    answer = verdict(deployment(3, separate), nodes)
    assert answer == (
        f"cannot fit: 2 of 3 pods find a node: podAntiAffinity allows one per {HOST}, {RACK}; "
        "1 node didn't match pod anti-affinity rules"
    )


def test_rules_about_others_are_told_from_those_about_ones_own() -> None:
    separate = template(APP, affinity=apart(term(HOST, APP), term(RACK, {"app": "web"})))
    nodes = [node("n0", rack="a"), node("n1", rack="a"), node("n2", rack="b"), node("n3", rack="c")]
    there = [*nodes, running("web", "n2", {"app": "web"})]
    assert verdict(deployment(4, separate), there) == (
        f"does not fit now: 3 of 4 pods find a node: podAntiAffinity allows one per {HOST} and keeps them out of "
        f"each {RACK} with pods that it selects; 3 nodes didn't match pod anti-affinity rules"
    )


# More pods than are tried in every order: the bounds of each rule decide.


def three_large_nodes() -> list[Object]:
    """A node in rack a and two in rack b, with room for 100 pods each."""
    racks = {"n0": "a", "n1": "b", "n2": "b"}
    return [node(name, gpus=100, cpu="400", rack=rack) for name, rack in racks.items()]


def many(pods: int, **spec: Any) -> Object:
    return deployment(pods, template(APP, **spec))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"affinity": apart(term(HOST, {"app": "y"}))}, id="apart-from-others"),
        pytest.param({"topologySpreadConstraints": [spread(HOST, {"app": "y"})]}, id="spread-of-others"),
        pytest.param({"topologySpreadConstraints": [spread(HOST, APP)]}, id="spread-over-hosts"),
    ],
)
def test_many_pods_fit_where_no_rule_is_in_the_way(spec: Object) -> None:
    assert verdict(many(250, **spec), three_large_nodes()) == "fits: 250 pods on 3 nodes"


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        pytest.param({"topologySpreadConstraints": [spread(RACK, APP)]}, "201 of 250 pods find a node", id="spread"),
        pytest.param(
            {"topologySpreadConstraints": [spread(RACK, APP, minDomains=3)]},
            "2 of 250 pods find a node",
            id="spread-over-more-racks-than-there-are",
        ),
        pytest.param({"affinity": apart(term(HOST, APP))}, "3 of 250 pods find a node", id="apart"),
        pytest.param({"affinity": near(term(RACK, APP))}, "200 of 250 pods find a node", id="together"),
        pytest.param({"port": 80}, "3 of 250 pods find a node", id="host-port"),
    ],
)
def test_many_pods_are_held_to_the_bound_of_a_rule(spec: Object, most: str) -> None:
    answer = verdict(many(250, **spec), three_large_nodes())
    assert answer.startswith(f"cannot fit: {most}: ")


def test_node_without_the_label_takes_all_that_it_has_room_for() -> None:
    """It is in no domain, so pods that avoid each other's domain may share it."""
    nodes = [*three_large_nodes(), node("n3", gpus=100, cpu="400"), node("n4", gpus=0, rack="c")]
    answer = verdict(many(250, affinity=apart(term(RACK, APP))), nodes)
    assert answer.startswith("cannot fit: 102 of 250 pods find a node: podAntiAffinity allows one per ")


def test_node_without_the_label_takes_no_pod_that_is_spread() -> None:
    nodes = [*three_large_nodes(), node("n3", gpus=100, cpu="400")]
    answer = verdict(many(250, topologySpreadConstraints=[spread(RACK, APP)]), nodes)
    assert answer.startswith("cannot fit: 201 of 250 pods find a node: ")


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        pytest.param({"affinity": apart(term(HOST, {"rep": "w"}))}, "podAntiAffinity", id="apart"),
        pytest.param(
            {"topologySpreadConstraints": [spread(HOST, {"rep": "w"})]}, "topologySpreadConstraints", id="spread"
        ),
    ],
)
def test_launcher_with_a_rule_about_its_many_workers_is_unclear(rule: Object, field: str) -> None:
    """The workers may be on every node before the launcher is placed."""
    workload = mpi_job(250, {})
    workload["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"].update(rule)
    nodes = [node(f"n{number}", gpus=1000, cpu="4000") for number in range(3)]
    for large in nodes:
        large["status"]["allocatable"]["pods"] = "1000"
    assert verdict(workload, nodes) == (
        f"unclear: kube-scheduler places pods one by one, and with {field} it is unknown whether its choices "
        "leave nodes for the last ones"
    )


def test_mates_that_are_too_many_for_a_rack_cannot_use_nodes_of_none() -> None:
    nodes = [*three_large_nodes(), node("n3", gpus=300, cpu="400")]
    answer = verdict(many(250, affinity=near(term(RACK, APP))), nodes)
    assert answer.startswith("cannot fit: 200 of 250 pods find a node: podAffinity keeps them in one ")


def test_rack_that_is_too_small_is_the_reason_whatever_ports_pods_take() -> None:
    cluster = CheckedCluster("placement/clusters/published-kueue", "placement/kueue-job-of-2-in-rack")
    elsewhere = node("n9")
    elsewhere["metadata"]["labels"] |= {"example.com/rack": "r9", "gpu.topology/gpus": "8"}
    cluster.add(elsewhere)
    cluster.edit_workload("spec.template.spec.containers[0].ports", [{"containerPort": 80, "hostPort": 80}])
    cluster.pods(3)
    too_small = "cannot fit: pod set pods needs 24 GPUs in one rack, largest has 16 (r1)"
    assert cluster.check().verdict == too_small


def test_pods_that_are_counted_and_kept_by_no_rule_go_to_no_rack() -> None:
    worker = template(APP, gpus=4, topologySpreadConstraints=[spread(RACK, APP)])
    roles = {
        "Worker": {"replicas": 3, "template": worker},
        "Launcher": {"replicas": 2, "template": template(APP, gpus=4)},
    }
    workload = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"mpiReplicaSpecs": roles},
    }
    nodes = [node("a1", rack="a"), node("b1", rack="b"), node("x1")]
    assert verdict(workload, nodes) == "fits: 5 pods on 3 nodes"
