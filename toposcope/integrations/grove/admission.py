"""What Grove's webhook rejects in any PodCliqueSet: names, counts, enumerations, pod templates.

Constraints are in `constraint.py`, NVLink groups in `mnnvl.py`. Rules and messages: Grove's CRD and
webhook, main of 2026-08-19. Its defaulting webhook runs first: a clique with `replicas: 0` gets 1,
while `minAvailable` and `autoScalingConfig.minReplicas` that are not set get the number as written.
Rules that do not affect placement are left out: shared resource claims, environment variables.
"""

import json
import re
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Final

from toposcope.api.label_values import NAME, is_name
from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.grove.api import clique_names, clique_replicas
from toposcope.integrations.grove.durations import DurationError, seconds_of

_MAX_NAME_CHARACTERS: Final = 45
"""The limit of the names in a pod's name; the rest of its 63 characters are indices and a random
suffix.
"""
_EXPLICIT: Final = "CliqueStartupTypeExplicit"
_ENV_NAME: Final = re.compile(r"(?!\.{1,2}$)(?!\.\.)[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_STARTUP_TYPES: Final = ("CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", _EXPLICIT)
_UPDATE_STRATEGIES: Final = ("RollingRecreate", "OnDelete")
_UNPLACED: Final = "remove it: Grove's scheduler decides where its pods run"


def check_parts(root: Field, *, is_new: bool) -> None:
    """Note what is wrong with the cliques and scaling groups of a set."""
    replicas = root / "spec" / "replicas"
    if not replicas.number(0):
        text = "defaults to 0, so Grove creates no pods"
        replicas.warn("grove/no-replicas", text, "set it to 1 or more")

    _check_set_name(root / "metadata" / "name")
    template = root / "spec" / "template"
    _check_one_of(template / "cliqueStartupType", _STARTUP_TYPES)
    _check_one_of(root / "spec" / "updateStrategy" / "type", _UPDATE_STRATEGIES)
    _check_termination_delay(template / "terminationDelay")
    where = template / "cliques"
    cliques = list(where.items())
    groups = list((template / "podCliqueScalingGroups").items())
    if not cliques:
        where.error("grove/cliques", "at least one PodClique must be defined", "add one")

    names = [(clique / "name").text() or "" for clique in cliques]
    members = _members(groups)
    for clique, name in zip(cliques, names, strict=True):
        grouped = name in members
        _check_name(clique, "PodCliqueTemplateSpec")
        _check_clique(clique, is_in_group=grouped, is_new=is_new)
        if name and not grouped:
            _check_length(root, clique / "name", ("PodClique", name))
    for group in groups:
        _check_name(group, "PodCliqueScalingGroupConfig")
        _check_group(root, group, names)

    _check_all_unique(template, cliques, groups)
    startup_type = (template / "cliqueStartupType").text()
    if startup_type == _EXPLICIT:
        _check_order(where, cliques, names)


def _check_set_name(field: Field) -> None:
    name = field.text()
    if name is None or is_name(name):
        return
    text = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', and must start and end with an alphanumeric character"
    )
    field.malformed("grove/name", text, "use lower-case letters, digits and '-'")


def _check_one_of(field: Field, values: tuple[str, ...]) -> None:
    """Note a value that is not in the CRD's enumeration."""
    value = field.text()
    if value is None or value in values:
        return
    supported = ", ".join(f'"{each}"' for each in values)
    text = f'Unsupported value: "{value}": supported values: {supported}'
    field.malformed("grove/enum", text, did_you_mean(value, values))


def _check_termination_delay(field: Field) -> None:
    rule = "grove/termination-delay"
    text = field.text()
    if text is None:
        return
    fix = "set a duration such as 4h or 90s, or remove it: the default is 4h"
    try:
        seconds = seconds_of(text)
    except DurationError:
        field.malformed(rule, f'time: invalid duration "{text}"', fix)
        return
    if seconds <= 0:
        field.malformed(rule, "terminationDelay must be greater than 0", fix)


def _members(groups: list[Field]) -> list[str]:
    """The cliques of all scaling groups."""
    members: list[str] = []
    for group in groups:
        members += clique_names(group)
    return members


def _check_all_unique(template: Field, cliques: list[Field], groups: list[Field]) -> None:
    """Note duplicate names of cliques, roles or scaling groups, and cliques in two groups."""
    where = template / "cliques"
    _check_unique(where, [clique / "name" for clique in cliques])
    roles = [clique / "spec" / "roleName" for clique in cliques]
    _check_unique(where, roles)

    where = template / "podCliqueScalingGroups"
    _check_unique(where, [group / "name" for group in groups])
    members: list[Field] = []
    for group in groups:
        members += (group / "cliqueNames").items()
    _check_unique(where, members)


def _check_name(part: Field, kind: str) -> None:
    field = part / "name"
    name = field.text()
    if not name:
        text = "field cannot be empty" if field else "Required value"
        field.error("grove/name", text, "name it")
    elif not NAME.fullmatch(name):
        text = f"invalid {kind} name, must be a valid DNS subdomain"
        field.error("grove/name", text, "use lower-case letters, digits and '-'")


def _check_unique(where: Field, fields: Iterable[Field]) -> None:
    """Note duplicate values. Grove reports each of them once, on the list."""
    earlier_values: set[str] = set()
    twice: dict[str, Field] = {}
    for field in fields:
        text = field.text() or ""
        if text in earlier_values:
            twice.setdefault(text, field)
        earlier_values.add(text)
    twice.pop("", None)
    if not twice:
        return
    first = next(iter(twice.values()))
    values = json.dumps(list(twice))
    fix = f"use each once in {where.path}"
    first.error("grove/unique", f"Duplicate value: {values}", fix)


def _check_length(root: Field, field: Field, *parts: tuple[str, str]) -> None:
    """Note names of set, scaling group and clique that are too long together."""
    length = 0
    named = []
    for kind, name in (("PodCliqueSet", name_of(root)), *parts):
        length += len(name)
        named.append(f"{kind} '{name}'")
    if length <= _MAX_NAME_CHARACTERS:
        return

    *others, last = named
    comma = "," if len(others) > 1 else ""
    text = (
        f"combined resource name length {length} exceeds {_MAX_NAME_CHARACTERS}-character limit "
        "required for pod naming. "
        f"Consider shortening: {', '.join(others)}{comma} or {last}"
    )
    field.error("grove/name-length", text, f"shorten them by {length - _MAX_NAME_CHARACTERS}")


def _check_clique(clique: Field, *, is_in_group: bool, is_new: bool) -> None:
    spec = clique / "spec"
    for name in ("roleName", "replicas", "podSpec"):
        required = spec / name
        if not required:
            required.error("grove/required", "Required value", "set it")

    replicas = clique_replicas(spec)
    _check_counts(spec, replicas)
    if spec / "autoScalingConfig":
        _check_scaling(spec, replicas, is_in_group=is_in_group)
    _check_env(spec / "podSpec")
    if not is_new:
        return
    for name in ("topologySpreadConstraints", "nodeName"):
        field = spec / "podSpec" / name
        if field and field.value != "":
            field.error("grove/pod-spec", "must not be set", _UNPLACED)


def _check_env(pod_spec: Field) -> None:
    """Note invalid or duplicate names of environment variables."""
    containers = [*(pod_spec / "containers").items(), *(pod_spec / "initContainers").items()]
    for container in containers:
        variables = list((container / "env").items())
        names = [variable / "name" for variable in variables]
        for name in names:
            text = name.text() or ""
            if not _ENV_NAME.fullmatch(text):
                message = f'"{text}" is not a valid name of an environment variable'
                name.error("grove/env", message, "use letters, digits, '_', '-' or '.'")
        _check_unique(container / "env", names)


def _check_counts(spec: Field, replicas: int) -> None:
    """Note wrong numbers of pods; `replicas` is the number after Grove's defaults."""
    written = spec / "replicas"
    minimum = spec / "minAvailable"
    if written.value == 0 and not minimum:
        text = "must be greater than 0: without it, Grove uses replicas as written (0)"
        minimum.error("grove/replicas", text, "set replicas: 1, or minAvailable: 1")
        return
    if written.value != 0:
        _positive(written, 1)
    least = _positive(minimum, replicas)
    _check_minimum(minimum, least, replicas)


def _check_scaling(spec: Field, replicas: int, *, is_in_group: bool) -> None:
    scale = spec / "autoScalingConfig"
    if is_in_group:
        text = (
            "AutoScalingConfig is not allowed to be defined for PodClique "
            "that is part of scaling group"
        )
        scale.error("grove/scaling", text, "scale the group: scaleConfig")
        return
    least = (scale / "minReplicas").number((spec / "replicas").number(1))
    if least < (spec / "minAvailable").number(replicas):
        text = "must be greater than or equal to podCliqueSpec.minAvailable"
        (scale / "minReplicas").error("grove/scaling", text, "raise it, or lower minAvailable")
    most = (scale / "maxReplicas").number(0)
    for bound, words in ((least, "podCliqueSpec.minReplicas"), (replicas, "replicas")):
        if most < bound:
            text = f"must be greater than or equal to {words}"
            (scale / "maxReplicas").error("grove/scaling", text, f"write {bound} or more")


def _positive(count: Field, default: int) -> int:
    """A count; Grove rejects zero and less."""
    value = count.value
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and value <= 0:
        count.error("grove/replicas", "must be greater than 0", "write 1 or more")
        return default
    return count.number(default)


def _check_minimum(field: Field, least: int, replicas: int) -> None:
    if least > replicas:
        text = "minAvailable must not be greater than replicas"
        field.error("grove/replicas", text, f"write {replicas} or less")


def _check_group(root: Field, group: Field, names: list[str]) -> None:
    _check_members(root, group, names)

    replicas = _positive(group / "replicas", 1)
    minimum = group / "minAvailable"
    least = _positive(minimum, 1)
    _check_minimum(minimum, least, replicas)

    scaling = group / "scaleConfig"
    if not scaling:
        return
    fewest = scaling / "minReplicas"
    if fewest.number(replicas) < least:
        text = "scaleConfig.minReplicas must be greater than or equal to minAvailable"
        fewest.error("grove/scaling", text, f"write {least} or more")


def _check_members(root: Field, group: Field, names: list[str]) -> None:
    group_name = (group / "name").text() or ""
    in_group = ("PodCliqueScalingGroup", group_name)
    for field in (group / "cliqueNames").items():
        clique = field.text() or ""
        if clique not in names:
            fix = did_you_mean(clique, names) or "define it in cliques"
            field.error("grove/clique-found", "unidentified PodClique names found", fix)
        _check_length(root, field, in_group, ("PodClique", clique))


def _check_order(where: Field, cliques: list[Field], names: list[str]) -> None:
    """Note errors in an explicit start order of cliques."""
    after: dict[str, set[str]] = {}
    for clique, name in zip(cliques, names, strict=True):
        starts_after = clique / "spec" / "startsAfter"
        for field in starts_after.items():
            _check_dependency(field, name, names)
        _check_unique(starts_after, starts_after.items())
        others = {field.text() or "" for field in starts_after.items()}
        others.discard(name)
        after[name] = others

    try:
        TopologicalSorter(after).prepare()
    except CycleError:
        text = "clique must not have circular dependencies"
        where.error("grove/starts-after", text, "remove the cycle in startsAfter")


def _check_dependency(field: Field, name: str, names: list[str]) -> None:
    dependency = field.text() or ""
    if dependency == name:
        text = "clique dependency cannot refer to itself"
        field.error("grove/starts-after", text, "remove it")
    elif dependency not in names:
        text = "unknown clique names found, all clique dependencies must be defined as cliques"
        field.error("grove/starts-after", text, did_you_mean(dependency, names))
