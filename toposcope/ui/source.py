"""What both sources of facts have in common: a running cluster, and saved files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import msgspec

from toposcope.hardware.topology import State
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import NodeView, Snapshot

AGENT: Final = "toposcope-agent"
"""The agent's field manager."""


@dataclass(frozen=True, slots=True)
class FullNode:
    """One node, read with its matrix annotation."""

    node: NodeView
    written: str
    """RFC 3339: when its agent last wrote to it; empty where unknown."""


class FactsSource(Protocol):
    """Fills the `Facts` that it was made for, from threads of its own."""

    @property
    def kind(self) -> Literal["cluster", "files"]:
        """Whether it reads a cluster or files."""

    def start(self) -> None:
        """Start the threads."""

    def close(self) -> None:
        """Ask the threads to end."""

    def node(self, name: str) -> FullNode | None:
        """One node; None where it does not exist. Raises KubeError."""

    def published(self) -> Snapshot:
        """What schedulers read, with a warning for each kind that cannot be read.

        Raises KubeError.
        """

    def required(self) -> RequiredLevels:
        """What PodGangs and PodGroups require, with a warning where that cannot be read."""


class _Gpu(msgspec.Struct, frozen=True, gc=False):
    uuid: str = ""


class _Annotation(msgspec.Struct, frozen=True, gc=False):
    gpus: list[_Gpu] = []


_ANNOTATION: Final = msgspec.json.Decoder(_Annotation)


def gpu_uuids(annotation: str | None) -> str:
    """The UUIDs of a node's GPUs, one per line; empty for a missing or malformed annotation."""
    if annotation is None:
        return ""
    try:
        gpus = _ANNOTATION.decode(annotation).gpus
        return "\n".join(gpu.uuid for gpu in gpus if gpu.uuid)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ""


def cached_view(node: NodeView) -> NodeView:
    """The node, with its annotation only where it is not ok: 100,000 annotations are 250 MB."""
    if node.matrix is None or node.state not in (State.OK, None):
        return node
    return msgspec.structs.replace(node, matrix=None)


def last_write(managed: Iterable[Mapping[str, Any]]) -> str:
    """When the agent last changed the node, by its `managedFields`; empty where they do not say."""
    last = ""
    for entry in managed:
        if entry.get("manager") == AGENT:
            last = max(last, str(entry.get("time") or ""))
    return last
