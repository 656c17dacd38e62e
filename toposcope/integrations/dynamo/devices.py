"""Other fields that decide which devices the pods of a component get.

`device` has resources, a node selector, tolerations and a scheduler for GPUs of any vendor, which
the operator merges into the pod. `gpuMemoryService` removes the GPUs from the main container and
claims as many devices of a DeviceClass for all containers of the pod; `failover` runs that
container twice. Source: Dynamo's operator (internal/dynamo/{device,gms,failover}.go) and webhook,
main of 2026-09.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.constraints import ClaimRef, Pods
from toposcope.integrations.framework.containers import amounts_of, requests_of
from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.pods import pods_of

_RULE: Final = "dynamo/gpu-memory-service"
_MAIN: Final = "main"
_DEVICE_CLASS: Final = "gpu.nvidia.com"
_DISCOVERY: Final = "nvidia.com/dynamo-kube-discovery-mode"
_WORKERS: Final = ("worker", "prefill", "decode")
_GPU_TOLERATION: Final = {
    "key": ALLOCATABLE_GPUS,
    "operator": "Exists",
    "effect": "NoSchedule",
}
"""The toleration that the operator adds, because no device plugin adds it for pods with claims."""


@dataclass(frozen=True, slots=True)
class DeviceFields:
    """These fields of one component."""

    component: Field
    is_service: bool
    """Whether it is a service of v1alpha1."""

    @property
    def device(self) -> Field:
        """GPUs of any vendor."""
        return self.component / "device"

    @property
    def memory_service(self) -> Field:
        """The GPU memory service; unset if it is off."""
        return self._switched("gpuMemoryService")

    @property
    def failover(self) -> Field:
        """The failover of engines; unset if it is off."""
        return self._switched("failover")

    def _switched(self, name: str) -> Field:
        if not self.is_service:
            return self.component / "experimental" / name
        field = self.component / name
        if (field / "enabled").flag():
            return field
        return field.with_value(None)

    @property
    def decide(self) -> bool:
        """Whether any of them is set."""
        return bool(self.device or self.memory_service or self.failover)

    def pods(
        self,
        name: str,
        count: int,
        spec: Field,
        main: Mapping[str, int] | None,
        *,
        labels: Field,
    ) -> Pods:
        """Pods of the component with this pod spec and these labels.

        `main` are the requests of the main container where it is not in the spec.
        """
        requests, pod_spec = _parted(spec)
        if main is not None:
            requests, pod_spec = dict(main), spec
        requests |= amounts_of(self.device / "resources")
        pod_spec = _merged(pod_spec, self.device)

        claim = None
        if self.memory_service:
            gpus = requests.pop(ALLOCATABLE_GPUS, 0)
            claim = self._claim(gpus)
            pod_spec = _tolerating(pod_spec)
        containers = [requests]
        if self.failover:
            containers.append(requests)
        pods = pods_of(name, count, pod_spec, *containers, labels=labels)
        if claim is None:
            return pods
        return replace(pods, claims=(*pods.claims, claim))

    def _claim(self, gpus: int) -> ClaimRef | None:
        """The claim that the operator creates for a pod's GPUs."""
        if not gpus:
            return None
        root = self.component.root
        device_class = (self.memory_service / "deviceClassName").text()
        return ClaimRef(
            kind="ResourceClaimTemplate",
            namespace=namespace_of(root),
            name=f"{name_of(root)}-{_name_of(self.component)}-gpu",
            device_class=device_class or _DEVICE_CLASS,
            devices=gpus,
        )

    def check(self, main: Mapping[str, int] | None, spec: Field) -> None:
        """Note what the webhook rejects in them."""
        if self.failover:
            self._check_failover()
        if not self.memory_service:
            return
        kind = self.component / ("componentType" if self.is_service else "type")
        if kind.text() not in _WORKERS:
            text = (
                "GPU memory service is only supported for worker components "
                "(type must be worker, prefill, or decode)"
            )
            self.memory_service.error(_RULE, text, "remove it, or set the type")
        requests = main
        if requests is None:
            requests, _ = _parted(spec)
        if not requests.get(ALLOCATABLE_GPUS):
            text = f"GPU memory service requires a limit of {ALLOCATABLE_GPUS} >= 1"
            self.memory_service.error(_RULE, text, "give the main container GPUs")

    def _check_failover(self) -> None:
        failover = self.failover
        if not self.memory_service:
            text = "intraPod failover requires gpuMemoryService to be set"
            failover.error(_RULE, text, "also set gpuMemoryService")
            return
        mode = _mode_of(failover)
        if mode != _mode_of(self.memory_service):
            text = "failover.mode must match gpuMemoryService.mode"
            failover.error(_RULE, text, "use the same mode")
        discovery = self.component.root / "metadata" / "annotations" / _DISCOVERY
        if mode == "intrapod" and discovery.text() != "container":
            text = f"intraPod failover requires the annotation {_DISCOVERY}: container"
            discovery.error(_RULE, text, "set it on the DynamoGraphDeployment")


def _mode_of(field: Field) -> str:
    return ((field / "mode").text() or "IntraPod").lower()


def _name_of(component: Field) -> str:
    """The name of a component, which is the key of a service."""
    name = (component / "name").text() or component.path.rpartition(".")[2]
    return name.lower()


def _parted(spec: Field) -> tuple[dict[str, int], Field]:
    """The requests of a pod spec's main container, and the spec without them."""
    containers = list((spec / "containers").items())
    if not containers:
        return {}, spec
    main = containers[0]
    for container in containers:
        if (container / "name").text() == _MAIN:
            main = container
    requests = requests_of(main / "resources")
    emptied = []
    for container in containers:
        value = container.value
        if container is main:
            value = {"name": _MAIN}
        emptied.append(value)
    return requests, spec.with_value({**spec.value, "containers": emptied})


def _merged(spec: Field, device: Field) -> Field:
    """The pod spec with the node constraints of `device`; the spec's own take precedence."""
    if not device:
        return spec
    value: dict[str, Any] = dict(spec.value) if isinstance(spec.value, dict) else {}
    selector = (device / "nodeSelector").texts()
    if selector:
        value["nodeSelector"] = {**selector, **(spec / "nodeSelector").texts()}
    tolerations = [toleration.value for toleration in (device / "tolerations").items()]
    if tolerations:
        own = [toleration.value for toleration in (spec / "tolerations").items()]
        value["tolerations"] = [*own, *tolerations]
    scheduler = (device / "schedulerName").text()
    if scheduler:
        value.setdefault("schedulerName", scheduler)
    return spec.with_value(value)


def _tolerating(spec: Field) -> Field:
    """The pod spec with a toleration of the usual taint of GPU nodes."""
    value: dict[str, Any] = dict(spec.value) if isinstance(spec.value, dict) else {}
    own = [toleration.value for toleration in (spec / "tolerations").items()]
    value["tolerations"] = [*own, _GPU_TOLERATION]
    return spec.with_value(value)
