"""NVLink across nodes: what the domain values of nodes say about their fabric.

A value is `<cluster UUID>.<clique id>` where NVLink leaves the node, else the node's own name. The pair is the
identity: one cluster UUID can hold several cliques, and unrelated fabrics show the same clique id (32766 is common).
"""

import re
from typing import Final

_UUID_LENGTH: Final = 36
_NO_FABRIC: Final = "00000000-0000-0000-0000-000000000000"
"""Machines without a fabric between them report this one."""


def spans_nodes(value: str) -> bool:
    """Whether a domain value is that of a fabric, and not a node's name."""
    # Asked of every node: a look at one place costs a tenth of what the whole expression does.
    if value[_UUID_LENGTH : _UUID_LENGTH + 1] != "." or _CLIQUE.fullmatch(value) is None:
        return False
    return fabric_of(value) != _NO_FABRIC


def fabric_of(value: str) -> str:
    """The cluster UUID in a domain value that spans nodes."""
    return value[:_UUID_LENGTH]


_CLIQUE: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.[0-9]+", re.ASCII)
