"""Pods that go only where their volumes are, or wait for them."""

from typing import Any

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import warning

pytestmark = pytest.mark.regression

Object = dict[str, Any]
FITS = "fits: 1 pod on 1 node"
VOLUMES = "spec.template.spec.volumes"


@pytest.fixture
def cluster() -> CheckedCluster:
    """Two nodes; a Job of one pod that uses the claim `data`, which is bound to a local volume of n1."""
    cluster = CheckedCluster("placement/clusters/two-nodes", "placement/plain-job")
    cluster.pods(1)
    cluster.edit_workload(VOLUMES, [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    cluster.add(claim("Bound", volumeName="pv-1"), volume("pv-1", "n1"), storage_class())
    return cluster


def claim(phase: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "ml"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
            **spec,
        },
        "status": {"phase": phase},
    }


def volume(name: str, node: str, **spec: Any) -> Object:
    """A local volume of a node."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            **spec,
        },
        "status": {"phase": "Available"},
    }


def storage_class(mode: str = "WaitForFirstConsumer", provisioner: str = "kubernetes.io/no-provisioner") -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def unbound(cluster: CheckedCluster, mode: str, provisioner: str = "kubernetes.io/no-provisioner") -> None:
    """Leave the claim without a volume."""
    cluster.add(claim("Pending"), storage_class(mode, provisioner))


def test_pod_goes_where_its_volume_is(cluster: CheckedCluster) -> None:
    answer = cluster.check()
    assert answer.verdict == FITS
    assert "cannot use the volume of claim data (n0)" in answer.explanation[-1]


def test_queue_that_ignores_volumes_is_unclear() -> None:
    """Kueue assigns nodes by topology, and kube-scheduler binds pods where their volumes are."""
    served = {"topologies.kueue.x-k8s.io": True}
    queued = CheckedCluster("placement/clusters/kueue-queue", "placement/kueue-job", served=served)
    queued.pods(1)
    assert queued.check().verdict.startswith("fits")
    queued.edit_workload(VOLUMES, [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    queued.add(claim("Bound", volumeName="pv-1"), volume("pv-1", "n1"), storage_class())
    assert queued.check().verdict == (
        "unclear: PersistentVolumeClaim data ties its pods to some nodes, "
        "but its queue ignores volumes when it chooses nodes"
    )


def test_pod_does_not_fit_where_the_node_of_its_volume_is_full(cluster: CheckedCluster) -> None:
    cluster.run("ml/other", on="n1", requests={"nvidia.com/gpu": "1"})

    assert cluster.check().verdict.startswith("does not fit now: a pod of train needs 8 GPUs, and no node")


def test_missing_claim_holds_the_pod(cluster: CheckedCluster) -> None:
    cluster.edit("PersistentVolumeClaim/data", "metadata.namespace", "web")

    assert cluster.check().verdict == (
        "does not fit now: PersistentVolumeClaim data of namespace ml does not exist: its pods wait for it"
    )


def test_unread_claim_is_unclear(cluster: CheckedCluster) -> None:
    cluster.delete("PersistentVolumeClaim/data")

    assert cluster.check().verdict == (
        "unclear: PersistentVolumeClaim data was not read, so it is unknown which nodes can use it"
    )


def test_claim_whose_volume_is_gone_holds_the_pod(cluster: CheckedCluster) -> None:
    cluster.edit("PersistentVolumeClaim/data", "spec.volumeName", "pv-2")

    assert cluster.check().verdict == (
        "does not fit now: PersistentVolumeClaim data is bound to PersistentVolume pv-2, which does not exist"
    )


def test_volume_without_node_affinity_can_be_used_anywhere(cluster: CheckedCluster) -> None:
    cluster.edit("PersistentVolume/pv-1", "spec.nodeAffinity", None)
    cluster.run("ml/other", on="n1", requests={"nvidia.com/gpu": "1"})

    assert cluster.check().verdict == FITS


def test_labelled_zone_of_a_volume_counts(cluster: CheckedCluster) -> None:
    cluster.edit("PersistentVolume/pv-1", "spec.nodeAffinity", None)
    cluster.edit("PersistentVolume/pv-1", "metadata.labels", {"topology.kubernetes.io/zone": "b"})
    cluster.label_node("n0", "topology.kubernetes.io/zone", "a")
    cluster.label_node("n1", "topology.kubernetes.io/zone", "a")

    assert cluster.check().verdict == "cannot fit: train needs 8 GPUs, the nodes it may use have none"


def test_unbound_claim_of_an_immediate_class_holds_the_pod(cluster: CheckedCluster) -> None:
    unbound(cluster, "Immediate")

    assert cluster.check().verdict == (
        "does not fit now: PersistentVolumeClaim data has no volume yet, and pods wait until it is bound"
    )


def test_unbound_claim_takes_an_available_local_volume(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer")
    cluster.run("ml/other", on="n1", requests={"nvidia.com/gpu": "1"})
    assert cluster.check().verdict.startswith("does not fit now: a pod of train needs 8 GPUs")

    cluster.add(volume("pv-0", "n0"))
    assert cluster.check().verdict == FITS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("spec.capacity.storage", "100Mi", id="too-small"),
        pytest.param("spec.accessModes", ["ReadOnlyMany"], id="other-access"),
        pytest.param("spec.storageClassName", "fast", id="other-class"),
        pytest.param("spec.claimRef", {"name": "logs", "namespace": "ml"}, id="claimed"),
    ],
)
def test_local_volume_that_does_not_match_is_not_taken(cluster: CheckedCluster, field: str, value: Any) -> None:
    unbound(cluster, "WaitForFirstConsumer")
    cluster.edit("PersistentVolume/pv-1", field, value)

    assert cluster.check().verdict == (
        "does not fit now: PersistentVolumeClaim data finds no available volume of StorageClass local"
    )


def test_volume_is_made_where_the_pod_goes(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer", "disk.csi.example.com")
    cluster.run("ml/other", on="n1", requests={"nvidia.com/gpu": "1"})

    assert cluster.check().verdict == FITS


def test_allowed_topologies_of_a_class_bind_the_pod(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer", "disk.csi.example.com")
    expression = {"key": "kubernetes.io/hostname", "values": ["n1"]}
    cluster.edit("StorageClass/local", "allowedTopologies", [{"matchLabelExpressions": [expression]}])
    cluster.run("ml/other", on="n1", requests={"nvidia.com/gpu": "1"})

    assert cluster.check().verdict.startswith("does not fit now: a pod of train needs 8 GPUs")


def test_new_volume_of_one_node_for_many_pods_is_unclear(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer", "disk.csi.example.com")
    cluster.pods(2)

    assert cluster.check().verdict == (
        "unclear: PersistentVolumeClaim data gets its volume on the node of the first of 2 pods, and the others "
        "must follow"
    )


def test_claim_for_one_pod_does_not_serve_two(cluster: CheckedCluster) -> None:
    cluster.edit("PersistentVolumeClaim/data", "spec.accessModes", ["ReadWriteOncePod"])
    cluster.pods(2)

    assert cluster.check().verdict == (
        "does not fit now: PersistentVolumeClaim data is ReadWriteOncePod, and 2 pods use it"
    )


def test_volume_of_one_node_for_many_pods_is_warned_of(cluster: CheckedCluster) -> None:
    cluster.pods(2)

    assert cluster.check().findings == [
        warning(
            "pods/volume-access",
            f"{VOLUMES}[0].persistentVolumeClaim.claimName",
            "claim data is ReadWriteOnce, and 2 pods use it",
            fix="pods on other nodes than the first stay in ContainerCreating; use ReadWriteMany",
        )
    ]


def test_claim_beside_the_workload_is_new(cluster: CheckedCluster) -> None:
    cluster.delete("PersistentVolumeClaim/data")
    new = claim("Pending")
    del new["status"]
    cluster.beside["PersistentVolumeClaim/data"] = new
    assert cluster.check().verdict == FITS

    cluster.add(storage_class("Immediate"))
    assert cluster.check().verdict == ("unclear: PersistentVolumeClaim data gets its volume first, on unknown nodes")


def test_ephemeral_volume_is_made_where_the_pod_goes(cluster: CheckedCluster) -> None:
    cluster.add(storage_class(provisioner="disk.csi.example.com"))
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}}
    cluster.edit_workload(VOLUMES, [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])

    assert cluster.check().verdict == FITS


def test_stateful_set_with_volumes_of_its_own_is_unclear(cluster: CheckedCluster) -> None:
    cluster.submit(
        """
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db, namespace: ml}
        spec:
          replicas: 1
          template: {spec: {containers: [{name: c}]}}
          volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: local}}]
        """
    )
    cluster.edit("PersistentVolumeClaim/data", "metadata.name", "data-db-0")

    assert cluster.check().verdict == (
        "unclear: 1 of its pods already have a volume of data; it is not checked whether each pod fits on the node "
        "of its volume"
    )


def test_stateful_set_of_countless_pods_is_read_at_once(cluster: CheckedCluster) -> None:
    cluster.submit(
        """
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db, namespace: ml}
        spec:
          replicas: 1000000000000000
          template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
          volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: local}}]
        """
    )

    assert cluster.check().verdict.startswith("cannot fit: ")


def test_two_local_volumes_of_one_pod_are_unclear(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer")
    logs = claim("Pending")
    logs["metadata"]["name"] = "logs"
    cluster.add(logs, volume("pv-2", "n0"))
    both = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "logs")]
    cluster.edit_workload(VOLUMES, both)

    assert cluster.check().verdict == (
        "unclear: which local volumes its claims get together on one node is not checked"
    )


def test_claim_that_is_being_deleted_holds_the_pod(cluster: CheckedCluster) -> None:
    cluster.edit("PersistentVolumeClaim/data", "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")

    assert cluster.check().verdict == "does not fit now: PersistentVolumeClaim data is being deleted"


def test_bound_claim_for_one_pod_is_unclear(cluster: CheckedCluster) -> None:
    cluster.edit("PersistentVolumeClaim/data", "spec.accessModes", ["ReadWriteOncePod"])

    assert cluster.check().verdict == (
        "unclear: PersistentVolumeClaim data is ReadWriteOncePod, and it is unknown whether another pod uses it"
    )


def test_claim_whose_volume_was_not_read_is_unclear(cluster: CheckedCluster) -> None:
    cluster.delete("PersistentVolume/pv-1")

    assert cluster.check().verdict == (
        "unclear: PersistentVolumeClaim data is bound to PersistentVolume pv-1, which was not read"
    )


def test_volume_is_made_on_the_node_that_was_selected(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer", "disk.csi.example.com")
    cluster.run("ml/other", on="n1", requests={"nvidia.com/gpu": "1"})
    selected = "metadata.annotations[volume.kubernetes.io/selected-node]"
    cluster.edit("PersistentVolumeClaim/data", selected, "n0")
    assert cluster.check().verdict == FITS

    cluster.edit("PersistentVolumeClaim/data", selected, "n1")
    assert cluster.check().verdict.startswith("does not fit now: a pod of train needs 8 GPUs")


def test_local_volumes_that_were_not_read_are_unclear(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer")
    cluster.delete("PersistentVolume/pv-1")

    assert cluster.check().verdict == (
        "unclear: PersistentVolumeClaim data needs a local volume, and PersistentVolumes were not read"
    )


def test_local_volume_of_many_pods_is_unclear_where_nodes_differ(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer")
    cluster.pods(2)
    cluster.gpus_per_pod(4)
    assert cluster.check().verdict == "fits: 2 pods on 1 node"

    cluster.add(volume("pv-0", "n0"))
    assert cluster.check().verdict == (
        "unclear: PersistentVolumeClaim data gets a volume on the node of the first of 2 pods"
    )


def test_unbound_claim_takes_a_volume_that_any_node_can_use(cluster: CheckedCluster) -> None:
    unbound(cluster, "WaitForFirstConsumer")
    cluster.edit("PersistentVolume/pv-1", "spec.nodeAffinity", None)
    cluster.run("ml/other", on="n1", requests={"nvidia.com/gpu": "1"})

    assert cluster.check().verdict == FITS
