"""What a system knows about places: the base of `PLACEMENT` in its `placement.py`.

A system overrides what it has; the rest says nothing. Everything here is pure: what is known of the
cluster comes as `ClusterView`, which a snapshot is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toposcope.integrations.framework.constraints import Decision, Workload
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.features import Resource
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.kube.discovery import Kind


class ViewedPod(Protocol):
    """A pod that has not finished."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def node(self) -> str:
        """Where it is; empty while it is pending."""

    @property
    def requests(self) -> Mapping[str, int]:
        """What it requests, by resource."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Those that say what it belongs to."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Those that ask for a placement."""

    @property
    def wants(self) -> Mapping[str, Any]:
        """The fields of its spec that choose nodes."""


class ClusterView(Protocol):
    """A cluster at one moment."""

    @property
    def pods(self) -> Sequence[ViewedPod] | None:
        """Pods that have not finished; None: not known."""

    @property
    def published(self) -> Sequence[Resource]:
        """Topology resources."""

    @property
    def served(self) -> Mapping[str, bool]:
        """Whether the cluster serves a kind, by its name, where that is known."""


@dataclass(frozen=True, slots=True)
class RequiredField:
    """Where the object of a gang says which level all of it has to stay within: a label key."""

    kind: Kind
    path: tuple[str, ...]
    """Below `spec`; its first part may have a `mode`, and `soft` requires nothing."""


class Placement:
    """What one system knows about places."""

    required_fields: tuple[RequiredField, ...] = ()
    """Of the objects that it makes for gangs."""

    def kept(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """As much of an object of `decisive` as counts; None: it decides nothing."""
        return document

    def facts(self, cluster: ClusterFacts, view: ClusterView) -> ClusterFacts:
        """What is known of the cluster, with what its objects and pods say."""
        del view
        return cluster

    def findings(
        self, workload: Workload, cluster: ClusterFacts, view: ClusterView
    ) -> Iterator[Finding]:
        """What only the cluster shows to be wrong; rules about fields are the reader's."""
        del workload, cluster, view
        yield from ()

    def notes(self, workload: Workload, decision: Decision | None) -> Iterator[str]:
        """What an admin should know about the verdict."""
        del workload, decision
        yield from ()
