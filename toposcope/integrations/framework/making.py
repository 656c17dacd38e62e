"""Objects that a controller makes of another one, which are checked instead of it.

A system's `making.py` has `MADE`: by API group and kind what is made of its objects. The systems
read what is made, as they will in the cluster; one that admits workloads may read the whole.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field, namespace_of
from toposcope.integrations.framework.system import ClusterFacts


@dataclass(frozen=True, slots=True)
class Made:
    """One object that is made."""

    path: str
    """Where its fields are in the object that it is made of; a name where they are not in it."""
    document: Mapping[str, Any]
    is_copied: bool = True
    """Whether its fields are those at the path: then what is unread in them is known already."""
    sources: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Other objects that it is made of, by name: their fields count too."""


Maker = Callable[[Field, ClusterFacts], tuple[Made, ...]]
"""What is made of an object, which may be malformed; nothing where that is not known."""
NOTHING: Final[tuple[Made, ...]] = ()


def in_namespace_of(root: Field, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object as it is created in the namespace of another one, unless it names one itself."""
    metadata = document.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return {**document, "metadata": {"namespace": namespace_of(root), **own}}
