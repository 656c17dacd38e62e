"""What the page's server takes out of a Node beside what every look keeps."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from toposcope.snapshot.model import NodeView

AGENT: Final = "toposcope-agent"
"""The agent's field manager."""


class _Gpu(msgspec.Struct, frozen=True, gc=False):
    uuid: str = ""


class _Annotation(msgspec.Struct, frozen=True, gc=False):
    gpus: list[_Gpu] = []


_ANNOTATION: Final = msgspec.json.Decoder(_Annotation)


def gpu_uuids(annotation: str | None) -> str:
    """The UUIDs of a node's GPUs, a line each; empty for an annotation that is none."""
    if annotation is None:
        return ""
    try:
        return "\n".join(gpu.uuid for gpu in _ANNOTATION.decode(annotation).gpus if gpu.uuid)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ""


def without_matrix(node: NodeView) -> NodeView:
    """The node without its annotation: 100,000 of them in full are 250 MB."""
    return node if node.matrix is None else msgspec.structs.replace(node, matrix=None)


def last_write(managed: Iterable[Mapping[str, Any]]) -> str:
    """When the agent last changed something of the node, as `managedFields` has it; empty where it does not say."""
    return max((str(each.get("time") or "") for each in managed if each.get("manager") == AGENT), default="")
