"""Who owns which field: `metadata.managedFields` through applies and updates (KEP-555)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver import fields
from toposcope.simulator.apiserver.errors import StatusError

if TYPE_CHECKING:
    from toposcope.simulator.apiserver.fields import Path, Paths
    from toposcope.simulator.apiserver.schema import Schema

_NEVER_OWNED: Paths = {("f:apiVersion",), ("f:kind",), ("f:metadata",)} | {
    ("f:metadata", f"f:{name}")
    for name in (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
    )
}


@dataclass(frozen=True, slots=True, order=True)
class Manager:
    """Identity of one managedFields entry; appliers are the same manager in every API version."""

    operation: str
    name: str
    version: str
    subresource: str = ""

    def __str__(self) -> str:
        """Return the way conflict messages name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.version}" if self.operation == "Update" else text


@dataclass(slots=True)
class _Claim:
    paths: Paths
    version: str
    time: str


@dataclass(frozen=True, slots=True)
class Writer:
    """The request as ownership sees it: `ignored` are the top-level fields this endpoint resets."""

    name: str
    version: str
    now: str
    subresource: str = ""
    ignored: tuple[str, ...] = ()

    def owns(self, path: Path) -> bool:
        """Whether this endpoint can change the field at all."""
        return path[0][2:] not in self.ignored


def apply(
    live: dict[str, Any],
    config: dict[str, Any],
    schema: Schema,
    writer: Writer,
    *,
    empty: dict[str, Any],
    force: bool,
) -> dict[str, Any]:
    """Merge an applied configuration into the live object.

    Fields that only this manager applied before and no longer lists are removed; a field that is listed,
    differs, and belongs to somebody else is a conflict (409) unless `force`. `empty` is an object of this kind
    with nothing set. Raises `TypedPatchError` and `StatusError`.
    """
    claims = _claims(live)
    if not claims and live.get("metadata", {}).get("uid"):
        # The object was last written by something that tracks nothing: its fields belong to a stand-in.
        stand_in = Manager("Update", "before-first-apply", writer.version, writer.subresource)
        there = fields.Difference(empty, live, schema).added
        owned = {path for path in there if writer.owns(path)} - _NEVER_OWNED
        claims = {stand_in: _Claim(owned, writer.version, writer.now)}
    me = Manager("Apply", writer.name, "", writer.subresource)
    before = claims.get(me)
    mine = {path for path in fields.field_set(config, schema) if writer.owns(path)}
    claims[me] = _Claim(mine, writer.version, before.time if before else writer.now)
    merged = fields.merge(live, config, schema)
    if before and before.paths:
        merged = _without_abandoned(merged, claims, before.paths, schema)
    change = fields.Difference(live, merged, schema)
    _settle(claims, me, change, writer, force=force)
    if me in claims:
        claims[me].paths -= _NEVER_OWNED
        if not claims[me].paths:
            del claims[me]
    if change.added or change.removed or change.modified:
        claims.get(me, _Claim(set(), "", "")).time = writer.now
    return _with_claims(merged, claims)


def update(live: dict[str, Any], new: dict[str, Any], schema: Schema, writer: Writer) -> dict[str, Any]:
    """Record a create, update or patch: what it changes is its own from now on, what it drops is nobody's."""
    given = new.get("metadata", {}).get("managedFields")
    claims = _claims(new if given and not writer.subresource else live)
    reset = given in ([], [{}])
    if reset or (not claims and live.get("metadata", {}).get("uid")):
        return _with_claims(new, {})
    try:
        change = fields.Difference(live, new, schema)
    except fields.TypedPatchError:
        # List items without their key: validation will say so, there is nothing to own yet.
        return _with_claims(new, {})
    me = Manager("Update", writer.name, writer.version, writer.subresource)
    _settle(claims, None, change, writer, force=True)
    gained = {path for path in change.modified | change.added if path and writer.owns(path)} - _NEVER_OWNED
    if gained:
        kept = claims[me].paths if me in claims else set()
        claims[me] = _Claim(kept | gained, writer.version, writer.now)
    return _with_claims(new, claims)


def _without_abandoned(merged: Any, claims: dict[Manager, _Claim], before: Paths, schema: Schema) -> Any:
    """Remove what the manager listed last time and nobody lists now."""
    owned = set().union(*(claim.paths for claim in claims.values()))
    if before <= owned:
        return merged  # whatever was removed would be added back

    def closed(paths: Paths) -> Paths:
        return fields.with_named_parents(paths, schema)

    everything = closed(fields.field_set(merged, schema))
    left = fields.without(merged, closed(before), schema)
    still_owned = fields.without(merged, everything - closed(fields.field_set(left, schema)) - closed(owned), schema)
    abandoned = everything - closed(fields.field_set(still_owned, schema))
    return fields.without(merged, abandoned & closed(before), schema)


def _settle(
    claims: dict[Manager, _Claim], me: Manager | None, change: fields.Difference, writer: Writer, *, force: bool
) -> None:
    """Take changed fields from their other owners, or refuse."""
    taken = {path for path in change.modified | change.added if path and writer.owns(path)}
    gone = {path for path in change.removed if path and writer.owns(path)}
    contested = {other: claim.paths & taken for other, claim in claims.items() if other != me}
    if not force and any(contested.values()):
        raise _conflict({other: paths for other, paths in contested.items() if paths})
    for other, paths in contested.items():
        claims[other].paths -= paths | gone
        if not claims[other].paths:
            del claims[other]


def _conflict(contested: dict[Manager, Paths]) -> StatusError:
    # The order of the managers' JSON form, in which a comma sorts before a closing brace.
    managers = sorted(contested, key=lambda m: (m.name, m.operation, m.version, not m.subresource))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": fields.printed(path)}
        for manager in managers
        for path in sorted(contested[manager], key=fields.reading_order)
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for manager in managers:
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {fields.printed(path)}" for path in sorted(contested[manager], key=fields.reading_order)]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", f"Apply failed with {text}", details={"causes": causes})


def _claims(obj: dict[str, Any]) -> dict[Manager, _Claim]:
    claims = {}
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        operation, version = entry.get("operation", "Update"), entry.get("apiVersion", "")
        manager = Manager(
            operation,
            entry.get("manager", ""),
            version if operation == "Update" else "",
            entry.get("subresource", ""),
        )
        claims[manager] = _Claim(fields.decode(entry.get("fieldsV1", {})), version, entry.get("time", ""))
    return claims


def _with_claims(obj: dict[str, Any], claims: dict[Manager, _Claim]) -> dict[str, Any]:
    """Copy of `obj` with `managedFields` written from `claims`, in the real server's order."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    entries = []
    for manager, claim in sorted(claims.items(), key=lambda item: (item[0].operation, item[1].time, item[0])):
        entry = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": claim.version,
            "time": claim.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields.encode(claim.paths),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}
