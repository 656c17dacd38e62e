"""Jobs with fields from all lists of a pod's fields, also of those that nobody models (kubernetes/field_uses.yaml).

The rules between pods, and what the API server makes of pods, are drawn in more ways by `pod_rules` and `admission`.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.schedulers import pod_rules
from tests.schedulers.clusters import HOST, Object
from toposcope.integrations.framework.field_uses import KnownField
from toposcope.integrations.unread import field_uses

PARTS: Final = {"PodSpec": "", "Container": "containers[].", "Volume": "volumes[]."}
"""The types of a pod's fields, and where these are in its spec."""
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PROBE: Final = {"tcpSocket": {"port": 80}}
_NEAR: Final = {
    "weight": 1,
    "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": {"team": "a"}}},
}
_FROM_NODE: Final = {"weight": 1, "preference": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}}
_METADATA: Final = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}

VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "activeDeadlineSeconds": (3600,),
    f"affinity.nodeAffinity.{_PREFERRED}": ([_FROM_NODE],),
    f"affinity.podAffinity.{_PREFERRED}": ([_NEAR],),
    f"affinity.podAntiAffinity.{_PREFERRED}": ([_NEAR],),
    "automountServiceAccountToken": (False,),
    "dnsConfig": ({"nameservers": ["192.0.2.1"]},),
    "dnsPolicy": ("ClusterFirst", "Default"),
    "enableServiceLinks": (True, False),
    "hostAliases": ([{"ip": "192.0.2.1", "hostnames": ["a.example"]}],),
    "hostIPC": (True,),
    "hostNetwork": (True,),
    "hostPID": (True,),
    "hostname": ("a",),
    "imagePullSecrets": ([{"name": "registry"}],),
    "nodeName": ("n-0-0-0",),
    "nodeSelector": ({"pool": "a"}, {"pool": "b"}, {"no-node": "has-it"}),
    "os.name": ("linux",),
    "priorityClassName": ("usual",),
    "readinessGates": ([{"conditionType": "example.com/ready"}],),
    "restartPolicy": ("Never", "OnFailure", "Always"),
    "runtimeClassName": ("kata",),
    "schedulingGates": ([{"name": "example.com/gate"}],),
    "securityContext": ({"runAsUser": 1000},),
    "setHostnameAsFQDN": (True,),
    "shareProcessNamespace": (True,),
    "subdomain": ("a",),
    "terminationGracePeriodSeconds": (0, 30),
    "tolerations": ([{"operator": "Exists"}], [{"key": "dedicated", "operator": "Exists"}]),
    "containers[].args": (["-v"],),
    "containers[].command": (["train"],),
    "containers[].env": ([{"name": "A", "value": "b"}],),
    "containers[].envFrom": ([{"configMapRef": {"name": "a", "optional": True}}],),
    "containers[].imagePullPolicy": ("Always", "Never"),
    "containers[].lifecycle": ({"preStop": {"sleep": {"seconds": 1}}},),
    "containers[].livenessProbe": (_PROBE,),
    "containers[].readinessProbe": (_PROBE,),
    "containers[].startupProbe": (_PROBE,),
    "containers[].resizePolicy": ([{"resourceName": "cpu", "restartPolicy": "NotRequired"}],),
    "containers[].securityContext": ({"privileged": True},),
    "containers[].stdin": (True,),
    "containers[].stdinOnce": (True,),
    "containers[].terminationMessagePath": ("/dev/log",),
    "containers[].terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "containers[].tty": (True,),
    "containers[].workingDir": ("/work",),
    "volumes[].awsElasticBlockStore": ({"volumeID": "vol-1"},),
    "volumes[].azureDisk": ({"diskName": "d", "diskURI": "https://example.com/d", "kind": "Managed"},),
    "volumes[].azureFile": ({"secretName": "s", "shareName": "s"},),
    "volumes[].cephfs": ({"monitors": ["192.0.2.1"]},),
    "volumes[].cinder": ({"volumeID": "1"},),
    "volumes[].configMap": ({"name": "a", "optional": True},),
    "volumes[].csi": ({"driver": "csi.example.com"},),
    "volumes[].downwardAPI": ({"items": [_METADATA]},),
    "volumes[].emptyDir": ({}, {"medium": "Memory"}),
    "volumes[].fc": ({"targetWWNs": ["500a0982991b8dc5"], "lun": 2},),
    "volumes[].flexVolume": ({"driver": "example.com/d"},),
    "volumes[].flocker": ({"datasetName": "d"},),
    "volumes[].gcePersistentDisk": ({"pdName": "d"},),
    "volumes[].glusterfs": ({"endpoints": "e", "path": "p"},),
    "volumes[].hostPath": ({"path": "/dev/infiniband"},),
    "volumes[].iscsi": ({"targetPortal": "192.0.2.1", "iqn": "iqn.2001-04.com.example:s", "lun": 0},),
    "volumes[].nfs": ({"server": "192.0.2.1", "path": "/a"},),
    "volumes[].persistentVolumeClaim": ({"claimName": "local"}, {"claimName": "gone"}, {"claimName": "none"}),
    "volumes[].portworxVolume": ({"volumeID": "1"},),
    "volumes[].projected": ({"sources": [{"downwardAPI": {"items": [_METADATA]}}]},),
    "volumes[].quobyte": ({"registry": "192.0.2.1:1", "volume": "v"},),
    "volumes[].rbd": ({"monitors": ["192.0.2.1"], "image": "i"},),
    "volumes[].secret": ({"secretName": "s", "optional": True},),
    "volumes[].vsphereVolume": ({"volumePath": "[d] v"},),
}
"""Values that the API server takes beside each other, by the field."""
DRAWN_ELSEWHERE: Final = {
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": "clusters",
    "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution": "pod_rules",
    "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution": "pod_rules",
    "containers[].name": "clusters",
    "containers[].image": "clusters",
    "containers[].ports[].containerPort": "pod_rules",
    "containers[].ports[].hostIP": "pod_rules",
    "containers[].ports[].hostPort": "pod_rules",
    "containers[].ports[].protocol": "pod_rules",
    "overhead": "of a RuntimeClass: admission",
    "preemptionPolicy": "of a PriorityClass: admission",
    "priority": "of a PriorityClass: admission",
    "resourceClaims": "clusters.claiming",
    "schedulerName": "admission",
    "schedulingGroup.podGroupName": "gangs",
    "topologySpreadConstraints": "pod_rules",
    "volumes[].name": "every volume has one",
}
LEFT_OUT: Final = {
    "containers[].ports[].name": "nothing without a port",
    "containers[].restartPolicy": "of init containers",
    "containers[].restartPolicyRules": "behind a feature gate",
    "containers[].volumeDevices": "needs a block volume",
    "containers[].volumeMounts": "nothing without the volume",
    "ephemeralContainers": "never part of a new pod",
    "evictionResponders": "behind a feature gate",
    "hostUsers": "not beside hostIPC, hostPID and hostNetwork",
    "hostnameOverride": "behind a feature gate",
    "serviceAccount": "admission asks for the account",
    "serviceAccountName": "admission asks for the account",
    "workloadRef": "of Kubernetes 1.35 alone",
    "volumes[].ephemeral": "a controller that is not here makes its claim",
    "volumes[].gitRepo": "the API server refuses it",
    "volumes[].image": "behind a feature gate",
    "volumes[].photonPersistentDisk": "the API server refuses it",
    "volumes[].scaleIO": "its secret is asked for",
    "volumes[].storageos": "its names have rules of their own",
}


@dataclass(frozen=True, slots=True)
class ListedField:
    """A field that is on a list."""

    path: str
    """From the pod's spec."""
    use: str


def listed_fields() -> list[ListedField]:
    """All fields of a pod that are on a list of Kubernetes' `field_uses.yaml`."""
    fields: list[ListedField] = []
    for name, prefix in PARTS.items():
        for path, use in _below(field_uses().types[f"kubernetes/{name}"], ""):
            fields.append(ListedField(prefix + path, use))
    return fields


def _below(known: KnownField, above: str) -> Iterator[tuple[str, str]]:
    for name, field in known.below.items():
        path = above + name
        if above and not name.startswith("["):
            path = f"{above}.{name}"
        if field.listed is not None:
            yield path, field.listed.use.value
        yield from _below(field, path)


def job(rng: random.Random, name: str) -> Object:
    """A Job of pods with one to six fields of the lists, and perhaps rules about each other."""
    drawn = pod_rules.ruled_job(rng, name)
    spec = drawn["spec"]["template"]["spec"]
    for path in rng.sample(sorted(VALUES), rng.randint(1, 6)):
        set_at(spec, path, rng.choice(VALUES[path]))
    return drawn


def set_at(spec: Object, path: str, value: Any) -> None:
    """Give a pod spec a field: to its first container, or in a volume of its own."""
    target = spec
    if path.startswith("containers[]."):
        target = spec["containers"][0]
    elif path.startswith("volumes[]."):
        volumes = spec.setdefault("volumes", [])
        target = {"name": f"v{len(volumes)}"}
        volumes.append(target)
    *above, last = path.rpartition("[].")[2].split(".")
    for name in above:
        target = target.setdefault(name, {})
    target[last] = value
