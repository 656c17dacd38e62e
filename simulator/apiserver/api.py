"""The verbs: one request in, one response out. Knows nothing of sockets.

Everything is allowed: authentication, authorization and admission are not simulated, and CEL rules of CRDs
are not evaluated. Deletion is immediate unless finalizers hold the object.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from simulator.apiserver import crds, patches, selectors, views, watch, writes
from simulator.apiserver.discovery import Catalog
from simulator.apiserver.errors import (
    ApiError,
    Cause,
    NoSuchPathError,
    already_exists,
    bad_request,
    conflict,
    expired,
    forbidden,
    invalid,
    not_found,
    not_served,
    required,
    wrong,
)
from simulator.apiserver.resources import CRDS, Resource
from simulator.apiserver.store import Store, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from simulator.apiserver.store import Stored
    from simulator.apiserver.views import View
    from simulator.apiserver.writes import Object, Target

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
# JSON escapes of a character outside the basic plane, which a YAML reader refuses.
_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_YES = ("1", "true", "t", "TRUE", "True", "T")


class _YamlLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: a timestamp stays text."""


_YamlLoader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """Whether a boolean query parameter is set, in any spelling Go accepts."""
        return self.query.get(name, "") in _YES


@dataclass(slots=True)
class Response:
    """What to send: `chunks` are the body, sent as they come when `stream` is set."""

    code: int
    chunks: Iterable[bytes]
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    stream: bool = False

    @classmethod
    def of(cls, error: ApiError) -> Response:
        """Answer with a `Status`."""
        return cls(error.code, [msgspec.json.encode(error.status), b"\n"], headers=error.headers)


@dataclass(frozen=True, slots=True)
class _Route:
    resource: Resource
    namespace: str
    name: str
    subresource: str


class Api:
    """All resources of one server over one store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        new_uid: Callable[[], str],
        new_suffix: Callable[[], str],
        bookmark_interval: float,
        max_watch: float,
    ) -> None:
        self.catalog = Catalog()
        self._store = store
        self._clock = clock
        self._new_uid = new_uid
        self._new_suffix = new_suffix
        self._bookmark_interval = bookmark_interval
        self._max_watch = max_watch
        for name in _NAMESPACES:
            self._create_object("namespaces", {"metadata": {"name": name}})

    def load(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Store objects as they are, with `apiVersion` and `kind`; only what is missing in metadata is added."""
        for obj in objects:
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = self.catalog.by_kind(group, version, obj["kind"])
            fresh = {"uid": self._new_uid(), "creationTimestamp": self._now()}
            complete: Object = {**resource.zero, **obj, "metadata": {**fresh, **obj["metadata"]}}
            if resource.namespaced:
                complete["metadata"].setdefault("namespace", "default")
            self._store.put(resource.storage, complete)
            if resource is CRDS:
                self._settle_crds()

    def handle(self, request: Request) -> Response:
        """Answer a request; failures become `Status` responses."""
        try:
            return self._dispatch(request)
        except NoSuchPathError:
            return Response(404, [b"404 page not found\n"], "text/plain; charset=utf-8")
        except ApiError as error:
            return Response.of(error)
        except Exception as error:  # noqa: BLE001 - a client must see a defect of this server, not a lost connection
            return Response.of(ApiError(500, "InternalError", f"Internal error occurred: {error!r}"))

    def _dispatch(self, request: Request) -> Response:
        parts = tuple(part for part in request.path.split("/") if part)
        if parts in (("healthz",), ("livez",), ("readyz",)):
            return Response(200, [b"ok"], "text/plain; charset=utf-8")
        document = self.catalog.document(parts)
        if document is not None:
            return Response(200, [msgspec.json.encode(document), b"\n"])
        route = self._route(parts)
        view = views.negotiate(request.headers.get("accept", ""), self._clock())
        match request.method, bool(route.name):
            case "GET", True if not request.flag("watch"):
                return self._respond(route, view, self._existing(route))
            case "GET", _:
                return self._watch(request, route, view) if request.flag("watch") else self._list(request, route, view)
            case "DELETE", False:
                return self._delete_collection(request, route, view)
            case "POST", False:
                handler = self._create
            case "PUT", True:
                handler = self._replace
            case "PATCH", True:
                handler = self._patch
            case "DELETE", True:
                handler = self._delete
            case _:
                message = "the server does not allow this method on the requested resource"
                raise ApiError(405, "MethodNotAllowed", message, details={})
        with self._store.lock:
            return handler(request, route, view)

    def _route(self, parts: tuple[str, ...]) -> _Route:
        match parts:
            case ("api", version, *rest):
                group = ""
            case ("apis", group, version, *rest):
                pass
            case _:
                raise NoSuchPathError
        namespace = ""
        # `namespaces/x/status` is a subresource of a namespace, `namespaces/x/pods` a collection in it.
        if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):  # noqa: PLR2004
            namespace, rest = rest[1], rest[2:]
        if not rest:
            raise NoSuchPathError
        plural, name, subresource, *more = (*rest, "", "")[: max(3, len(rest))]
        resource = self.catalog.find(group, version, plural)
        if more or subresource not in ("", "status") or (subresource and not resource.status):
            raise not_served()
        if bool(namespace) and not resource.namespaced:
            raise not_served()
        return _Route(resource, namespace, name, subresource)

    # Reading

    def _existing(self, route: _Route) -> Stored:
        item = self._store.get(route.resource.storage, (route.namespace, route.name))
        if item is None:
            raise not_found(route.resource.group, route.resource.plural, route.name)
        return item

    def _respond(
        self, route: _Route, view: View, item: Stored, code: int = 200, warnings: Iterable[str] = ()
    ) -> Response:
        return Response(code, [view.one(route.resource, item), b"\n"], warnings=list(warnings))

    def _list(self, request: Request, route: _Route, view: View) -> Response:
        limit = _whole(request, "limit")
        token = request.query.get("continue", "")
        if token:
            revision, start = _open_token(token)
            try:
                revision, items = self._store.snapshot(route.resource.storage, revision)
            except ApiError:
                raise expired(_EXPIRED_TOKEN) from None
            items = [item for item in items if item.key > start]
        else:
            revision, items = self._store.snapshot(route.resource.storage, self._wanted_revision(request))
        if route.namespace:
            items = [item for item in items if item.key[0] == route.namespace]
        selects = selectors.predicate(route.resource, request.query)
        if selects:
            items = [item for item in items if selects(item)]
        metadata: Object = {"resourceVersion": str(revision)}
        if 0 < limit < len(items):
            rest = len(items) - limit
            items = items[:limit]
            metadata["continue"] = _seal_token(revision, items[-1].key)
            if not selects:
                metadata["remainingItemCount"] = rest
        return Response(200, view.many(route.resource, items, metadata))

    def _wanted_revision(self, request: Request) -> int | None:
        """Return the revision a list must show exactly, None for the newest."""
        match = request.query.get("resourceVersionMatch", "")
        revision = _revision(request)
        if match and not request.query.get("resourceVersion"):
            raise _bad_options(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        self._store.check_reached(revision)
        return revision if match == "Exact" else None

    def _watch(self, request: Request, route: _Route, view: View) -> Response:
        initial_events = request.flag("sendInitialEvents")
        if initial_events and request.query.get("resourceVersionMatch") != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise _bad_options("resourceVersionMatch", why)
        query = {**request.query, "fieldSelector": f"metadata.name={route.name}"} if route.name else request.query
        wanted = watch.Watch(
            route.resource,
            view,
            selectors.predicate(route.resource, query),
            namespace=route.namespace,
            initial_events=initial_events,
            bookmarks=request.flag("allowWatchBookmarks"),
            bookmark_interval=self._bookmark_interval,
            timeout=_whole(request, "timeoutSeconds") or self._max_watch,
        )
        revision = _revision(request)
        storage = route.resource.storage
        with self._store.lock:
            if initial_events:
                self._store.check_reached(revision)
            if initial_events or not revision:
                revision, initial = self._store.snapshot(storage)
                return _stream(
                    watch.events(self._store, wanted, self._store.position(storage, revision), initial, revision)
                )
            try:
                position = self._store.position(storage, revision)
            except ApiError as error:
                return _stream(iter([msgspec.json.encode({"type": "ERROR", "object": error.status}) + b"\n"]))
            return _stream(watch.events(self._store, wanted, position, None, revision))

    # Writing; each of these runs with the store locked

    def _target(self, request: Request, route: _Route, name: str) -> Target:
        manager = (
            request.query.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0] or "unknown"
        )
        strict = request.query.get("fieldValidation") == "Strict"
        return writes.Target(
            route.resource, route.namespace, name, route.subresource, manager[:128], self._now(), strict
        )

    def _create(self, request: Request, route: _Route, view: View) -> Response:
        obj = _decode(request)
        _check_type(route.resource, obj)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("namespace", route.namespace) != route.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        name = metadata.get("name") or ""
        if not name and metadata.get("generateName"):
            name = metadata["generateName"] + self._new_suffix()
        target = self._target(request, route, name)
        if not name:
            target.failed([required("metadata.name", "name or generateName is required")])
        obj = writes.as_stored(route.resource, obj)
        warnings = writes.tidy(target, obj)
        self._check_namespace(route)
        if self._store.get(route.resource.storage, (route.namespace, name)):
            raise already_exists(route.resource.group, route.resource.plural, name)
        item = self._save(request, route, writes.created(target, obj, self._new_uid()))
        return self._respond(route, view, item, 201, warnings)

    def _replace(self, request: Request, route: _Route, view: View) -> Response:
        obj = _decode(request)
        _check_type(route.resource, obj)
        live = self._existing(route).decode()
        return self._update(request, route, view, live, obj, replaces=True)

    def _patch(self, request: Request, route: _Route, view: View) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind == _APPLY:
            return self._apply(request, route, view)
        patchers: dict[str, Callable[[Any, Any], Any]] = {_MERGE: patches.merge_patch, _JSON_PATCH: patches.json_patch}
        if not route.resource.custom:
            patchers[_STRATEGIC] = patches.strategic_merge_patch
        if kind not in patchers:
            accepted = ", ".join((*patchers, _APPLY))
            message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            raise ApiError(415, "UnsupportedMediaType", message)
        try:
            patch = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            raise bad_request(f"error decoding patch: {error}") from None
        item = self._existing(route)
        shown = views.typed(route.resource, item)
        obj = patchers[kind](shown, patch)
        if not isinstance(obj, dict):
            raise bad_request("error decoding patch: the result is no object")
        # A patch names a resourceVersion only to guard itself; without one it applies to whatever is there.
        return self._update(request, route, view, item.decode(), obj, replaces=False)

    def _update(
        self, request: Request, route: _Route, view: View, live: Object, obj: Object, *, replaces: bool
    ) -> Response:
        target = self._target(request, route, route.name)
        _check_name(route, obj)
        obj = writes.as_stored(route.resource, obj)
        warnings = writes.tidy(target, obj)
        new = writes.updated(target, live, obj, applied=False, replaces=replaces)
        return self._respond(route, view, self._save(request, route, new, live), 200, warnings)

    def _apply(self, request: Request, route: _Route, view: View) -> Response:
        resource = route.resource
        if not request.query.get("fieldManager"):
            raise _bad_options("fieldManager", "is required for apply patch", kind="PatchOptions", missing=True)
        config = _decode_yaml(request.body)
        version, kind = config.get("apiVersion", ""), config.get("kind", "")
        if (version, kind) != (resource.group_version, resource.kind):
            raise bad_request(f"invalid object type: {version if '/' in version else f'/{version}'}, Kind={kind}")
        _check_name(route, config)
        metadata = config.get("metadata") or {}
        if metadata.get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")
        target = self._target(request, route, route.name)
        force = request.flag("force")
        config = writes.as_stored(resource, config)
        item = self._store.get(resource.storage, (route.namespace, route.name))
        if item is None:
            if route.subresource:
                raise not_found(resource.group, resource.plural, route.name)
            if metadata.get("uid"):
                given = metadata["uid"]
                why = f"uid mismatch: the provided object specified uid {given}, and no existing object was found"
                raise conflict(resource.group, resource.plural, route.name, why)
            self._check_namespace(route)
            obj = writes.apply(target, {"metadata": {}, **resource.zero}, config, force=force)
            writes.tidy(target, obj)
            obj = writes.created(target, obj, self._new_uid(), applied=True)
            return self._respond(route, view, self._save(request, route, obj), 201)
        live = item.decode()
        obj = writes.apply(target, live, config, force=force)
        writes.tidy(target, obj)
        # The merge carries over the live resourceVersion; only the caller's own one is a precondition.
        new = writes.updated(target, live, obj, applied=True, replaces=False)
        return self._respond(route, view, self._save(request, route, new, live))

    def _delete(self, request: Request, route: _Route, view: View) -> Response:
        if route.subresource:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        item = self._existing(route)
        live = item.decode()
        self._check_preconditions(request, route, live)
        if live["metadata"].get("finalizers"):
            return self._respond(route, view, self._mark_deleted(request, route, live))
        if not _dry(request):
            self._remove(route.resource, live)
        details = {"name": route.name, "group": route.resource.group, "kind": route.resource.plural}
        details = {key: value for key, value in details.items() if value} | {"uid": live["metadata"]["uid"]}
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Response(200, [msgspec.json.encode(success), b"\n"])

    def _delete_collection(self, request: Request, route: _Route, view: View) -> Response:
        selects = selectors.predicate(route.resource, request.query)
        with self._store.lock:
            revision, items = self._store.snapshot(route.resource.storage)
            chosen = [
                item
                for item in items
                if item.key[0] == (route.namespace or item.key[0]) and (selects is None or selects(item))
            ]
            for item in chosen if not _dry(request) else ():
                live = item.decode()
                if live["metadata"].get("finalizers"):
                    self._mark_deleted(request, replace(route, namespace=item.key[0], name=item.key[1]), live)
                else:
                    self._remove(route.resource, live)
        return Response(200, view.many(route.resource, chosen, {"resourceVersion": str(revision)}))

    def _mark_deleted(self, request: Request, route: _Route, live: Object) -> Stored:
        marks = {"deletionTimestamp": self._now(), "deletionGracePeriodSeconds": 0}
        return self._save(request, route, {**live, "metadata": {**marks, **live["metadata"]}}, live)

    def _remove(self, resource: Resource, obj: Object) -> None:
        self._store.remove(resource.storage, obj)
        if resource is CRDS:
            gone = f"{obj['spec']['names']['plural']}.{obj['spec']['group']}"
            for item in list(self._store.collection(gone).objects.values()):
                self._store.remove(gone, item.decode())
            self._settle_crds()
        elif resource.storage == "namespaces":
            for storage, item in self._store.in_namespace(obj["metadata"]["name"]):
                self._store.remove(storage, item.decode())

    def _save(self, request: Request, route: _Route, obj: Object, live: Object | None = None) -> Stored:
        """Store an object if it differs from the live one; a deleted one goes with its last finalizer."""
        if live is not None and obj == live:
            return self._existing(route)
        if _dry(request):
            revision = int(live["metadata"]["resourceVersion"]) if live else 0
            return stored(obj, revision)
        metadata = obj["metadata"]
        if live is not None and metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._remove(route.resource, obj)
            return stored(obj, self._store.revision)
        item = self._store.put(route.resource.storage, obj)
        if route.resource is CRDS:
            self._settle_crds()
        return item

    def _settle_crds(self) -> None:
        """Recompute which definitions have their names, and serve those."""
        definitions = sorted(self._store.collection(CRDS.storage).objects.values(), key=lambda item: item.revision)
        current = {item.key: item.decode() for item in definitions}
        for key, crd in current.items():
            status = crds.status_of(crd, current.values(), self._now())
            if status != crd.get("status"):
                current[key] = self._store.put(CRDS.storage, {**crd, "status": status}).decode()
        self.catalog.replace_custom(resource for crd in current.values() for resource in crds.resources_of(crd))

    def _create_object(self, plural: str, obj: Object) -> None:
        resource = self.catalog.find("", "v1", plural)
        target = writes.Target(resource, "", obj["metadata"]["name"], "", "kube-apiserver", self._now())
        self._store.put(resource.storage, writes.created(target, obj, self._new_uid()))

    def _check_namespace(self, route: _Route) -> None:
        if not route.resource.namespaced:
            return
        if not route.namespace or self._store.get("namespaces", ("", route.namespace)) is None:
            raise not_found("", "namespaces", route.namespace)

    def _check_preconditions(self, request: Request, route: _Route, live: Object) -> None:
        options = _decode(request) if request.body else {}
        preconditions = options.get("preconditions") or {}
        for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            asked, found = preconditions.get(name), live["metadata"][name]
            if asked not in (None, found):
                why = f"Precondition failed: {label} in precondition: {asked}, {label} in object meta: {found}"
                raise conflict(route.resource.group, route.resource.plural, route.name, why)

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")


_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "  # noqa: S105 - no secret
    "the continue parameter."
)


def _stream(chunks: Iterator[bytes]) -> Response:
    return Response(200, chunks, stream=True)


def _dry(request: Request) -> bool:
    return request.query.get("dryRun") == "All"


def _whole(request: Request, name: str) -> int:
    text = request.query.get(name) or "0"
    if not text.isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


def _revision(request: Request) -> int:
    text = request.query.get("resourceVersion") or "0"
    if not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def _bad_options(name: str, why: str, *, kind: str = "ListOptions", missing: bool = False) -> ApiError:
    cause: Cause = required(name, why) if missing else forbidden(name, why)
    return invalid("meta.k8s.io", kind, "", [cause])


def _seal_token(revision: int, last: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode({"rv": revision, "start": last})).decode().rstrip("=")


def _open_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = content["start"]
        return content["rv"], (namespace, name)
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request("invalid continue token: continue key is not valid") from None


def _decode(request: Request) -> Object:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind in ("application/yaml", _APPLY):
        return _decode_yaml(request.body)
    if kind != "application/json":
        accepted = "application/json, application/yaml"
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise ApiError(415, "UnsupportedMediaType", message)
    try:
        obj = msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        raise bad_request(
            f"the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
        ) from None
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized: it is no JSON object")
    return obj


def _decode_yaml(body: bytes) -> Object:
    if _SURROGATE.search(body):
        problem = "found invalid Unicode character escape code"
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {problem}")
    try:
        obj = msgspec.json.decode(body)
    except msgspec.DecodeError:
        try:
            obj = yaml.load(body, _YamlLoader)  # noqa: S506 - a SafeLoader without timestamps
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {error}") from None
    if not isinstance(obj, dict):
        raise bad_request("error decoding YAML: the document is no map")
    return obj


def _check_type(resource: Resource, obj: Object) -> None:
    version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    if resource.custom and not (version and kind):
        what = "Kind" if not kind else "apiVersion"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object '{what}' is missing"
        )
    if version and version != resource.group_version:
        expected = resource.group_version
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({expected})"
        )
    if kind and kind != resource.kind:
        if resource.custom:
            name = (obj.get("metadata") or {}).get("name", "")
            raise invalid(resource.group, kind, name, [wrong("kind", kind, f"must be {resource.kind}")])
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}')


def _check_name(route: _Route, obj: Object) -> None:
    name = (obj.get("metadata") or {}).get("name") or route.name
    if name != route.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
