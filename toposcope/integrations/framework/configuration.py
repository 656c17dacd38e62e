"""Documents that configure a system: the base of `CONFIGURATION` in its `configuration.py`."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.document import kind_of
from toposcope.integrations.framework.levels import TopologyLevels, UnreadableDocumentError
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.topologies import aliases_of
from toposcope.kube.discovery import Kind

Document = Mapping[str, Any]


class Configuration:
    """Topology resources, pools, groups of pods. A system overrides what it has."""

    kinds: tuple[PublishedKind, ...] = ()
    """Its topology resources."""
    plain_field: str = ""
    """The field at the top by which a document without a kind is known; empty: it has none."""
    plain_title: str = ""
    """What such a document is."""
    from_cluster: tuple[Kind, ...] = ()
    """The kinds of `decisive` that only the cluster has, and no document makes."""

    def read(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        """The levels of a topology resource. Raises UnreadableDocumentError."""
        raise NotImplementedError

    def read_plain(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        """The levels in a document without a kind. Raises UnreadableDocumentError."""
        raise NotImplementedError

    def expanded(self, text: bytes) -> bytes | None:
        """The YAML that the system makes of a template; None: it is none of its templates.

        Raises UnreadableDocumentError.
        """
        del text
        return None

    def configure(self, cluster: ClusterFacts, document: Document) -> ClusterFacts | None:
        """What is known with this document beside a workload; None: it is none of the system's."""
        for kind in self.kinds:
            if kind.key == kind_of(document):
                with suppress(UnreadableDocumentError):
                    levels = self.read(document, BUILT_IN)
                    aliases = aliases_of(document)
                    topology = replace(levels, source=kind.kind, aliases=aliases)
                    return cluster.with_topology(kind.option, topology)
                return cluster
        return None

    def members(self, cluster: ClusterFacts, documents: Collection[Document]) -> ClusterFacts:
        """What is known with the pods of groups that are among the documents."""
        del documents
        return cluster
