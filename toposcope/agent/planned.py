"""Labels and annotation that ClusterTopologies ask for, on the agent's own Node.

Opt-in, decided from the plan. Labels under our prefix are ours, whoever wrote them: an earlier
controller did. Slinky's annotation may have another owner, such as Topograph or a person, who keeps
it. While no plan is known nothing is changed.

Imports little, because every agent imports it; those that follow no plan only remove what they
wrote when they did.
"""

import logging
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toposcope.agent.owners import OwnedKeys, managers
from toposcope.api.label_keys import SLINKY, UNIQUE

if TYPE_CHECKING:
    from toposcope.integrations.node_plan import NodePlan, PlannedKeys

log = logging.getLogger("agent")

MANAGER: Final = "toposcope-agent"
FORMER: Final = "toposcope-controller"
"""The field manager of earlier versions of the controller, which wrote these keys."""
CLEARED: Final = "before-first-apply"
"""Owner of all fields of a Node whose managedFields was cleared."""


class WantedKeys(NamedTuple):
    """What belongs on the Node."""

    keys: OwnedKeys
    has_other_owner: bool = False
    """Whether the annotation has another owner, so that no apply may name it."""


class NodeLabels:
    """A Node's labels, for selectors."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels

    def label(self, key: str) -> str | None:
        """The value of a label; None if there is none."""
        return self.labels.get(key)


class Planner:
    """Decides about one Node.

    `unique` and `slinky`: which of both the agent may write (its flags).
    """

    def __init__(
        self, node_name: str, *, can_write_unique: bool = False, can_write_slinky: bool = False
    ) -> None:
        self._name = node_name
        self._can_write_unique = can_write_unique
        self._can_write_slinky = can_write_slinky
        self._plan: NodePlan | None = None
        """None: no plan is known."""
        self._input_keys: tuple[str, ...] = ()
        self._annotation: str | None = None
        """The annotation that this process wanted last."""
        self._logged = ""
        """The annotation of another owner that was logged last."""

    def follow(self, plan: "NodePlan") -> None:
        """Decide by this plan from now on."""
        self._plan = plan
        self._input_keys = tuple(sorted(plan.input_keys()))

    def present(self, metadata: Mapping[str, Any]) -> OwnedKeys:
        """The keys on the Node that are this agent's business.

        Without its flags these are the keys that it wrote itself.
        """
        labels = dict(self._present_labels(metadata))
        annotation = _annotation_of(metadata)
        if annotation is None:
            return OwnedKeys(labels, {})
        if self._can_write_slinky or _has_written(metadata, "annotations", SLINKY):
            return OwnedKeys(labels, {SLINKY: annotation})
        return OwnedKeys(labels, {})

    def _present_labels(self, metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key, value in (metadata.get("labels") or {}).items():
            if not key.startswith(UNIQUE):
                continue
            if self._can_write_unique or _has_written(metadata, "labels", key):
                yield key, value

    def wanted(self, metadata: Mapping[str, Any], labels: Mapping[str, str]) -> WantedKeys:
        """The keys that belong on the Node, which will have these labels besides."""
        present = self.present(metadata)
        if self._plan is None:
            foreign = self._is_foreign(metadata, None)
            return WantedKeys(self._allowed(present), foreign)
        planned = self._plan.wanted(self._name, NodeLabels(labels))
        unique = self._unique_labels(planned, present)
        if not self._can_write_slinky:
            return WantedKeys(OwnedKeys(unique, {}))
        annotation = planned.annotation
        foreign = self._is_foreign(metadata, annotation)
        if foreign:
            self._log_foreign(metadata, annotation)
        if foreign or planned.keeps_annotation:
            keys = OwnedKeys(unique, present.annotations)
            return WantedKeys(keys, foreign)
        self._annotation = annotation
        annotations = {SLINKY: annotation} if annotation else {}
        return WantedKeys(OwnedKeys(unique, annotations))

    def _allowed(self, present: OwnedKeys) -> OwnedKeys:
        """The keys on the Node that the flags let the agent write."""
        return OwnedKeys(
            labels=present.labels if self._can_write_unique else {},
            annotations=present.annotations if self._can_write_slinky else {},
        )

    def _unique_labels(self, planned: "PlannedKeys", present: OwnedKeys) -> dict[str, str]:
        """The labels of unique values: what the plan names, and what it says nothing about."""
        if not self._can_write_unique:
            return {}
        kept = {key: value for key, value in present.labels.items() if planned.keeps(key)}
        return {**kept, **planned.labels}

    def inputs(self, metadata: Mapping[str, Any]) -> Hashable:
        """The Node's labels that the plan depends on."""
        labels = metadata.get("labels") or {}
        return tuple([labels.get(key) for key in self._input_keys])

    def _is_foreign(self, metadata: Mapping[str, Any], wanted: str | None) -> bool:
        """Whether another owner wrote the annotation that the Node has.

        Nobody's is ours if we want or wanted it.
        """
        annotation = _annotation_of(metadata)
        if annotation is None:
            return False
        owners = managers(metadata, "annotations", SLINKY) - {CLEARED}
        if owners:
            return not owners <= {MANAGER, FORMER}
        return annotation not in (wanted, self._annotation)

    def _log_foreign(self, metadata: Mapping[str, Any], wanted: str | None) -> None:
        """Say once of each annotation that its owner keeps it."""
        annotation = _annotation_of(metadata) or ""
        if not wanted or annotation in (wanted, self._logged):
            return
        self._logged = annotation
        owners = ", ".join(sorted(managers(metadata, "annotations", SLINKY))) or "an unknown owner"
        text = "annotation %s stays %r, because %s owns it; remove it to have %r written"
        log.warning(text, SLINKY, annotation, owners, wanted)


def _has_written(metadata: Mapping[str, Any], field: str, key: str) -> bool:
    """Whether an agent wrote this label or annotation."""
    return MANAGER in managers(metadata, field, key)


def _annotation_of(metadata: Mapping[str, Any]) -> str | None:
    annotations = metadata.get("annotations") or {}
    annotation: str | None = annotations.get(SLINKY)
    return annotation
