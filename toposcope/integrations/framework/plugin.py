"""What a system is: a folder beside this one, with files named alike.

| file | what it has | who loads it |
|---|---|---|
| `plugin.py` | `PLUGIN`: names, and kinds of objects; light | everybody |
| `workload.py` | `READERS`: what documents ask for, and what is wrong with them | check, explain |
| `making.py` | `MADE`: objects that are made of others, and checked instead | check, explain |
| `topology.py` | `READERS` of the resources that list levels | check, export |
| `configuration.py` | `CONFIGURATION`: documents beside a workload | check, export |
| `publisher.py` | `PUBLISHING`: writes such a resource | controller |
| `placement.py` | `PLACEMENT`: what its own procedure makes of a verdict | check, planning |
| `waiting.py` | `WAITING`: why its pods wait, and what its messages mean | explain |
| `requiring.py` | `REQUIRING`: what its running pods require of their places | planning, explain |
| `export.py` | `FORMATS`: the topology in its formats | export |

A system has the files that it has a part for; `registry` lists the systems and loads their parts.
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
    """Who makes a gang; a pod belongs to that of the innermost, as it is the one that schedules."""

    SCHEDULER = 0
    QUEUE = 1
    CONTROLLER = 2


@dataclass(frozen=True, slots=True)
class GangMark:
    """Labels, or annotations, that pods of one gang have in common: their values are its name."""

    kind: str
    keys: tuple[str, ...]
    maker: GangMaker
    annotation: bool = False
    single: str = "-"
    """How a value begins that a scheduler makes up for pods that name no gang.

    The default is how no label begins.
    """


@dataclass(frozen=True, slots=True)
class OperatorConfiguration:
    """Where an operator keeps its configuration: as text in a ConfigMap."""

    kind: str
    """The configuration's kind."""
    label_selector: str
    """What selects the ConfigMap."""
    group: str = ""
    """Its API group, where it decides about places like an object of the cluster; empty: it only
    says which schedulers there are.
    """


@dataclass(frozen=True, slots=True)
class RequiredField:
    """Where the object of a gang says which level all of it has to stay within: a label key."""

    kind: Kind
    path: tuple[str, ...]
    """Below `spec`; its first part may have a `mode`, and `soft` requires nothing."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One system, without its parts."""

    name: str
    """Lower-case, as in `spec.publish` and `--format`."""
    title: str
    """As people say it: `Run:ai`."""
    package: str
    """Its folder: `__package__` of its `plugin.py`."""
    scheduler: str = ""
    """Who places the pods of its workloads, as people say it; empty: the system itself."""
    watched: tuple[WatchedKind, ...] = ()
    """Kinds whose objects ask for levels."""
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
    """Whether it holds workloads back before a scheduler sees their pods."""
    decisive: tuple[Kind, ...] = ()
    """What decides about a place besides topologies: queues, quota, groups of pods."""
    names_topology: bool = True
    """Whether its workloads name their topology; False: another object says which one."""
    gang_marks: tuple[GangMark, ...] = ()
    pod_metadata: tuple[str, ...] = ()
    """How labels and annotations of pods begin that name groups, or ask for a place."""
    placing_annotations: tuple[str, ...] = ()
    """Pods with one of these matter with all that they say about nodes, also without GPUs."""
    configuration: OperatorConfiguration | None = None
    """What its operator is set to; read by its `placement.py`."""
    required_fields: tuple[RequiredField, ...] = ()
    """Fields of objects that it makes for gangs."""
    requiring_annotations: tuple[str, ...] = ()
    """Annotations of pods that name a level all of their gang has to stay within."""
    requiring_parts: tuple[str, ...] = ()
    """Annotations, then labels, of which the first that a pod has names the part of its gang that
    such an annotation is about; none: all of it."""
    scheduler_names: tuple[str, ...] = ()
    """What pods write into `schedulerName` to be placed by its scheduler."""
    scheduling_gates: tuple[str, ...] = ()
    """Gates that it takes from pods itself, once these may be placed."""
    exclusive_pod_labels: tuple[str, ...] = ()
    """Pods with one of these labels keep pods of other groups out of their domain."""

    def part(self, part: PluginPart) -> ModuleType | None:
        """The file of this part, imported; None where the system has none."""
        return _imported(f"{self.package}.{part}")


@functools.cache
def _imported(module: str) -> ModuleType | None:
    if importlib.util.find_spec(module) is None:
        return None
    return importlib.import_module(module)
