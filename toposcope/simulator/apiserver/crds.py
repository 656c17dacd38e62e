"""CustomResourceDefinitions: are their names free, and what resources do they add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.errors import Cause, required, wrong
from toposcope.simulator.apiserver.resources import AGE, Column, Resource, object_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def complete(crd: dict[str, Any]) -> None:
    """Fill in what the server derives: singular and list kind, the conversion strategy."""
    names = crd.setdefault("spec", {}).setdefault("names", {})
    if "kind" in names:
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    crd["spec"].setdefault("conversion", {"strategy": "None"})


def check(crd: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with a definition, as far as the schemas' own correctness is not concerned."""
    spec = crd["spec"]
    names, versions = spec["names"], spec.get("versions") or []
    for path, value in (("group", spec.get("group")), ("scope", spec.get("scope")), ("versions", versions)):
        if not value:
            yield required(f"spec.{path}")
    for name in ("plural", "kind"):
        if not names.get(name):
            yield required(f"spec.names.{name}")
    if crd["metadata"]["name"] != f"{names.get('plural')}.{spec.get('group')}":
        yield wrong("metadata.name", crd["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
    if versions and sum(bool(version.get("storage")) for version in versions) != 1:
        yield wrong("spec.versions", len(versions), "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")


def status_of(crd: Mapping[str, Any], others: Iterable[Mapping[str, Any]], now: str) -> dict[str, Any]:
    """Compute `status`: names that another CRD of the group holds are not accepted (naming_controller.go)."""
    spec, old = crd["spec"], crd.get("status") or {}
    wanted, accepted = spec["names"], dict(old.get("acceptedNames") or {})
    taken = _taken_names(crd, others)
    problem = ("", "")
    for field in ("plural", "singular", "shortNames", "kind", "listKind"):
        names = wanted.get(field, [])
        listed = names if isinstance(names, list) else [names]
        mine = accepted.get(field, [])
        held = mine if isinstance(mine, list) else [mine]
        clashes = [name for name in listed if name not in held and name in taken[field in ("kind", "listKind")]]
        if clashes:
            message = ", ".join(f'"{name}" is already in use' for name in clashes)
            problem = (f"{field[0].upper()}{field[1:]}Conflict", message if len(clashes) == 1 else f"[{message}]")
        elif names:
            accepted[field] = names
    if "categories" in wanted:
        accepted["categories"] = wanted["categories"]
    was_established = any(c["type"] == "Established" and c["status"] == "True" for c in old.get("conditions") or ())
    conditions = [
        _condition(
            "NamesAccepted", ("False", *problem) if problem[0] else ("True", "NoConflicts", "no conflicts found")
        ),
        _condition(
            "Established",
            ("False", "NotAccepted", "not all names are accepted")
            if problem[0] and not was_established
            else ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        ),
    ]
    for condition in conditions:
        before = next((c for c in old.get("conditions") or () if c["type"] == condition["type"]), None)
        same = before is not None and before["status"] == condition["status"]
        condition["lastTransitionTime"] = before["lastTransitionTime"] if before and same else now
    versions = {version["name"] for version in spec["versions"] if version.get("storage")}
    kept = [name for name in old.get("storedVersions") or () if name not in versions]
    return {"acceptedNames": accepted, "conditions": conditions, "storedVersions": [*kept, *sorted(versions)]}


def _taken_names(crd: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> tuple[set[str], set[str]]:
    """Return resource names and kinds that the group's other CRDs hold."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != crd["spec"]["group"] or other["metadata"]["name"] == crd["metadata"]["name"]:
            continue
        held = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {held.get("plural", ""), held.get("singular", ""), *held.get("shortNames", ())}
        kinds |= {held.get("kind", ""), held.get("listKind", "")}
    return resources, kinds


def _condition(kind: str, state: tuple[str, str, str]) -> dict[str, str]:
    status, reason, message = state
    return {"type": kind, "status": status, "reason": reason, "message": message}


def resources_of(crd: Mapping[str, Any]) -> list[Resource]:
    """List what an established definition adds, one resource for each served version."""
    established = {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions", ())}.get("Established")
    if established != "True":
        return []
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    return [
        Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames", ())),
            categories=tuple(names.get("categories", ())),
            singular=names["singular"],
            list_kind=names["listKind"],
            status="status" in (version.get("subresources") or {}),
            custom=True,
            schema=object_schema(version["schema"]["openAPIV3Schema"]),
            columns=_columns(version.get("additionalPrinterColumns")),
            selectable=tuple(entry["jsonPath"].lstrip(".") for entry in version.get("selectableFields") or ()),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _columns(listed: list[dict[str, Any]] | None) -> tuple[Column, ...]:
    if not listed:
        return (AGE,)
    return tuple(
        Column(c["name"], c["type"], c["jsonPath"], c.get("priority", 0) > 0, c.get("description", "")) for c in listed
    )
