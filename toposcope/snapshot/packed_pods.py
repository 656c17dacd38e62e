"""The pods of a packed snapshot: columns of numbers, made into objects when somebody asks for the first of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import msgspec

from toposcope.kube.pod_resources import Requests
from toposcope.snapshot.model import Owner, PodView, SummedPods


class PodColumns(msgspec.Struct, frozen=True, array_like=True):
    """Pods column by column; numbers are places in the lists above them."""

    strings: list[str]
    requests: list[dict[str, int]]
    owners: list[tuple[str, str, str]]
    sayings: list[dict[str, str]]
    """Labels and annotations."""
    wanted: list[dict[str, Any]]
    """What `wants` are places in."""
    names: list[str]
    namespace: list[int]
    node: list[int]
    phase: list[int]
    asked: list[int]
    owner: list[int]
    """-1: none."""
    labels: list[int]
    annotations: list[int]
    scheduler: list[int]
    waiting: list[int]
    wants: list[int]


def pack_pods(pods: Iterable[PodView]) -> PodColumns:
    """The pods as columns."""
    strings: dict[str, int] = {}
    requests: dict[tuple[tuple[str, int], ...], int] = {}
    owners: dict[tuple[str, str, str], int] = {}
    sayings: dict[tuple[tuple[str, str], ...], int] = {}
    wanted: dict[bytes, int] = {}

    def number(kept: dict[Any, int], value: Any) -> int:
        return kept.setdefault(value, len(kept))

    rows = [
        (
            pod.name,
            number(strings, pod.namespace),
            number(strings, pod.node),
            number(strings, pod.phase),
            number(requests, tuple(pod.requests.items())),
            number(owners, (pod.owner.api_version, pod.owner.kind, pod.owner.name)) if pod.owner else -1,
            number(sayings, tuple(pod.labels.items())),
            number(sayings, tuple(pod.annotations.items())),
            number(strings, pod.scheduler),
            number(strings, pod.waiting),
            number(wanted, msgspec.json.encode(dict(pod.wants)) if pod.wants else b"{}"),
        )
        for pod in pods
    ]
    names = PodColumns.__struct_fields__[5:]
    columns: dict[str, Any] = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    return PodColumns(
        list(strings),
        [dict(request) for request in requests],
        list(owners),
        [dict(saying) for saying in sayings],
        [msgspec.json.decode(each) for each in wanted],
        **columns,
    )


class SavedPods(SummedPods):
    """The pods, read when they are first looked at. `requested`: what they ask for together, by node."""

    def __init__(self, requested: Mapping[str, Requests], read: Callable[[], Iterable[PodView]]) -> None:
        """`read` may raise BadInput, which whoever looks at a pod then gets."""
        self.requested = requested
        self._read = read
        self._pods: tuple[PodView, ...] | None = None

    def _all(self) -> tuple[PodView, ...]:
        if self._pods is None:
            self._pods = tuple(self._read())
        return self._pods

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[PodView]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> PodView: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PodView]: ...

    def __getitem__(self, index: int | slice) -> PodView | Sequence[PodView]:
        return self._all()[index]


def pod_views(packed: PodColumns) -> Iterator[PodView]:
    """The pods of the columns. Raises IndexError or ValueError where these do not fit together."""
    strings, sayings, requests = packed.strings, packed.sayings, packed.requests
    owners = [Owner(*each) for each in packed.owners]
    rows = zip(
        packed.names,
        packed.namespace,
        packed.node,
        packed.phase,
        packed.asked,
        packed.owner,
        packed.labels,
        packed.annotations,
        packed.scheduler,
        packed.waiting,
        packed.wants,
        strict=True,
    )
    for name, namespace, node, phase, asked, owner, labels, annotations, scheduler, waiting, wants in rows:
        yield PodView(
            strings[namespace],
            name,
            strings[node],
            strings[phase],
            requests[asked],
            owners[owner] if owner >= 0 else None,
            sayings[labels],
            sayings[annotations],
            strings[scheduler],
            strings[waiting],
            packed.wanted[wants],
        )
