"""Which resources are GPUs, and what a pod asks of the node that it runs on.

The sum is the scheduler's: k8s.io/component-helpers/resource (PodRequests), with restartable init
containers (KEP-753), pod-level resources (KEP-2837) and overhead.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.errors import ToposcopeError

CPU: Final = "cpu"
MOST_AMOUNT: Final = (1 << 62) - 1
"""The largest amount of a resource; twice as much still is a number of 64 bits."""

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([eE][+-]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i|)", re.ASCII
)
_MOST_QUANTITY_CHARACTERS: Final = 40
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {f"{letter}i": 1 << 10 * power for power, letter in enumerate("KMGTPE", 1)}


class QuantityError(ToposcopeError, ValueError):
    """A text that is not a quantity; the message says what to write instead."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}; {fix}")
        self.problem = problem
        self.fix = fix


@lru_cache(maxsize=1 << 14)
def amount(resource: str, quantity: str | float) -> int:
    """A quantity of a resource.

    CPU in thousandths of a core, memory in bytes, everything else in pieces. One beyond `MOST`
    counts as that: Kubernetes caps quantities, and takes `1e30`. Raises QuantityError.
    """
    text = str(quantity).strip()
    match = None
    if len(text) <= _MOST_QUANTITY_CHARACTERS:
        match = _QUANTITY.fullmatch(text)
    if match is None:
        problem = f"{text[:_MOST_QUANTITY_CHARACTERS]!r} is not a quantity"
        raise QuantityError(problem, "write a number such as 8, 500m or 2Gi")

    number, unit = match.groups()
    value = _scaled(Decimal(number), unit)
    if resource == CPU:
        value *= 1000
    rounded = int(value.to_integral_value(ROUND_CEILING))
    return max(-MOST_AMOUNT, min(MOST_AMOUNT, rounded))


def is_whole(quantity: str | float) -> bool:
    """Whether a quantity is a whole number; what is no quantity is not."""
    match = _QUANTITY.fullmatch(str(quantity).strip()[:_MOST_QUANTITY_CHARACTERS])
    if match is None:
        return False
    number, unit = match.groups()
    value = _scaled(Decimal(number), unit)
    return value == value.to_integral_value()


def _scaled(value: Decimal, unit: str) -> Decimal:
    """The value in a unit such as `Ki`, `m` or `e3`."""
    if unit in _BINARY:
        return value * _BINARY[unit]
    if unit in _DECIMAL:
        return value.scaleb(_DECIMAL[unit])
    exponent = unit[1:]
    return value.scaleb(int(exponent))


def amounts(quantities: Mapping[str, str | float] | None) -> dict[str, int]:
    """Every quantity of a resource list. Raises ValueError that names the resource."""
    parsed = {}
    for resource, quantity in (quantities or {}).items():
        try:
            parsed[resource] = amount(resource, quantity)
        except ValueError as error:
            raise ValueError(f"{resource}: {error}") from None
    return parsed


_WHOLE: Final = frozenset(
    {
        ALLOCATABLE_GPUS,
        "gpu.nvidia.com",
        "gpu.amd.com",
        "gpu.intel.com",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "aws.amazon.com/neuron",
        "google.com/tpu",
        "huawei.com/Ascend910",
        "metax-tech.com/gpu",
        "mthreads.com/gpu",
        "hygon.com/dcu",
        "cambricon.com/mlu",
    }
)
_PART: Final = re.compile(
    r"nvidia\.com/(gpu\.shared|mig-[0-9a-z.+]+(\.shared)?)|amd\.com/[a-z]+_[a-z0-9]+|.+/gpu\.shared"
)
_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
"""What pod-level resources may set; everything else is the containers' business."""

Requests = Mapping[str, int]
"""Resource to amount: CPU in thousandths of a core, memory in bytes, everything else in pieces."""


@lru_cache(maxsize=1024)
def is_gpu(resource: str) -> bool:
    """Whether one piece of the resource is a whole GPU or accelerator, as device plugins offer it.

    With time slicing under the resource's own name, a device plugin offers one GPU several times,
    and says so only in the label `nvidia.com/gpu.replicas`; such a piece counts as a GPU here as it
    does for schedulers. Whole GPUs of ResourceSlices have the name of their driver.
    """
    return resource in _WHOLE


@lru_cache(maxsize=1024)
def is_gpu_part(resource: str) -> bool:
    """Whether it is a part of a GPU, or a GPU shared under a name of its own.

    Examples are MIG devices and `nvidia.com/gpu.shared`.
    """
    return _PART.fullmatch(resource) is not None


def gpu_count(resources: Requests) -> int:
    """Whole GPUs in a resource list, of whatever vendor."""
    gpus = 0
    for resource, count in resources.items():
        if count and is_gpu(resource):
            gpus += count
    return gpus


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """One container's requests.

    `sidecar` is an init container that keeps running (restartPolicy Always).
    """

    requests: Requests
    is_sidecar: bool = False


def pod_requests(
    containers: Iterable[Requests],
    init: Sequence[ContainerRequests] = (),
    overhead: Requests | None = None,
    pod_level: Requests | None = None,
) -> dict[str, int]:
    """What a pod takes of its node.

    Init containers run one after the other before the others, each beside the sidecars that began
    before it: the pod needs the larger of that and of all containers with all sidecars together.
    """
    total: dict[str, int] = {}
    for requests in containers:
        _add(total, requests)
    if init:
        _add_init(total, init)
    if pod_level:
        for name, value in pod_level.items():
            if name.startswith(_POD_LEVEL):
                total[name] = value
    if overhead:
        _add(total, overhead)
    return total


def _add_init(total: dict[str, int], init: Sequence[ContainerRequests]) -> None:
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init:
        if container.is_sidecar:
            _add(total, container.requests)
            _add(sidecars, container.requests)
            _raise(peak, sidecars)
        else:
            beside = dict(sidecars)
            _add(beside, container.requests)
            _raise(peak, beside)
    _raise(total, peak)


def _add(total: dict[str, int], more: Requests) -> None:
    for resource, count in more.items():
        total[resource] = min(MOST_AMOUNT, total.get(resource, 0) + count)


def _raise(total: dict[str, int], least: Requests) -> None:
    for resource, count in least.items():
        if count > total.get(resource, 0):
            total[resource] = count
