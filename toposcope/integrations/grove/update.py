"""What Grove's webhook rejects in a change to a PodCliqueSet.

It does not check unchanged levels again. Rules and messages: Grove's webhook, main of 2026-08-19.
Before v0.1.0-alpha.9 a constraint had `packDomain` and no `topologyName`: such a set may get the
name, and any may move `packDomain` to `pack.required`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.grove.constraint import GroveConstraints, TopologyConstraint

RECREATE: Final = "keep the old value, or delete the PodCliqueSet and create it again"
_IMMUTABLE: Final = "field is immutable"
_ORDERED: Final = ("CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit")


def is_repair(old: GroveConstraints) -> bool:
    """Whether the set comes from a Grove without `topologyName`.

    Then Grove checks its levels as for a new set.
    """
    has_legacy = False
    for constraint in old:
        if not (constraint.required or constraint.preferred):
            return False
        if constraint.pack_domain and not constraint.topology:
            has_legacy = True

    if not has_legacy:
        return False
    return old.topology(_ignored) is None


def _ignored(*_: object) -> None:
    """Record nothing."""


def check_unchanged(
    template: Field, before: Field, new: GroveConstraints, old: GroveConstraints
) -> None:
    """Note every change that is not allowed once the set exists."""
    _check_cliques(template, before)
    _check_groups(template, before)
    startup_type = template / "cliqueStartupType"
    _same(startup_type, before / "cliqueStartupType", "CliqueStartupTypeAnyOrder")

    repair = is_repair(old)
    then = old.top
    now = new.top
    if now.topology == then.topology:
        _check_same(then, now, repair=repair)
    elif not (repair and _repairs(then, now)):
        text = f'topologyName cannot be changed from "{then.topology}" to "{now.topology}"'
        (now.field / "topologyName").error("grove/immutable", text, RECREATE)
    for then, now in _pairs(old, new):
        _check_same(then, now, repair=repair)


def _pairs(
    old: GroveConstraints, new: GroveConstraints
) -> Iterator[tuple[TopologyConstraint, TopologyConstraint]]:
    """The cliques, then the scaling groups, that are in both."""
    yield from _in_both(old.cliques, new.cliques)
    yield from _in_both(old.groups, new.groups)


def _in_both(
    old: Iterable[TopologyConstraint], new: Iterable[TopologyConstraint]
) -> Iterator[tuple[TopologyConstraint, TopologyConstraint]]:
    by_name = {constraint.name: constraint for constraint in old}
    for constraint in new:
        if constraint.name in by_name:
            yield by_name[constraint.name], constraint


def _check_same(then: TopologyConstraint, now: TopologyConstraint, *, repair: bool) -> None:
    text = change(then, now)
    if not text:
        return
    if repair and _repairs(then, now):
        return
    now.field.error("grove/immutable", text, RECREATE)


def _values(constraint: TopologyConstraint) -> tuple[object, ...]:
    return (
        bool(constraint),
        constraint.topology,
        constraint.pack_domain,
        constraint.required,
        constraint.preferred,
    )


def _repairs(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    """Whether the only change is that a legacy constraint gets the name of its topology."""
    if not old.pack_domain or old.topology:
        return False
    if not new.topology:
        return False
    return new.pack_domain == old.pack_domain


def _moves(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    if not old.pack_domain or new.pack_domain:
        return False
    return bool(new.pack_required)


def _migrates(old: TopologyConstraint, new: TopologyConstraint) -> bool:
    """Whether the only change is that `packDomain` becomes `pack.required`."""
    if old.topology != new.topology:
        return False
    if old.preferred != new.preferred:
        return False
    if old.pack_domain != new.required:
        return False
    return _moves(old, new)


def change(old: TopologyConstraint, new: TopologyConstraint) -> str:
    """Grove's error for a change; empty if it is allowed.

    Allowed are no change, and `packDomain` becoming `pack.required`.
    """
    if _values(old) == _values(new) or _migrates(old, new):
        return ""
    about = f"{new.owner} topology constraint"
    if not old:
        return f"{about} cannot be added after creation"
    if not new:
        return f"{about} cannot be removed after creation"
    if old.topology != new.topology:
        return f"{about} topologyName cannot be changed from '{old.topology}' to '{new.topology}'"
    if _moves(old, new):
        return (
            f"{new.owner} deprecated packDomain migration can only move packDomain to "
            "pack.required without changing the required or preferred topology domain "
            f'(old required="{old.pack_domain}" preferred="{old.preferred}", '
            f'new required="{new.required}" preferred="{new.preferred}")'
        )
    return (
        f'{about} cannot be changed from required="{old.required}" preferred="{old.preferred}" '
        f'to required="{new.required}" preferred="{new.preferred}"'
    )


def _named(parts: Iterable[Field]) -> dict[str, Field]:
    named = {}
    for part in parts:
        name = (part / "name").text() or ""
        named[name] = part
    return named


def _same(new: Field, old: Field, default: object = None) -> None:
    """Note a changed value; `default` is what the API server fills in."""
    now = default if new.value is None else new.value
    then = default if old.value is None else old.value
    if now == then:
        return
    fix = "it is unset in the cluster"
    if old:
        fix = f"it is {then!r} in the cluster"
    new.error("grove/immutable", _IMMUTABLE, fix)


def _check_cliques(template: Field, before: Field) -> None:
    where = template / "cliques"
    new = list(where.items())
    old = _named((before / "cliques").items())
    if len(new) != len(old):
        where.error("grove/composition", "not allowed to change clique composition", RECREATE)

    startup_type = (template / "cliqueStartupType").text()
    old_names = list(old)
    for position, clique in enumerate(new):
        name = (clique / "name").text() or ""
        if name not in old:
            text = (
                f"not allowed to change clique composition, new clique name '{name}' is not allowed"
            )
            (clique / "name").error("grove/composition", text, RECREATE)
            continue
        if startup_type in _ORDERED:
            _check_position(clique, name, position, old_names.index(name))
        _check_spec(clique / "spec", old[name] / "spec")


def _check_position(clique: Field, name: str, position: int, old_position: int) -> None:
    if position == old_position:
        return
    text = (
        "clique order cannot be changed when StartupType is InOrder or Explicit. "
        f"Expected '{name}' at position {position}, got '{name}'"
    )
    fix = f"move it back to position {old_position}"
    clique.error("grove/composition", text, fix)


def _check_spec(spec: Field, before: Field) -> None:
    _same(spec / "roleName", before / "roleName")
    _same(spec / "startsAfter", before / "startsAfter")
    least = spec / "minAvailable"
    if least:
        # What is not set in the document becomes the number of replicas, but only at creation.
        _same(least, before / "minAvailable")
    scheduler = spec / "podSpec" / "schedulerName"
    _same(scheduler, before / "podSpec" / "schedulerName")


def _check_groups(template: Field, before: Field) -> None:
    where = template / "podCliqueScalingGroups"
    new = list(where.items())
    old = _named((before / "podCliqueScalingGroups").items())
    if len(new) != len(old):
        text = "not allowed to add or remove PodCliqueScalingGroupConfigs"
        where.error("grove/composition", text, RECREATE)
        return
    for group in new:
        name = (group / "name").text() or ""
        if name not in old:
            text = (
                "not allowed to change scaling group composition, "
                f"new scaling group name '{name}' is not allowed"
            )
            (group / "name").error("grove/composition", text, RECREATE)
            continue
        old_group = old[name]
        _same(group / "cliqueNames", old_group / "cliqueNames")
        _same(group / "minAvailable", old_group / "minAvailable", 1)
