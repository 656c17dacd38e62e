"""The verbs: one request in, one response out. Knows nothing of sockets.

Everything is allowed: authentication, authorization and admission are not simulated, and CEL rules of CRDs
are not evaluated. Deletion is immediate unless finalizers hold the object.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from toposcope.simulator.apiserver import crds, patches, reads, selectors, views, writes
from toposcope.simulator.apiserver.discovery import Catalog
from toposcope.simulator.apiserver.errors import (
    NoSuchPathError,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    not_found,
    not_served,
    required,
)
from toposcope.simulator.apiserver.requests import (
    APPLY,
    Request,
    Response,
    Route,
    bad_options,
    check_name,
    check_type,
    decode,
    decode_yaml,
)
from toposcope.simulator.apiserver.resources import CRDS, Resource
from toposcope.simulator.apiserver.store import Store, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from toposcope.simulator.apiserver.requests import Object
    from toposcope.simulator.apiserver.store import Stored
    from toposcope.simulator.apiserver.views import View
    from toposcope.simulator.apiserver.writes import Target

_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


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
        except StatusError as error:
            return Response.of(error)
        except Exception as error:  # noqa: BLE001 - a client must see a defect of this server, not a lost connection
            return Response.of(StatusError(500, "InternalError", f"Internal error occurred: {error!r}"))

    def _dispatch(self, request: Request) -> Response:
        parts = tuple(part for part in request.path.split("/") if part)
        if parts in (("healthz",), ("livez",), ("readyz",)):
            return Response(200, [b"ok"], "text/plain; charset=utf-8")
        document = self.catalog.document(parts)
        if document is not None:
            return Response(200, [msgspec.json.encode(document), b"\n"])
        route = self._route(parts)
        view = self._view(request, route)
        match request.method, bool(route.name):
            case "GET", True if not request.flag("watch"):
                return self._respond(route, view, self._existing(route))
            case "GET", _:
                return self._read(request, route, view)
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
                raise StatusError(405, "MethodNotAllowed", message, details={})
        with self._store.lock:
            return handler(request, route, view)

    def _view(self, request: Request, route: Route) -> View:
        view = views.negotiate(request.headers.get("accept", ""), self._clock())
        if request.method == "GET" and not request.flag("watch"):
            view.check(route.resource, listed=not route.name)
        return view

    def _route(self, parts: tuple[str, ...]) -> Route:
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
        return Route(resource, namespace, name, subresource)

    def _read(self, request: Request, route: Route, view: View) -> Response:
        if not request.flag("watch"):
            return reads.list_objects(self._store, request, route, view)
        timing = {"bookmark_interval": self._bookmark_interval, "max_watch": self._max_watch}
        return reads.open_watch(self._store, request, route, view, **timing)

    def _existing(self, route: Route) -> Stored:
        item = self._store.get(route.resource.storage, (route.namespace, route.name))
        if item is None:
            raise not_found(route.resource.group, route.resource.plural, route.name)
        return item

    def _respond(
        self, route: Route, view: View, item: Stored, code: int = 200, warnings: Iterable[str] = ()
    ) -> Response:
        return Response(code, [view.one(route.resource, item), b"\n"], warnings=list(warnings))

    # Each of the writing verbs runs with the store locked.

    def _target(self, request: Request, route: Route, name: str) -> Target:
        manager = (
            request.query.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0] or "unknown"
        )
        strict = request.query.get("fieldValidation") == "Strict"
        return writes.Target(
            route.resource, route.namespace, name, route.subresource, manager[:128], self._now(), strict
        )

    def _create(self, request: Request, route: Route, view: View) -> Response:
        obj = decode(request)
        check_type(route.resource, obj)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("namespace", route.namespace) != route.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if metadata.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
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

    def _replace(self, request: Request, route: Route, view: View) -> Response:
        obj = decode(request)
        check_type(route.resource, obj)
        live = self._existing(route).decode()
        return self._update(request, route, view, live, obj, replaces=True)

    def _patch(self, request: Request, route: Route, view: View) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind == APPLY:
            return self._apply(request, route, view)
        patchers: dict[str, Callable[[Any, Any], Any]] = {_MERGE: patches.merge_patch, _JSON_PATCH: patches.json_patch}
        if not route.resource.custom:
            patchers[_STRATEGIC] = patches.strategic_merge_patch
        if kind not in patchers:
            accepted = ", ".join((*patchers, APPLY))
            message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            raise StatusError(415, "UnsupportedMediaType", message)
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
        self, request: Request, route: Route, view: View, live: Object, obj: Object, *, replaces: bool
    ) -> Response:
        target = self._target(request, route, route.name)
        check_name(route, obj)
        obj = writes.as_stored(route.resource, obj)
        warnings = writes.tidy(target, obj)
        new = writes.updated(target, live, obj, applied=False, replaces=replaces)
        return self._respond(route, view, self._save(request, route, new, live), 200, warnings)

    def _apply(self, request: Request, route: Route, view: View) -> Response:
        resource = route.resource
        if not request.query.get("fieldManager"):
            raise bad_options("fieldManager", "is required for apply patch", kind="PatchOptions", missing=True)
        config = decode_yaml(request.body)
        version, kind = config.get("apiVersion", ""), config.get("kind", "")
        if (version, kind) != (resource.group_version, resource.kind):
            raise bad_request(f"invalid object type: {version if '/' in version else f'/{version}'}, Kind={kind}")
        check_name(route, config)
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
            obj = writes.apply(target, writes.empty_of(resource), config, force=force)
            writes.tidy(target, obj, applied=True)
            obj = writes.created(target, obj, self._new_uid(), applied=True)
            return self._respond(route, view, self._save(request, route, obj), 201)
        live = item.decode()
        obj = writes.apply(target, live, config, force=force)
        writes.tidy(target, obj, applied=True)
        # The merge carries over the live resourceVersion; only the caller's own one is a precondition.
        new = writes.updated(target, live, obj, applied=True, replaces=False)
        return self._respond(route, view, self._save(request, route, new, live))

    def _delete(self, request: Request, route: Route, view: View) -> Response:
        if route.subresource:
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
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

    def _delete_collection(self, request: Request, route: Route, view: View) -> Response:
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

    def _mark_deleted(self, request: Request, route: Route, live: Object) -> Stored:
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

    def _save(self, request: Request, route: Route, obj: Object, live: Object | None = None) -> Stored:
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

    def _check_namespace(self, route: Route) -> None:
        if not route.resource.namespaced:
            return
        if not route.namespace or self._store.get("namespaces", ("", route.namespace)) is None:
            raise not_found("", "namespaces", route.namespace)

    def _check_preconditions(self, request: Request, route: Route, live: Object) -> None:
        options = decode(request) if request.body else {}
        preconditions = options.get("preconditions") or {}
        for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            asked, found = preconditions.get(name), live["metadata"][name]
            if asked not in (None, found):
                why = f"Precondition failed: {label} in precondition: {asked}, {label} in object meta: {found}"
                raise conflict(route.resource.group, route.resource.plural, route.name, why)

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _dry(request: Request) -> bool:
    return request.query.get("dryRun") == "All"
