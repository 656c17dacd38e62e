"""A system: a folder beside this one, with the same file names in each.

| file | what it has | who loads it |
|---|---|---|
| `plugin.py` | `PLUGIN`: names, and kinds of objects; light | everybody |
| `workload.py` | `READERS`: what documents request, and what is wrong with them | check, explain |
| `making.py` | `MADE`: objects created from others, and checked instead | check, explain |
| `topology.py` | `READERS` of the resources that list levels | check, export |
| `configuration.py` | `CONFIGURATION`: documents beside a workload | check, export |
| `publisher.py` | `PUBLISHING`: writes such a resource | controller |
| `placement.py` | `PLACEMENT`: its own procedure, which may change a verdict | check, planning |
| `waiting.py` | `WAITING`: why its pods wait, and what its messages mean | explain |
| `requiring.py` | `REQUIRING`: what its running pods require of their places | planning, explain |
| `export.py` | `FORMATS`: the topology in its formats | export |

A system has only the files that it needs; `registry` lists the systems and loads their parts.
What the demo and the tests serve and show of a system is in its folder `demo`.
"""

import functools
import importlib
import importlib.util
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import ModuleType

from toposcope.integrations.framework.level_requests import ReadAnnotations, WatchedKind
from toposcope.integrations.framework.published import PublishedKind
from toposcope.kube.discovery import Kind


class PluginPart(StrEnum):
    """A part of a system, by the name of its file."""

    WORKLOAD = "workload"
    TOPOLOGY = "topology"
    MAKING = "making"
    CONFIGURATION = "configuration"
    PUBLISHER = "publisher"
    PLACEMENT = "placement"
    WAITING = "waiting"
    REQUIRING = "requiring"
    EXPORT = "export"


class GangMaker(IntEnum):
    """The creator of a gang. A pod belongs to the gang of the innermost, which schedules it."""

    SCHEDULER = 0
    QUEUE = 1
    CONTROLLER = 2


@dataclass(frozen=True, slots=True)
class GangMark:
    """Labels or annotations that the pods of one gang share: their values are its name."""

    kind: str
    keys: tuple[str, ...]
    maker: GangMaker
    is_annotation: bool = False
    single: str = "-"
    """Prefix of a value that a scheduler generates for pods without a gang.

    No label begins with the default.
    """


@dataclass(frozen=True, slots=True)
class OperatorConfiguration:
    """Where an operator keeps its configuration: as text in a ConfigMap."""

    kind: str
    """The configuration's kind."""
    label_selector: str
    """What selects the ConfigMap."""
    group: str = ""
    """Its API group, if it affects placement like an object of the cluster; empty if it only lists
    schedulers.
    """


@dataclass(frozen=True, slots=True)
class RequiredField:
    """The field, with a label key, of the level that all of a gang must stay within."""

    kind: Kind
    path: tuple[str, ...]
    """Below `spec`; its first part may have a `mode`, and `soft` requires nothing."""
    needs: str = ""
    """A field of that first part: without it, the level has no effect."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One system, without its parts."""

    name: str
    """Lower-case, as in `spec.publish` and `--format`."""
    title: str
    """Its name for people: `Run:ai`."""
    package: str
    """Its folder: `__package__` of its `plugin.py`."""
    scheduler: str = ""
    """The scheduler of its workloads, by its name for people; empty if the system itself."""
    watched: tuple[WatchedKind, ...] = ()
    """Kinds whose objects request levels."""
    read_annotations: ReadAnnotations | None = None
    """Reads the levels in annotations of others' workloads."""
    published: tuple[PublishedKind, ...] = ()
    """Kinds that its publisher writes, or compares with."""
    followed: tuple[PublishedKind, ...] = ()
    """Kinds that its publisher reads besides."""
    changes_checked: tuple[Kind, ...] = ()
    """Kinds that have rules about updates: `check` compares them with the existing object."""
    leaves_out_incomplete_nodes: bool = False
    """Whether a node without one of the levels is out of its whole topology."""
    admits: bool = False
    """Whether it queues workloads before a scheduler sees their pods."""
    decisive: tuple[Kind, ...] = ()
    """Kinds that affect placement besides topologies: queues, quota, groups of pods."""
    names_topology: bool = True
    """Whether its workloads name their topology; False if another object does."""
    gang_marks: tuple[GangMark, ...] = ()
    pod_metadata: tuple[str, ...] = ()
    """Prefixes of the labels and annotations of pods that name groups or request a placement."""
    placing_annotations: tuple[str, ...] = ()
    """Pods with one of these are kept with all their node constraints, even without GPUs."""
    configuration: OperatorConfiguration | None = None
    """The configuration of its operator; read by its `placement.py`."""
    required_fields: tuple[RequiredField, ...] = ()
    """Fields of the objects that it creates for gangs."""
    requiring_annotations: tuple[str, ...] = ()
    """Annotations of pods that name the level that all of their gang must stay within."""
    requiring_parts: tuple[str, ...] = ()
    """Annotations, then labels: the first that a pod has names the part of its gang to which such
    an annotation applies; none for the whole gang."""
    scheduler_names: tuple[str, ...] = ()
    """The `schedulerName` of pods that its scheduler places."""
    scheduling_gates: tuple[str, ...] = ()
    """Scheduling gates that it removes from pods once they may be placed."""
    exclusive_pod_labels: tuple[str, ...] = ()
    """Pods with one of these labels keep pods of other groups out of their domain."""

    def part(self, part: PluginPart) -> ModuleType | None:
        """The imported module of this part; None if the system has none."""
        return _imported(f"{self.package}.{part}")


@functools.cache
def _imported(module: str) -> ModuleType | None:
    if importlib.util.find_spec(module) is None:
        return None
    return importlib.import_module(module)
