"""The verbs: one request in, one response out. Knows nothing of sockets.

Everything is allowed: authentication, authorization and admission are not simulated, and CEL rules
of CRDs are not evaluated. Deletion is immediate unless finalizers hold the object.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from toposcope.simulator.apiserver import fields, reads, requests, statuses
from toposcope.simulator.apiserver.requests import Request, Response, Route
from toposcope.simulator.apiserver.resources import (
    CRDS,
    Catalog,
    Resource,
    complete_crd,
    crd_resources,
)
from toposcope.simulator.apiserver.statuses import NoSuchPathError, Object, StatusError
from toposcope.simulator.apiserver.store import Store, Stored, stored
from toposcope.simulator.apiserver.views import View

_APPLY = "application/apply-patch+yaml"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
# Kept from the live object; clients cannot change them.
_SYSTEM_OWNED = (
    *(
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "namespace",
    ),
    *("resourceVersion", "name"),
)


class Api:
    """All resources of one server over one store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        new_uid: Callable[[], str],
        bookmark_interval: float,
    ) -> None:
        self.catalog = Catalog()
        self._store = store
        self._clock = clock
        self._new_uid = new_uid
        self._bookmark_interval = bookmark_interval
        self.load(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in _NAMESPACES
        )

    def load(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Store objects as they are, with `apiVersion` and `kind`; only what is missing in metadata is added."""
        for obj in objects:
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = self.catalog.by_kind(group, version, obj["kind"])
            fresh = {"uid": self._new_uid(), "creationTimestamp": self._now()}
            complete: Object = {**resource.zero, **obj, "metadata": {**fresh, **obj["metadata"]}}
            if resource.namespaced:
                complete["metadata"].setdefault("namespace", "default")
            if resource is CRDS:
                complete = copy.deepcopy(complete)
                complete_crd(complete, self._now())
            self._store.put(resource.storage, complete)
            if resource is CRDS:
                self.serve_crds()

    def handle(self, request: Request) -> Response:
        """Answer a request; failures become `Status` responses."""
        try:
            return self._dispatch(request)
        except NoSuchPathError:
            return Response(404, [b"404 page not found\n"], "text/plain; charset=utf-8")
        except StatusError as error:
            return Response.of(error)
        except Exception as error:  # noqa: BLE001 - a client must see a defect of this server, not a lost connection
            return Response.of(
                StatusError(500, "InternalError", f"Internal error occurred: {error!r}")
            )

    def _dispatch(self, request: Request) -> Response:
        parts = tuple(part for part in request.path.split("/") if part)
        document = self.catalog.document(parts)
        if document is not None:
            return Response(200, [msgspec.json.encode(document), b"\n"])
        route = self._route(parts)
        view = View.negotiate(request.headers.get("accept", ""), self._clock())
        match request.method, bool(route.name):
            case "GET", _ if request.flag("watch"):
                return reads.open_watch(
                    self._store, request, route, view, bookmark_interval=self._bookmark_interval
                )
            case "GET", True:
                return _respond(route, view, self._existing(route))
            case "GET", False:
                return reads.list_objects(self._store, request, route, view)
            case "DELETE", False:
                handler = self._delete_collection
            case "POST", False:
                handler = self._create
            case "PUT", True:
                handler = self._replace
            case "PATCH", True:
                handler = self._patch
            case "DELETE", True if not route.subresource:
                handler = self._delete
            case _:
                message = "the server does not allow this method on the requested resource"
                raise StatusError(405, "MethodNotAllowed", message, details={})
        with self._store.lock:
            return handler(request, route, view)

    def _route(self, parts: tuple[str, ...]) -> Route:
        match parts:
            case ("api", version, *rest):
                group = ""
            case ("apis", group, version, *rest):
                pass
            case _:
                raise NoSuchPathError
        namespace = ""
        # `namespaces/x/status` is a subresource of a namespace, `namespaces/x/pods` a collection in
        # it.
        if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):  # noqa: PLR2004
            namespace, rest = rest[1], rest[2:]
        if not rest:
            raise NoSuchPathError
        plural, name, subresource, *more = (*rest, "", "")[: max(3, len(rest))]
        resource = self.catalog.find(group, version, plural)
        if more or subresource not in ("", "status") or (subresource and not resource.status):
            raise statuses.not_served()
        if bool(namespace) and not resource.namespaced:
            raise statuses.not_served()
        return Route(resource, namespace, name, subresource)

    def _existing(self, route: Route) -> Stored:
        item = self._store.get(route.resource.storage, (route.namespace, route.name))
        if item is None:
            raise requests.not_found(route.resource, route.name)
        return item

    # Each of the writing verbs runs with the store locked.

    def _create(self, request: Request, route: Route, view: View) -> Response:
        obj = request.object()
        check_type(route.resource, obj)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("namespace", route.namespace) != route.namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise statuses.bad_request(message)
        name = metadata.get("name")
        if not name:
            cause = ("metadata.name", "Required value: name or generateName is required")
            raise requests.invalid(route.resource, "", [cause])
        if self._store.get(route.resource.storage, (route.namespace, name)):
            raise requests.already_exists(route.resource, name)
        obj = _untyped(obj)
        unknown = _settle(route.resource, obj)
        if route.resource.status and route.resource.plural != "nodes":
            obj.pop("status", None)
        route = replace(route, name=name)
        empty = {**route.resource.zero, "metadata": {}}
        owned = fields.update(
            empty, {**empty, **obj}, route.resource.schema, self._writer(request, route)
        )
        return _respond(route, view, self._save_new(request, route, owned), 201, unknown)

    def _save_new(self, request: Request, route: Route, obj: Object) -> Stored:
        resource = route.resource
        there = route.namespace and self._store.get("namespaces", ("", route.namespace))
        if resource.namespaced and not there:
            raise requests.not_found(self.catalog.find("", "v1", "namespaces"), route.namespace)
        metadata = obj["metadata"]
        for name in ("resourceVersion", "deletionTimestamp", "selfLink"):
            metadata.pop(name, None)
        metadata |= {"name": route.name, "uid": self._new_uid(), "creationTimestamp": self._now()}
        if resource.namespaced:
            metadata["namespace"] = route.namespace
        obj |= {alias: obj[name] for name, alias in resource.also.items() if name in obj}
        if resource.custom or resource is CRDS:
            metadata["generation"] = 1
        return self._save(request, route, obj)

    def _replace(self, request: Request, route: Route, view: View) -> Response:
        obj = request.object()
        check_type(route.resource, obj)
        live = self._existing(route).decode()
        _check_precondition(
            route, "UID", (obj.get("metadata") or {}).get("uid"), live["metadata"]["uid"]
        )
        guarded = route.resource.custom or route.resource.plural in ("leases", CRDS.plural)
        if guarded and not (obj.get("metadata") or {}).get("resourceVersion"):
            cause = (
                "metadata.resourceVersion",
                "Invalid value: 0: must be specified for an update",
            )
            raise requests.invalid(route.resource, route.name, [cause])
        return self._update(request, route, view, live, obj)

    def _patch(self, request: Request, route: Route, view: View) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind == _APPLY:
            return self._apply(request, route, view)
        patch = _PATCHES.get(kind)
        if patch is None:
            accepted = ", ".join((*_PATCHES, _APPLY))
            message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            raise StatusError(415, "UnsupportedMediaType", message)
        try:
            change = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            raise statuses.bad_request(f"error decoding patch: {error}") from None
        item = self._existing(route)
        obj = patch(item.decode(), change)
        if not isinstance(obj, dict):
            raise statuses.bad_request("error decoding patch: the result is not an object")
        return self._update(request, route, view, item.decode(), obj)

    def _update(
        self, request: Request, route: Route, view: View, live: Object, obj: Object
    ) -> Response:
        obj = _untyped(obj)
        unknown = _settle(route.resource, obj)
        new = _updated(route, live, obj)
        new = fields.update(live, new, route.resource.schema, self._writer(request, route))
        return _respond(route, view, self._save(request, route, new, live), 200, unknown)

    def _apply(self, request: Request, route: Route, view: View) -> Response:
        resource = route.resource
        if not request.query.get("fieldManager"):
            problem = "fieldManager: Required value: is required for apply patch"
            raise StatusError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {problem}')
        config = request.object()
        version, kind = config.get("apiVersion", ""), config.get("kind", "")
        if (version, kind) != (resource.group_version, resource.kind):
            version = version if "/" in version else f"/{version}"
            raise statuses.bad_request(f"invalid object type: {version}, Kind={kind}")
        config = _untyped(config)
        metadata = config.setdefault("metadata", {})
        if metadata.get("managedFields") is not None:
            raise statuses.bad_request("metadata.managedFields must be nil")
        writer, force = self._writer(request, route), request.flag("force")
        item = self._store.get(resource.storage, (route.namespace, route.name))
        if item is None:
            if route.subresource:
                raise requests.not_found(resource, route.name)
            if metadata.get("uid"):
                given = f"the provided object specified uid {metadata['uid']}"
                why = f"uid mismatch: {given}, and no existing object was found"
                raise requests.conflict(resource, route.name, why)
            obj = fields.apply(
                {**resource.zero, "metadata": {}}, config, resource.schema, writer, force=force
            )
            _settle(resource, obj)
            return _respond(route, view, self._save_new(request, route, obj), 201)
        live = item.decode()
        merged = fields.apply(live, config, resource.schema, writer, force=force)
        _settle(resource, merged)
        new = _updated(route, live, merged)
        new["metadata"]["managedFields"] = merged["metadata"].get("managedFields", [])
        return _respond(route, view, self._save(request, route, new, live))

    def _delete(self, request: Request, route: Route, view: View) -> Response:
        live = self._existing(route).decode()
        options = request.object() if request.body else {}
        for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            _check_precondition(
                route, label, (options.get("preconditions") or {}).get(name), live["metadata"][name]
            )
        if live["metadata"].get("finalizers"):
            return _respond(route, view, self._mark_deleted(request, route, live))
        if not request.dry:
            self._remove(route.resource, live)
        details = {"name": route.name, "group": route.resource.group, "kind": route.resource.plural}
        details = {key: value for key, value in details.items() if value} | {
            "uid": live["metadata"]["uid"]
        }
        success = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return Response(200, [msgspec.json.encode(success), b"\n"])

    def _delete_collection(self, request: Request, route: Route, view: View) -> Response:
        selects = reads.predicate(route.resource, request.query)
        revision, items = self._store.snapshot(route.resource.storage)
        within = (item for item in items if item.key[0] == (route.namespace or item.key[0]))
        chosen = [item for item in within if selects is None or selects(item)]
        for item in chosen if not request.dry else ():
            live = item.decode()
            if live["metadata"].get("finalizers"):
                self._mark_deleted(
                    request, replace(route, namespace=item.key[0], name=item.key[1]), live
                )
            else:
                self._remove(route.resource, live)
        return Response(200, view.many(route.resource, chosen, {"resourceVersion": str(revision)}))

    def _mark_deleted(self, request: Request, route: Route, live: Object) -> Stored:
        marks = {"deletionTimestamp": self._now(), "deletionGracePeriodSeconds": 0}
        return self._save(request, route, {**live, "metadata": {**marks, **live["metadata"]}}, live)

    def _remove(self, resource: Resource, obj: Object) -> None:
        self._store.remove(resource.storage, obj)
        if resource is CRDS:
            gone = f"{obj['spec']['names']['plural']}.{obj['spec']['group']}"
            for item in list(self._store.collection(gone).objects.values()):
                self._store.remove(gone, item.decode())
            self.serve_crds()

    def _save(
        self, request: Request, route: Route, obj: Object, live: Object | None = None
    ) -> Stored:
        """Check and store an object if it differs from the live one; a deleted one goes with its last finalizer."""
        resource, metadata = route.resource, obj["metadata"]
        if live is not None and obj == live:
            return self._existing(route)
        typed = {**obj, "apiVersion": "", "kind": ""}
        if resource.custom and (problems := list(fields.validate(typed, resource.schema))):
            raise requests.invalid(resource, route.name, problems)
        if resource is CRDS:
            complete_crd(obj, self._now())
        if request.dry:
            return stored(obj, int(live["metadata"]["resourceVersion"]) if live else 0)
        if (
            live is not None
            and metadata.get("deletionTimestamp")
            and not metadata.get("finalizers")
        ):
            self._remove(resource, obj)
            return stored(obj, self._store.revision)
        item = self._store.put(resource.storage, obj)
        if resource is CRDS:
            self.serve_crds()
        return item

    def serve_crds(self) -> None:
        """Serve the kinds of those CRDs that are stored."""
        crds = [item.decode() for item in self._store.collection(CRDS.storage).objects.values()]
        self.catalog.replace_custom(resource for crd in crds for resource in crd_resources(crd))

    def _writer(self, request: Request, route: Route) -> fields.Writer:
        """Who makes a request, for ownership: an endpoint does not own what it leaves alone."""
        program = request.headers.get("user-agent", "").partition("/")[0]
        name = (request.query.get("fieldManager") or program or "unknown")[:128]
        ignored: tuple[str, ...] = ()
        if route.subresource:
            ignored = ("spec", "metadata")
        elif route.resource.status and route.resource is not CRDS:
            ignored = ("status",)
        return fields.Writer(
            name, route.resource.group_version, self._now(), route.subresource, ignored
        )

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _respond(
    route: Route, view: View, item: Stored, code: int = 200, unknown: Iterable[str] = ()
) -> Response:
    warnings = [f'unknown field "{path}"' for path in unknown]
    return Response(code, [view.one(route.resource, item), b"\n"], warnings=warnings)


def _check_precondition(route: Route, label: str, given: str | None, live: str) -> None:
    if given not in (None, live):
        why = (
            f"Precondition failed: {label} in precondition: {given}, {label} in object meta: {live}"
        )
        raise requests.conflict(route.resource, route.name, why)


def check_type(resource: Resource, obj: Object) -> None:
    """Raise `StatusError` (400) when an object is not of the kind that its path names."""
    version, kind = (
        obj.get("apiVersion") or resource.group_version,
        obj.get("kind") or resource.kind,
    )
    if version != resource.group_version:
        message = (
            f"the API version in the data ({version}) does not match the expected API version "
        )
        raise statuses.bad_request(f"{message}({resource.group_version})")
    if kind != resource.kind:
        raise statuses.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        )


def _untyped(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def _settle(resource: Resource, obj: Object) -> list[str]:
    """Normalise an object sent by a client, in place; return the paths of dropped fields."""
    metadata = obj.setdefault("metadata", {})
    for name in [name for name, value in metadata.items() if value in (None, {}, [])]:
        del metadata[name]
    return fields.settle(obj, resource.schema) if resource.custom else []


def _updated(route: Route, live: Object, obj: Object) -> Object:
    """A new state of an existing object: what belongs to the server or to the other endpoint is as it was."""
    resource, now, metadata = route.resource, live["metadata"], dict(obj["metadata"])
    if metadata.get("name", route.name) != route.name:
        message = f"the name of the object ({metadata['name']}) does not match the name on the URL ({route.name})"
        raise statuses.bad_request(message)
    if metadata.get("uid", now["uid"]) != now["uid"]:
        cause = ("metadata.uid", f'Invalid value: "{metadata["uid"]}": field is immutable')
        raise requests.invalid(resource, route.name, [cause])
    if metadata.get("resourceVersion") not in (None, "", now["resourceVersion"]):
        raise requests.conflict(resource, route.name)
    metadata |= {key: now[key] for key in _SYSTEM_OWNED if key in now}
    other = live if route.subresource else obj
    new = {key: value for key, value in other.items() if key not in ("metadata", "status")}
    status = obj if route.subresource or not resource.status or resource is CRDS else live
    if "status" in status:
        new["status"] = status["status"]
    if route.subresource and resource.custom:
        metadata = dict(now)
    was = {key: value for key, value in live.items() if key not in ("metadata", "status")}
    is_now = {key: value for key, value in new.items() if key != "status"}
    if (resource.custom or resource is CRDS) and is_now != was:
        metadata["generation"] = now.get("generation", 0) + 1
    return {"metadata": metadata, **new}


# Patches


def _merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: maps merge, null deletes, everything else replaces.

    Does for kubectl's strategic merges too, whose `$` directives only order or guard what is sent
    besides.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif not key.startswith("$"):
            result[key] = _merge_patch(result.get(key), value)
    return result


def _json_patch(target: Any, patch: Any) -> Any:
    """RFC 6902 on fields of maps, without `copy` and `move`.

    Raises `StatusError`: 400 if malformed, 422 if unfit.
    """
    if not isinstance(patch, list) or not all(isinstance(step, dict) for step in patch):
        raise statuses.bad_request("error decoding patch: a JSON patch is a list of operations")
    root: dict[str, Any] = {"": copy.deepcopy(target)}  # a JSON pointer begins with an empty name
    try:
        for step in patch:
            parent: Any = root
            *above, name = (
                token.replace("~1", "/").replace("~0", "~") for token in step["path"].split("/")
            )
            for token in above:
                parent = parent[token]
            operation = step["op"]
            current = None if operation == "add" else parent[name]
            if operation == "remove":
                del parent[name]
            elif operation in ("add", "replace"):
                parent[name] = step["value"]
            elif operation != "test" or current != step["value"]:
                raise ValueError(step)  # noqa: TRY301 - one answer to every misfit
    except (KeyError, ValueError, TypeError):
        raise StatusError(
            422, "Invalid", "the server rejected our request due to an error in our request"
        ) from None
    return root[""]


_PATCHES: dict[str, Callable[[Any, Any], Any]] = {
    "application/merge-patch+json": _merge_patch,
    "application/strategic-merge-patch+json": _merge_patch,
    "application/json-patch+json": _json_patch,
}
