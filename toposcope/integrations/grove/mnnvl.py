"""NVLink groups: cliques whose pods Grove puts into one ComputeDomain for each replica of the set.

Rules and messages: Grove's webhook (operator/internal/mnnvl), v0.1.0-alpha.10 to main of
2026-08-19. A group is named by an annotation of the clique, else of its scaling group, else of the
set. If `network.autoMNNVLEnabled` is on in the operator's configuration (its chart leaves it off),
each pod of an enrolled clique that requests GPUs gets a claim for the domain's channel.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.constraints import ClaimRef, Pods
from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.grove.api import clique_names

GROUP: Final = "grove.io/mnnvl-group"
OLDER: Final = "grove.io/auto-mnnvl"
"""The annotation that Grove read through v0.1.0-alpha.8."""
_OUT: Final = "none"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_MAX_LABEL_CHARACTERS: Final = 63
_RULE: Final = "grove/mnnvl"
_CHANNELS: Final = "compute-domain-default-channel.nvidia.com"
"""The class of the claimed device."""
_ENABLE: Final = "set config.network.autoMNNVLEnabled: true in Grove's chart, or remove it"


def _annotated(root: Field) -> Iterator[Field]:
    """The annotations of the set, its cliques and its scaling groups."""
    template = root / "spec" / "template"
    yield root / "metadata" / "annotations"
    for part in (template / "cliques").items():
        yield part / "annotations"
    for part in (template / "podCliqueScalingGroups").items():
        yield part / "annotations"


def check_groups(root: Field, profiles: SchedulerProfiles | None) -> None:
    """Note what Grove rejects in the groups of a new set; `profiles` as in `ClusterFacts`."""
    for annotations in _annotated(root):
        group = annotations / GROUP
        if group:
            _check_group(group, profiles)
        older = annotations / OLDER
        if older:
            text = "only Grove through v0.1.0-alpha.8 reads this, so it has no effect"
            older.warn(_RULE, text, f"use {GROUP}, or remove it")


def _check_group(group: Field, profiles: SchedulerProfiles | None) -> None:
    name = group.value
    if name == _OUT:
        return
    if name == "":
        group.malformed(_RULE, "mnnvl-group value must not be empty", "name a group")
    elif not is_group(group.text() or ""):
        text = f'mnnvl-group value "{name}" is not a valid DNS-1123 label'
        fix = f"use 1-63 lower-case letters, digits and '-', or {_OUT}"
        group.malformed(_RULE, text, fix)

    if profiles is None:
        text = (
            "Grove rejects this unless MNNVL is enabled in its operator's configuration; its "
            "chart leaves it off"
        )
        group.warn(_RULE, text, _ENABLE)
    elif not profiles.has_mnnvl:
        text = (
            "MNNVL is not enabled in the operator configuration. "
            f"Either enable MNNVL globally or remove the {GROUP} annotation"
        )
        group.error(_RULE, text, _ENABLE)


def check_groups_unchanged(root: Field, before: Field) -> None:
    """Note changed groups: Grove compares cliques and scaling groups by name."""
    old = _by_part(before)
    for part, group in _by_part(root).items():
        then = old.get(part)
        if then is not None and then.value != group.value:
            fix = "keep the old value, or delete the PodCliqueSet and create it again"
            group.error("grove/immutable", "field is immutable", fix)


def _by_part(root: Field) -> dict[str, Field]:
    """The group's annotation of the set (empty), of each clique and of each scaling group."""
    template = root / "spec" / "template"
    groups = {"": root / "metadata" / "annotations" / GROUP}
    for kind in ("cliques", "podCliqueScalingGroups"):
        for part in (template / kind).items():
            name = (part / "name").text() or part.path
            groups[f"{kind}/{name}"] = part / "annotations" / GROUP
    return groups


def is_group(name: str) -> bool:
    """Whether it can name a group."""
    return len(name) <= _MAX_LABEL_CHARACTERS and _LABEL.fullmatch(name) is not None


def groups_of(root: Field) -> Mapping[str, str]:
    """The group of each clique that is in one, by the clique's name."""
    template = root / "spec" / "template"
    own = root / "metadata" / "annotations" / GROUP
    outer: dict[str, Field] = {}
    for scaling_group in (template / "podCliqueScalingGroups").items():
        annotation = scaling_group / "annotations" / GROUP
        if annotation:
            outer.update(dict.fromkeys(clique_names(scaling_group), annotation))

    groups = {}
    for clique in (template / "cliques").items():
        name = (clique / "name").text() or clique.path
        annotation = clique / "annotations" / GROUP or outer.get(name) or own
        group = annotation.text()
        if group and group != _OUT:
            groups[name] = group
    return groups


def channel_claim(root: Field, group: str, pods: Pods) -> ClaimRef | None:
    """The claim that Grove adds to pods of a group; None for pods without GPUs."""
    if not dict(pods.requests).get(ALLOCATABLE_GPUS):
        return None
    template = f"{name_of(root)}-0-{group}"
    return ClaimRef(
        kind="ResourceClaimTemplate",
        namespace=namespace_of(root),
        name=template,
        device_class=_CHANNELS,
        devices=1,
    )
