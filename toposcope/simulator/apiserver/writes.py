"""From what a request says to what is stored: completion, immutable fields, ownership, validation."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver import crds, events, meta, ownership
from toposcope.simulator.apiserver.errors import Cause, bad_request, conflict, invalid, wrong
from toposcope.simulator.apiserver.fields import TypedPatchError, typed_patch_error
from toposcope.simulator.apiserver.resources import CRDS, Resource
from toposcope.simulator.apiserver.schema import drop_nulls, fill_defaults, prune, validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toposcope.simulator.apiserver.requests import Object

# Kept from the live object whatever a client sends.
_SYSTEM_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a write goes and who makes it; `now` is RFC 3339 in UTC."""

    resource: Resource
    namespace: str
    name: str
    subresource: str
    manager: str
    now: str
    strict: bool = False

    @property
    def writer(self) -> ownership.Writer:
        """The same for ownership: an endpoint does not own what it resets."""
        resource = self.resource
        ignored: tuple[str, ...] = ()
        if self.subresource:
            ignored = ("spec", "metadata") if resource.custom else ("spec",)
        elif resource.status and resource is not CRDS:
            ignored = ("status",)
        return ownership.Writer(self.manager, resource.group_version, self.now, self.subresource, ignored)

    def failed(self, causes: list[Cause]) -> None:
        """Raise `StatusError` (422) when there are causes."""
        if causes:
            raise invalid(self.resource.group, self.resource.kind, self.name, causes)


def as_stored(resource: Resource, obj: Object) -> Object:
    """Drop the type and give fields the names under which they are stored."""
    return {resource.renamed.get(key, key): value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def tidy(target: Target, obj: Object, *, applied: bool = False) -> list[str]:
    """Normalise an object sent by a client, in place; return warnings about dropped fields.

    `applied` is the result of an apply, in which a null stays and is refused by the schema: also the null of a
    map or list that lost its last item to the apply.
    """
    resource = target.resource
    metadata = obj.setdefault("metadata", {})
    for name in ("labels", "annotations"):
        # Go decodes a null into the zero value of a string.
        entries = metadata.get(name) or {}
        metadata[name] = {key: "" if value is None else value for key, value in entries.items()}
    for name in [name for name, value in metadata.items() if value in (None, {}, [])]:
        del metadata[name]
    if not resource.custom:
        _check_labels(resource, metadata)
        _omit_empty(obj)
        return []
    unknown = prune(obj, resource.schema)
    if not applied:
        drop_nulls(obj, resource.schema)
    fill_defaults(obj, resource.schema)
    if unknown and target.strict:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        message = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{message}: strict decoding error: {listed}")
    return [f'unknown field "{path}"' for path in unknown]


def _omit_empty(value: Any) -> None:
    """Drop what Go leaves out (`omitempty`): empty lists and nulls, but not the zero time, which is null."""
    if isinstance(value, dict):
        for key in list(value):
            unset = value[key] is None and not key.endswith(("Time", "Timestamp"))
            if unset or value[key] == []:
                del value[key]
            else:
                _omit_empty(value[key])
    elif isinstance(value, list):
        for item in value:
            _omit_empty(item)


def _check_labels(resource: Resource, metadata: Object) -> None:
    for name in ("labels", "annotations"):
        for value in metadata.get(name, {}).values():
            if not isinstance(value, str):
                found = {bool: "bool", int: "number", float: "number", list: "array"}.get(type(value), "object")
                raise bad_request(
                    f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: '
                    f"cannot unmarshal {found} into Go struct field ObjectMeta.metadata.{name} of type string"
                )


def created(target: Target, obj: Object, uid: str, *, applied: bool = False) -> Object:
    """Complete and check a new object; `applied` says that its ownership is settled already."""
    resource = target.resource
    metadata = obj["metadata"]
    if resource.status and resource.plural != "nodes":
        obj.pop("status", None)
    if resource is CRDS:
        crds.complete(obj)
    obj = _with_zero_values(resource, obj)
    if not applied:
        obj = ownership.update(empty_of(resource), obj, resource.schema, target.writer)
        metadata = obj["metadata"]
    metadata.update(name=target.name, uid=uid, creationTimestamp=target.now)
    if resource.namespaced:
        metadata["namespace"] = target.namespace
    if resource.custom or resource is CRDS:
        metadata["generation"] = 1
    for name in ("resourceVersion", "deletionTimestamp", "selfLink"):
        metadata.pop(name, None)
    target.failed(list(_problems(resource, obj)))
    return obj


def empty_of(resource: Resource) -> Object:
    """Return an object with nothing set, as Go would write it."""
    return _with_zero_values(resource, {"metadata": {}})


def _with_zero_values(resource: Resource, obj: Object) -> Object:
    return {**obj, **{name: _filled(obj.get(name), copy.deepcopy(value)) for name, value in resource.zero.items()}}


def _filled(value: Any, zero: Any) -> Any:
    """Lay a value over its zero value, map by map."""
    if isinstance(zero, dict) and isinstance(value, dict):
        return {**value, **{name: _filled(value.get(name), part) for name, part in zero.items()}}
    return zero if value is None else value


def updated(target: Target, live: Object, obj: Object, *, applied: bool, replaces: bool) -> Object:
    """Complete and check a new state of an existing object; equal to `live` when nothing changes.

    `replaces` is a PUT, whose uid is a precondition (409) and not a change (422).
    """
    resource = target.resource
    now, metadata = live["metadata"], dict(obj["metadata"])
    if metadata.get("uid", now["uid"]) != now["uid"]:
        if replaces:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {now['uid']}"
            raise conflict(resource.group, resource.plural, target.name, why)
        target.failed([wrong("metadata.uid", metadata["uid"], "field is immutable")])
    given = metadata.pop("resourceVersion", None) or None
    if given is None and replaces and (resource.custom or resource.plural in ("leases", CRDS.plural)):
        cause = wrong("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.group, resource.plural, target.name, [cause])
    if given not in (None, now["resourceVersion"]):
        raise conflict(resource.group, resource.plural, target.name)
    metadata.update({key: now[key] for key in _SYSTEM_OWNED if key in now}, name=target.name)
    metadata["resourceVersion"] = now["resourceVersion"]
    obj = _reset(target, live, _with_zero_values(resource, {**obj, "metadata": metadata}))
    if resource is CRDS:
        crds.complete(obj)
    if not applied:
        obj = ownership.update(live, obj, resource.schema, target.writer)
    if (resource.custom or resource is CRDS) and _specified(resource, obj) != _specified(resource, live):
        obj["metadata"]["generation"] = now.get("generation", 0) + 1
    if obj != live:
        target.failed(list(_problems(resource, obj, live)))
    return obj


def _reset(target: Target, live: Object, obj: Object) -> Object:
    """Undo changes to fields that belong to the other endpoint."""
    if target.subresource:
        kept = {key: value for key, value in live.items() if key not in ("metadata", "status")}
        metadata = obj["metadata"]
        if target.resource.custom:
            metadata = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
            if "managedFields" in obj["metadata"]:
                metadata["managedFields"] = obj["metadata"]["managedFields"]
        status = {"status": obj["status"]} if "status" in obj else {}
        return {"metadata": metadata, **kept, **status}
    if target.resource.status:
        status = {"status": live["status"]} if "status" in live else {}
        return {**{key: value for key, value in obj.items() if key != "status"}, **status}
    return obj


def _specified(resource: Resource, obj: Object) -> Object:
    """Return the part of an object whose changes count as a new generation."""
    ignored = ("metadata", "status") if resource.status else ("metadata",)
    return {key: value for key, value in obj.items() if key not in ignored}


def _problems(resource: Resource, obj: Object, live: Object | None = None) -> Iterator[Cause]:
    yield from meta.check(obj["metadata"])
    if resource is CRDS:
        yield from crds.check(obj)
    elif resource.custom:
        yield from validate({"apiVersion": "", "kind": "", **obj}, resource.schema)
    elif resource.storage == "events":
        yield from events.check(obj, live, newer=bool(resource.group))


def apply(target: Target, live: Object, config: Object, *, force: bool) -> Object:
    """Merge an applied configuration into the live object (`{}`-like for none) with its ownership."""
    resource = target.resource
    gvk = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    try:
        return ownership.apply(live, config, resource.schema, target.writer, empty=empty_of(resource), force=force)
    except TypedPatchError as error:
        raise typed_patch_error(error, target.namespace, target.name, gvk) from None
