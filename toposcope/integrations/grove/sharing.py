"""Resource claims that pods of a PodCliqueSet share.

An entry of `resourceSharing` on the set, a scaling group or a clique names a template; Grove
creates claims from it that all pods below share, for each replica or for all of them. Rules and
messages: Grove's webhook, main of 2026-08-19 (podcliqueset.go: validateResourceSharingSpecs).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.constraints import ClaimRef
from toposcope.integrations.framework.document import Field, namespace_of
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.grove.api import clique_names

_RULE: Final = "grove/resource-sharing"
_SCOPES: Final = ("AllReplicas", "PerReplica")


@dataclass(frozen=True, slots=True)
class _Sharer:
    """The set, a scaling group or a clique, with the cliques and scaling groups below it."""

    field: Field
    """Its `resourceSharing`."""
    cliques: Collection[str]
    groups: Mapping[str, Collection[str]]
    """The cliques of each scaling group."""
    has_filter: bool = True


def _sharers(template: Field) -> Iterator[_Sharer]:
    cliques = []
    for clique in (template / "cliques").items():
        cliques.append((clique / "name").text() or clique.path)
    groups = {}
    for group in (template / "podCliqueScalingGroups").items():
        groups[(group / "name").text() or group.path] = clique_names(group)

    yield _Sharer(template / "resourceSharing", cliques, groups)
    for name, clique in zip(cliques, (template / "cliques").items(), strict=True):
        yield _Sharer(clique / "resourceSharing", (name,), {}, has_filter=False)
    for group in (template / "podCliqueScalingGroups").items():
        yield _Sharer(group / "resourceSharing", clique_names(group), {})


def check_sharing(root: Field) -> None:
    """Note what Grove rejects in shared claims and their templates."""
    template = root / "spec" / "template"
    templates = _check_templates(template / "resourceClaimTemplates")
    for sharer in _sharers(template):
        _check_entries(sharer, templates)


def _check_templates(field: Field) -> set[str]:
    """The names of the templates in the set. Records their errors as findings."""
    names: set[str] = set()
    for template in field.items():
        name = (template / "name").text()
        if name is None:
            (template / "name").error(_RULE, "template name is required", "name it")
        elif name in names:
            (template / "name").error(_RULE, f'Duplicate value: "{name}"', "rename one")
        requests = template / "templateSpec" / "spec" / "devices" / "requests"
        if not requests.value:
            requests.error(_RULE, "at least one device request is required", "add a request")
        names.add(name or "")
    return names


def _check_entries(sharer: _Sharer, templates: Collection[str]) -> None:
    earlier_names: set[str] = set()
    for entry in sharer.field.items():
        field = entry / "name"
        name = field.text()
        if name is None:
            field.error(_RULE, "reference name is required", "name a ResourceClaimTemplate")
        elif name in earlier_names:
            field.error(_RULE, f'Duplicate value: "{name}"', "remove one")
        namespace = entry / "namespace"
        if namespace.text() and name in templates:
            text = "namespace must be empty when name matches an internal resourceClaimTemplate"
            namespace.error(_RULE, text, "remove it")
        _check_scope(entry / "scope")
        if sharer.has_filter:
            _check_filter(entry / "filter", sharer)
        earlier_names.add(name or "")


def _check_scope(scope: Field) -> None:
    if scope.text() in _SCOPES:
        return
    supported = ", ".join(f'"{each}"' for each in _SCOPES)
    text = f'Unsupported value: "{scope.value or ""}": supported values: {supported}'
    scope.error(_RULE, text, "set one of them")


def _check_filter(chosen: Field, sharer: _Sharer) -> None:
    if not chosen:
        return
    cliques = list((chosen / "childCliqueNames").items())
    groups = list((chosen / "childScalingGroupNames").items())
    if not (cliques or groups):
        text = "filter must specify at least one childCliqueNames or childScalingGroupNames entry"
        chosen.error(_RULE, text, "name one, or remove the filter")
    for fields, allowed_names in ((cliques, sharer.cliques), (groups, sharer.groups)):
        for field in fields:
            name = field.text() or ""
            if name not in allowed_names:
                field.error(_RULE, f'Not found: "{name}"', did_you_mean(name, allowed_names))


def shared_claims(root: Field) -> Mapping[str, tuple[ClaimRef, ...]]:
    """The claims that the pods of each clique share with others."""
    own = namespace_of(root)
    claims: dict[str, dict[ClaimRef, None]] = {}
    for sharer in _sharers(root / "spec" / "template"):
        for entry in sharer.field.items():
            name = (entry / "name").text() or entry.path
            namespace = (entry / "namespace").text() or own
            ref = ClaimRef("ResourceClaim", namespace, name)
            for clique in _sharing(entry / "filter", sharer):
                claims.setdefault(clique, {})[ref] = None
    return {clique: tuple(refs) for clique, refs in claims.items()}


def _sharing(chosen: Field, sharer: _Sharer) -> Collection[str]:
    """The cliques to which an entry applies: all without a filter."""
    if not chosen:
        return sharer.cliques
    names: set[str] = set()
    for field in (chosen / "childCliqueNames").items():
        names.add(field.text() or "")
    for field in (chosen / "childScalingGroupNames").items():
        names.update(sharer.groups.get(field.text() or "", ()))
    return names
