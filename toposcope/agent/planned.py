"""Labels and annotation that ClusterTopologies ask for, on the agent's own Node: opt-in, decided from the plan.

Labels under our prefix are ours, whoever wrote them: an earlier controller did. Slinky's annotation may have another
owner, such as Topograph or a person, who keeps it. While no plan is known everything stays as it is.

Imports little, because every agent imports it; those that follow no plan only remove what they wrote when they did.
"""

import logging
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toposcope.agent.owners import OwnedKeys, managers
from toposcope.api.label_keys import SLINKY, UNIQUE

if TYPE_CHECKING:
    from toposcope.integrations.node_plan import NodePlan

log = logging.getLogger("agent")

MANAGER: Final = "toposcope-agent"
FORMER: Final = "toposcope-controller"
"""The field manager of controllers of former versions, which wrote these keys."""
CLEARED: Final = "before-first-apply"
"""Owner of all fields of a Node whose managedFields somebody has cleared."""


class Wanted(NamedTuple):
    """What belongs on the Node."""

    keys: OwnedKeys
    foreign: bool = False
    """Whether the annotation has another owner, so that no apply may name it."""


class _Labels:
    """A Node's labels, for selectors."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels

    def label(self, key: str) -> str | None:
        """The value of a label; None if there is none."""
        return self.labels.get(key)


class Planner:
    """Decides about one Node. `unique` and `slinky`: which of both the agent may write (its flags)."""

    def __init__(self, node_name: str, *, unique: bool = False, slinky: bool = False) -> None:
        self._name = node_name
        self._unique = unique
        self._slinky = slinky
        self._logged = ""
        """The annotation of another owner that was logged last."""
        self._annotation: str | None = None
        """The annotation that this process wanted last."""
        self.plan: NodePlan | None = None
        """As adopted last; None: no plan is known."""

    def present(self, metadata: Mapping[str, Any]) -> OwnedKeys:
        """The keys on the Node that are this agent's business: without its flags, those that it wrote itself."""
        there = metadata.get("labels") or {}
        unique = [key for key in there if key.startswith(UNIQUE)]
        if not self._unique:
            unique = [key for key in unique if MANAGER in managers(metadata, "labels", key)]
        labels = {key: there[key] for key in unique}
        annotations = {}
        annotation = (metadata.get("annotations") or {}).get(SLINKY)
        if annotation is not None and (self._slinky or MANAGER in managers(metadata, "annotations", SLINKY)):
            annotations[SLINKY] = annotation
        return OwnedKeys(labels, annotations)

    def wanted(self, metadata: Mapping[str, Any], labels: Mapping[str, str]) -> Wanted:
        """The keys that belong on the Node, which will have these labels besides."""
        present = self.present(metadata)
        if self.plan is None:
            kept = OwnedKeys(present.labels if self._unique else {}, present.annotations if self._slinky else {})
            return Wanted(kept, self._is_foreign(metadata, None))
        wanted = self.plan.wanted(self._name, _Labels(labels))
        unique: Mapping[str, str] = {}
        if self._unique:
            stay = [key for key in present.labels if key in wanted.kept or not wanted.complete]
            unique = {**{key: present.labels[key] for key in stay}, **wanted.labels}
        if not self._slinky:
            return Wanted(OwnedKeys(unique, {}))
        foreign = self._is_foreign(metadata, wanted.annotation)
        if foreign or wanted.keeps_annotation:
            self._log_foreign(metadata, wanted.annotation if foreign else None)
            return Wanted(OwnedKeys(unique, present.annotations), foreign)
        self._annotation = wanted.annotation
        return Wanted(OwnedKeys(unique, {SLINKY: wanted.annotation} if wanted.annotation else {}))

    def inputs(self, metadata: Mapping[str, Any]) -> Hashable:
        """The Node's labels that the plan depends on."""
        if self.plan is None:
            return None
        labels = metadata.get("labels") or {}
        return tuple(labels.get(key) for key in sorted(self.plan.input_keys()))

    def _is_foreign(self, metadata: Mapping[str, Any], wanted: str | None) -> bool:
        """Whether somebody else wrote the annotation that the Node has; nobody's is ours if we want or wanted it."""
        found = (metadata.get("annotations") or {}).get(SLINKY)
        if found is None:
            return False
        known = managers(metadata, "annotations", SLINKY) - {CLEARED}
        return not known <= {MANAGER, FORMER} if known else found not in {wanted, self._annotation}

    def _log_foreign(self, metadata: Mapping[str, Any], wanted: str | None) -> None:
        """Say once of each annotation that its owner keeps it."""
        found = (metadata.get("annotations") or {}).get(SLINKY, "")
        if wanted and found not in {wanted, self._logged}:
            self._logged = found
            owners = ", ".join(sorted(managers(metadata, "annotations", SLINKY))) or "an unknown owner"
            text = "annotation %s stays %r, because it is of %s; remove it to have %r written"
            log.warning(text, SLINKY, found, owners, wanted)
