"""What Grove's webhook refuses of a change to a PodCliqueSet.

Levels that stay as they are it does not look at again. Rules and messages: Grove's webhook, main of
2026-08-19. Before v0.1.0-alpha.9 a constraint had `packDomain` and no `topologyName`: such a set
may get the name, and any may move `packDomain` to `pack.required`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.grove.constraint import Constraint, Constraints

RECREATE: Final = "leave it as it is, or delete the PodCliqueSet and create it again"
_IMMUTABLE: Final = "field is immutable"
_ORDERED: Final = ("CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit")


def is_repair(old: Constraints) -> bool:
    """Whether the set comes from a Grove without `topologyName`.

    Then Grove checks its levels like a new one's.
    """
    legacy = any(constraint.pack_domain and not constraint.topology for constraint in old)
    return legacy and old.topology(_ignored) is None and all(c.required or c.preferred for c in old)


def _ignored(*_: object) -> None:
    """Notes nothing."""


def check_unchanged(template: Field, before: Field, new: Constraints, old: Constraints) -> None:
    """Note everything that may not change once the set exists."""
    _check_cliques(template, before)
    _check_groups(template, before)
    _same(template / "cliqueStartupType", before / "cliqueStartupType", "CliqueStartupTypeAnyOrder")
    repair = is_repair(old)
    named = new.top.topology == old.top.topology
    if not named and not (repair and _repairs(old.top, new.top)):
        text = f'topologyName cannot be changed from "{old.top.topology}" to "{new.top.topology}"'
        (new.top.field / "topologyName").error("grove/immutable", text, RECREATE)
    if named:
        _check_same(old.top, new.top, repair=repair)
    for then, now in _pairs(old, new):
        _check_same(then, now, repair=repair)


def _pairs(old: Constraints, new: Constraints) -> Iterator[tuple[Constraint, Constraint]]:
    """The places of cliques, then of scaling groups, that are in both."""
    for olds, news in ((old.cliques, new.cliques), (old.groups, new.groups)):
        by_name = {constraint.name: constraint for constraint in olds}
        for constraint in news:
            if constraint.name in by_name:
                yield by_name[constraint.name], constraint


def _check_same(then: Constraint, now: Constraint, *, repair: bool) -> None:
    text = change(then, now)
    if text and not (repair and _repairs(then, now)):
        now.field.error("grove/immutable", text, RECREATE)


def _values(constraint: Constraint) -> tuple[object, ...]:
    return (
        bool(constraint),
        constraint.topology,
        constraint.pack_domain,
        constraint.required,
        constraint.preferred,
    )


def _repairs(old: Constraint, new: Constraint) -> bool:
    """Whether all that changes is that a legacy constraint gets the name of its topology."""
    legacy = bool(old.pack_domain) and not old.topology
    return legacy and bool(new.topology) and new.pack_domain == old.pack_domain


def _moves(old: Constraint, new: Constraint) -> bool:
    return bool(old.pack_domain and not new.pack_domain and new.pack_required)


def _migrates(old: Constraint, new: Constraint) -> bool:
    """Whether all that changes is that `packDomain` becomes `pack.required`."""
    same = (old.topology, old.pack_domain, old.preferred) == (
        new.topology,
        new.required,
        new.preferred,
    )
    return _moves(old, new) and same


def change(old: Constraint, new: Constraint) -> str:
    """What Grove says of a change.

    Empty where nothing changes, or `packDomain` becomes `pack.required` alone.
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
    return {(part / "name").text() or "": part for part in parts}


def _same(new: Field, old: Field, default: object = None) -> None:
    """Note a value that changes; `default` is what the API server fills in."""
    now = default if new.value is None else new.value
    then = default if old.value is None else old.value
    if now != then:
        fix = f"it is {then!r} in the cluster" if old else "it is not set there"
        new.error("grove/immutable", _IMMUTABLE, fix)


def _check_cliques(template: Field, before: Field) -> None:
    where = template / "cliques"
    new, old = list(where.items()), _named((before / "cliques").items())
    if len(new) != len(old):
        where.error("grove/composition", "not allowed to change clique composition", RECREATE)
    ordered = (template / "cliqueStartupType").text() in _ORDERED
    for position, clique in enumerate(new):
        name = (clique / "name").text() or ""
        if name not in old:
            text = (
                f"not allowed to change clique composition, new clique name '{name}' is not allowed"
            )
            (clique / "name").error("grove/composition", text, RECREATE)
            continue
        if ordered and list(old).index(name) != position:
            text = (
                "clique order cannot be changed when StartupType is InOrder or Explicit. "
                f"Expected '{name}' at position {position}, got '{name}'"
            )
            fix = f"put it at position {list(old).index(name)} again"
            clique.error("grove/composition", text, fix)
        spec, then = clique / "spec", old[name] / "spec"
        # What is not set in the document becomes the number of replicas, but only at creation.
        fields = ["roleName", "startsAfter"]
        if spec / "minAvailable":
            fields.append("minAvailable")
        for field in fields:
            _same(spec / field, then / field)
        _same(spec / "podSpec" / "schedulerName", then / "podSpec" / "schedulerName")


def _check_groups(template: Field, before: Field) -> None:
    where = template / "podCliqueScalingGroups"
    new, old = list(where.items()), _named((before / "podCliqueScalingGroups").items())
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
        _same(group / "cliqueNames", old[name] / "cliqueNames")
        _same(group / "minAvailable", old[name] / "minAvailable", 1)
