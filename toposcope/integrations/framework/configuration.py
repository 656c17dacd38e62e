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
    """Topology resources, pools, groups of pods. A system overrides the parts that it has."""

    kinds: tuple[PublishedKind, ...] = ()
    """Its topology resources."""
    plain_field: str = ""
    """The top-level field that identifies a document without a kind; empty if there is none."""
    plain_title: str = ""
    """The name of such a document in messages."""
    from_cluster: tuple[Kind, ...] = ()
    """The kinds of `decisive` that exist only in the cluster, never in files."""

    def read(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        """The levels of a topology resource. Raises UnreadableDocumentError."""
        raise NotImplementedError

    def read_plain(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        """The levels in a document without a kind. Raises UnreadableDocumentError."""
        raise NotImplementedError

    def expanded(self, text: bytes) -> bytes | None:
        """The YAML that the system renders from a template; None if it is not one of its templates.

        Raises UnreadableDocumentError.
        """
        del text
        return None

    def configure(self, cluster: ClusterFacts, document: Document) -> ClusterFacts | None:
        """The facts with this document added; None if it is not one of the system's."""
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
        """The facts with the pods of the groups in the documents added."""
        del documents
        return cluster
