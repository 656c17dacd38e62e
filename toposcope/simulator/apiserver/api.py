"""The verbs: one request in, one response out. Knows nothing of sockets.

Everything is allowed: authentication, authorization and admission are not simulated, and CEL rules
of CRDs are not evaluated. Deletion is immediate unless finalizers hold the object.
"""

import copy
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from toposcope.simulator.apiserver import fields, reads, requests, statuses
from toposcope.simulator.apiserver.requests import HttpRequest, Response, Route
from toposcope.simulator.apiserver.resources import (
    CRDS,
    Catalog,
    ServedResource,
    complete_crd,
    crd_resources,
)
from toposcope.simulator.apiserver.statuses import NoSuchPathError, Object, StatusError
from toposcope.simulator.apiserver.store import Store, Stored, stored
from toposcope.simulator.apiserver.views import ObjectView

_APPLY = "application/apply-patch+yaml"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
# Kept from the live object; clients cannot change them.
_SYSTEM_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "resourceVersion",
    "name",
)
_MOST_MANAGER_CHARACTERS = 128  # characters of a field manager's name

_Handler = Callable[[HttpRequest, Route, ObjectView], Response]


class Api:
    """All resources of one server over one store, whose runtime gives the time and the uids."""

    def __init__(self, store: Store, *, bookmark_interval: float) -> None:
        self.catalog = Catalog()
        self._store = store
        self._runtime = store.runtime
        self._rng = store.runtime.rng()
        self._bookmark_interval = bookmark_interval
        self.load(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in _NAMESPACES
        )

    def load(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Store objects as they are, with what their metadata lacks filled in.

        Each has `apiVersion` and `kind`.
        """
        for obj in objects:
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = self.catalog.by_kind(group, version, obj["kind"])
            metadata = {
                "uid": self._new_uid(),
                "creationTimestamp": self._now(),
                **obj["metadata"],
            }
            if resource.is_namespaced:
                metadata.setdefault("namespace", "default")
            complete: Object = {**resource.zero, **obj, "metadata": metadata}

            if resource is CRDS:
                complete = copy.deepcopy(complete)
                complete_crd(complete, self._now())
            self._store.put(resource.storage, complete)
            if resource is CRDS:
                self.serve_crds()

    def handle(self, request: HttpRequest) -> Response:
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

    def _dispatch(self, request: HttpRequest) -> Response:
        parts = tuple(part for part in request.path.split("/") if part)
        document = self.catalog.document(parts)
        if document is not None:
            text = msgspec.json.encode(document)
            return Response(200, [text, b"\n"])

        route = _route(self.catalog, parts)
        accept = request.headers.get("accept", "")
        now = self._runtime.now()
        view = ObjectView.negotiate(accept, now)
        if request.method == "GET":
            return self._read(request, route, view)

        handler = self._handler(request.method, route)
        if handler is None:
            message = "the server does not allow this method on the requested resource"
            raise StatusError(
                405,
                "MethodNotAllowed",
                message,
                details={},
            )
        with self._store.lock:
            return handler(request, route, view)

    def _read(self, request: HttpRequest, route: Route, view: ObjectView) -> Response:
        if request.flag("watch"):
            return reads.open_watch(
                self._store, request, route, view, bookmark_interval=self._bookmark_interval
            )
        if route.name:
            return _respond(route, view, self._existing(route))
        return reads.list_objects(self._store, request, route, view)

    def _handler(self, method: str, route: Route) -> _Handler | None:
        """The method for a verb that writes, None where it is not allowed."""
        match method, bool(route.name):
            case "DELETE", False:
                return self._delete_collection
            case "POST", False:
                return self._create
            case "PUT", True:
                return self._replace
            case "PATCH", True:
                return self._patch
            case "DELETE", True if not route.subresource:
                return self._delete
        return None

    def _existing(self, route: Route) -> Stored:
        item = self._store.get(route.resource.storage, (route.namespace, route.name))
        if item is None:
            raise requests.not_found(route.resource, route.name)
        return item

    # Each of the writing verbs runs with the store locked.

    def _create(self, request: HttpRequest, route: Route, view: ObjectView) -> Response:
        resource = route.resource
        obj = request.object()
        check_type(resource, obj)
        metadata = obj.setdefault("metadata", {})
        namespace = metadata.get("namespace", route.namespace)
        if namespace != route.namespace:
            raise statuses.bad_request(
                "the namespace of the provided object does not match the namespace sent "
                "on the request"
            )
        name = metadata.get("name")
        if not name:
            cause = ("metadata.name", "Required value: name or generateName is required")
            raise requests.invalid(resource, "", [cause])
        key = (route.namespace, name)
        if self._store.get(resource.storage, key):
            raise requests.already_exists(resource, name)

        obj = _untyped(obj)
        unknown = _settle(resource, obj)
        if resource.has_status and resource.plural != "nodes":
            obj.pop("status", None)
        named_route = replace(route, name=name)
        empty = {**resource.zero, "metadata": {}}
        filled = {**empty, **obj}
        writer = self._writer(request, named_route)
        owned = fields.update(empty, filled, resource.schema, writer)
        item = self._save_new(request, named_route, owned)
        return _respond(named_route, view, item, code=201, unknown=unknown)

    def _save_new(self, request: HttpRequest, route: Route, obj: Object) -> Stored:
        resource = route.resource
        if resource.is_namespaced and not self._has_namespace(route.namespace):
            namespaces = self.catalog.find("", "v1", "namespaces")
            raise requests.not_found(namespaces, route.namespace)

        metadata = obj["metadata"]
        for name in ("resourceVersion", "deletionTimestamp", "selfLink"):
            metadata.pop(name, None)
        metadata["name"] = route.name
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = self._now()
        if resource.is_namespaced:
            metadata["namespace"] = route.namespace

        for name, alias in resource.also.items():
            if name in obj:
                obj[alias] = obj[name]
        if _counts_generations(resource):
            metadata["generation"] = 1
        return self._save(request, route, obj)

    def _has_namespace(self, name: str) -> bool:
        if not name:
            return False
        key = ("", name)
        return self._store.get("namespaces", key) is not None

    def _replace(self, request: HttpRequest, route: Route, view: ObjectView) -> Response:
        resource = route.resource
        obj = request.object()
        check_type(resource, obj)
        metadata = obj.get("metadata") or {}
        item = self._existing(route)
        live = item.decode()
        live_uid = live["metadata"]["uid"]
        uid = metadata.get("uid")
        _check_precondition(route, "UID", uid, live_uid)

        needs_version = resource.is_custom or resource.plural in ("leases", CRDS.plural)
        version = metadata.get("resourceVersion")
        if needs_version and not version:
            problem = "Invalid value: 0: must be specified for an update"
            cause = ("metadata.resourceVersion", problem)
            raise requests.invalid(resource, route.name, [cause])
        return self._update(request, route, view, live, obj)

    def _patch(self, request: HttpRequest, route: Route, view: ObjectView) -> Response:
        content_type = request.headers.get("content-type", "")
        kind, _, _ = content_type.partition(";")
        kind = kind.strip()
        if kind == _APPLY:
            return self._apply(request, route, view)
        patch = _PATCHES.get(kind)
        if patch is None:
            accepted = ", ".join((*_PATCHES, _APPLY))
            message = (
                "the body of the request was in an unknown format - "
                f"accepted media types include: {accepted}"
            )
            raise StatusError(415, "UnsupportedMediaType", message)

        try:
            change = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            raise statuses.bad_request(f"error decoding patch: {error}") from None
        item = self._existing(route)
        obj = patch(item.decode(), change)
        if not isinstance(obj, dict):
            raise statuses.bad_request("error decoding patch: the result is not an object")

        live = item.decode()
        return self._update(request, route, view, live, obj)

    def _update(
        self, request: HttpRequest, route: Route, view: ObjectView, live: Object, obj: Object
    ) -> Response:
        resource = route.resource
        obj = _untyped(obj)
        unknown = _settle(resource, obj)
        new = _updated(route, live, obj)
        writer = self._writer(request, route)
        owned = fields.update(live, new, resource.schema, writer)
        item = self._save(request, route, owned, live)
        return _respond(route, view, item, unknown=unknown)

    def _apply(self, request: HttpRequest, route: Route, view: ObjectView) -> Response:
        resource = route.resource
        if not request.query.get("fieldManager"):
            problem = "fieldManager: Required value: is required for apply patch"
            message = f'PatchOptions.meta.k8s.io "" is invalid: {problem}'
            raise StatusError(422, "Invalid", message)

        config = request.object()
        _check_applied_type(resource, config)
        config = _untyped(config)
        metadata = config.setdefault("metadata", {})
        if metadata.get("managedFields") is not None:
            raise statuses.bad_request("metadata.managedFields must be nil")

        key = (route.namespace, route.name)
        item = self._store.get(resource.storage, key)
        if item is None:
            created = self._apply_new(request, route, config)
            return _respond(route, view, created, code=201)

        live = item.decode()
        writer = self._writer(request, route)
        force = request.flag("force")
        merged = fields.apply(live, config, resource.schema, writer, force=force)
        _settle(resource, merged)
        new = _updated(route, live, merged)
        merged_metadata = merged["metadata"]
        managed = merged_metadata.get("managedFields", [])
        new["metadata"]["managedFields"] = managed
        saved = self._save(request, route, new, live)
        return _respond(route, view, saved)

    def _apply_new(self, request: HttpRequest, route: Route, config: Object) -> Stored:
        resource = route.resource
        if route.subresource:
            raise requests.not_found(resource, route.name)
        uid = config["metadata"].get("uid")
        if uid:
            why = (
                f"uid mismatch: the provided object specified uid {uid}, "
                "and no existing object was found"
            )
            raise requests.conflict(resource, route.name, why)

        empty = {**resource.zero, "metadata": {}}
        writer = self._writer(request, route)
        force = request.flag("force")
        obj = fields.apply(empty, config, resource.schema, writer, force=force)
        _settle(resource, obj)
        return self._save_new(request, route, obj)

    def _delete(self, request: HttpRequest, route: Route, view: ObjectView) -> Response:
        live = self._existing(route).decode()
        metadata = live["metadata"]
        options: Object = {}
        if request.body:
            options = request.object()
        preconditions = options.get("preconditions") or {}
        for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            expected = preconditions.get(name)
            _check_precondition(route, label, expected, metadata[name])

        if metadata.get("finalizers"):
            marked = self._mark_deleted(request, route, live)
            return _respond(route, view, marked)
        if not request.is_dry_run:
            self._remove(route.resource, live)

        details = requests.details(route.resource, route.name)
        success = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {**details, "uid": metadata["uid"]},
        }
        text = msgspec.json.encode(success)
        return Response(200, [text, b"\n"])

    def _delete_collection(self, request: HttpRequest, route: Route, view: ObjectView) -> Response:
        resource = route.resource
        selects = reads.predicate(resource, request.query)
        revision, items = self._store.snapshot(resource.storage)
        selected = []
        for item in items:
            namespace, _ = item.key
            if route.namespace and namespace != route.namespace:
                continue
            if selects is None or selects(item):
                selected.append(item)

        if not request.is_dry_run:
            for item in selected:
                self._delete_item(request, route, item)
        metadata = {"resourceVersion": str(revision)}
        chunks = view.many(resource, selected, metadata)
        return Response(200, chunks)

    def _delete_item(self, request: HttpRequest, route: Route, item: Stored) -> None:
        live = item.decode()
        if not live["metadata"].get("finalizers"):
            self._remove(route.resource, live)
            return
        namespace, name = item.key
        self._mark_deleted(request, replace(route, namespace=namespace, name=name), live)

    def _mark_deleted(self, request: HttpRequest, route: Route, live: Object) -> Stored:
        metadata = {
            "deletionTimestamp": self._now(),
            "deletionGracePeriodSeconds": 0,
            **live["metadata"],
        }
        return self._save(request, route, {**live, "metadata": metadata}, live)

    def _remove(self, resource: ServedResource, obj: Object) -> None:
        self._store.remove(resource.storage, obj)
        if resource is not CRDS:
            return

        spec = obj["spec"]
        group = spec["group"]
        plural = spec["names"]["plural"]
        storage = f"{plural}.{group}"
        collection = self._store.collection(storage)
        items = list(collection.objects.values())
        for item in items:
            self._store.remove(storage, item.decode())
        self.serve_crds()

    def _save(
        self, request: HttpRequest, route: Route, obj: Object, live: Object | None = None
    ) -> Stored:
        """Check and store an object if it differs from the live one.

        An object that was deleted goes with its last finalizer.
        """
        resource = route.resource
        if live is not None and obj == live:
            return self._existing(route)
        if resource.is_custom:
            _check_schema(route, obj)
        if resource is CRDS:
            complete_crd(obj, self._now())
        if request.is_dry_run:
            revision = int(live["metadata"]["resourceVersion"]) if live else 0
            return stored(obj, revision)
        if live is not None and _can_go(obj["metadata"]):
            self._remove(resource, obj)
            return stored(obj, self._store.revision)
        item = self._store.put(resource.storage, obj)
        if resource is CRDS:
            self.serve_crds()
        return item

    def serve_crds(self) -> None:
        """Serve the kinds of those CRDs that are stored."""
        resources: list[ServedResource] = []
        for item in self._store.collection(CRDS.storage).objects.values():
            resources += crd_resources(item.decode())
        self.catalog.replace_custom(resources)

    def _writer(self, request: HttpRequest, route: Route) -> fields.FieldWriter:
        """Who makes a request, for ownership: an endpoint does not own what it leaves alone."""
        program = request.headers.get("user-agent", "").partition("/")[0]
        name = request.query.get("fieldManager") or program or "unknown"
        ignored: tuple[str, ...] = ()
        if route.subresource:
            ignored = ("spec", "metadata")
        elif route.resource.has_status and route.resource is not CRDS:
            ignored = ("status",)
        return fields.FieldWriter(
            name=name[:_MOST_MANAGER_CHARACTERS],
            version=route.resource.group_version,
            now=self._now(),
            subresource=route.subresource,
            ignored=ignored,
        )

    def _now(self) -> str:
        return self._runtime.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def _new_uid(self) -> str:
        bits = self._rng.getrandbits(128)
        return str(uuid.UUID(int=bits, version=4))


def _route(catalog: Catalog, parts: tuple[str, ...]) -> Route:
    """What a path names.

    Raises `StatusError` (404) or `NoSuchPathError` where the real server does.
    """
    match parts:
        case ("api", version, *segments):
            group = ""
        case ("apis", group, version, *segments):
            pass
        case _:
            raise NoSuchPathError
    namespace, segments = _namespace(segments)
    if not segments:
        raise NoSuchPathError
    resource = catalog.find(group, version, segments[0])
    if namespace and not resource.is_namespaced:
        raise statuses.not_served()
    match segments[1:]:
        case []:
            return Route(resource, namespace, name="", subresource="")
        case [name]:
            return Route(resource, namespace, name, subresource="")
        case [name, "status"] if resource.has_status:
            return Route(resource, namespace, name, subresource="status")
    raise statuses.not_served()


def _namespace(parts: list[str]) -> tuple[str, list[str]]:
    """The namespace that a path below a group's root names, if any, and the rest of the path."""
    match parts:
        case ["namespaces", _, "status" | "finalize", *_]:  # a subresource of a namespace
            return "", parts
        case ["namespaces", namespace, collection, *rest]:
            return namespace, [collection, *rest]
    return "", parts


def _check_schema(route: Route, obj: Object) -> None:
    """Raise `StatusError` (422) for an object that its CRD's schema does not allow."""
    resource = route.resource
    typed = {**obj, "apiVersion": "", "kind": ""}
    problems = list(fields.validate(typed, resource.schema))
    if problems:
        raise requests.invalid(resource, route.name, problems)


def _can_go(metadata: Mapping[str, Any]) -> bool:
    """Whether an object was deleted and nothing holds it any more."""
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("finalizers")


def _respond(
    route: Route, view: ObjectView, item: Stored, *, code: int = 200, unknown: Iterable[str] = ()
) -> Response:
    body = view.one_object(route.resource, item)
    return Response(
        code,
        chunks=[body, b"\n"],
        warnings=[f'unknown field "{path}"' for path in unknown],
    )


def _check_precondition(route: Route, label: str, expected: str | None, live: str) -> None:
    if expected in (None, live):
        return
    why = (
        f"Precondition failed: {label} in precondition: {expected}, {label} in object meta: {live}"
    )
    raise requests.conflict(route.resource, route.name, why)


def check_type(resource: ServedResource, obj: Object) -> None:
    """Raise `StatusError` (400) when an object is not of the kind that its path names."""
    version = obj.get("apiVersion") or resource.group_version
    kind = obj.get("kind") or resource.kind
    if version != resource.group_version:
        raise statuses.bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({resource.group_version})"
        )
    if kind != resource.kind:
        raise statuses.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        )


def _check_applied_type(resource: ServedResource, config: Object) -> None:
    """The same of an applied configuration, which has to name its kind."""
    version = config.get("apiVersion", "")
    kind = config.get("kind", "")
    if version == resource.group_version and kind == resource.kind:
        return
    if "/" not in version:
        version = f"/{version}"
    raise statuses.bad_request(f"invalid object type: {version}, Kind={kind}")


def _untyped(obj: Object) -> Object:
    return _without(obj, "apiVersion", "kind")


def _settle(resource: ServedResource, obj: Object) -> list[str]:
    """Normalise an object sent by a client, in place; return the paths of dropped fields."""
    metadata = obj.setdefault("metadata", {})
    for name, value in list(metadata.items()):
        if value in (None, {}, []):
            del metadata[name]
    if not resource.is_custom:
        return []
    return fields.settle(obj, resource.schema)


def _updated(route: Route, live: Object, obj: Object) -> Object:
    """A new state of an existing object.

    What belongs to the server or to the other endpoint stays as it was.
    """
    resource = route.resource
    system: Object = live["metadata"]
    new_metadata: Object = obj["metadata"]
    _check_identity(route, system, new_metadata)
    content = live if route.subresource else obj
    new = _without(content, "metadata", "status")

    metadata = {**new_metadata, **_system_owned(system)}
    if route.subresource and resource.is_custom:
        metadata = dict(system)
    elif _counts_generations(resource):
        before = _without(live, "metadata", "status")
        if new != before:
            metadata["generation"] = system.get("generation", 0) + 1

    has_main_status = not resource.has_status or resource is CRDS
    status_source = obj if route.subresource or has_main_status else live
    if "status" in status_source:
        new["status"] = status_source["status"]
    return {"metadata": metadata, **new}


def _system_owned(metadata: Object) -> Object:
    return {key: metadata[key] for key in _SYSTEM_OWNED if key in metadata}


def _counts_generations(resource: ServedResource) -> bool:
    return resource.is_custom or resource is CRDS


def _check_identity(route: Route, system: Object, metadata: Object) -> None:
    """Raise `StatusError` if an update is meant for another object, or another state of it."""
    resource = route.resource
    name = metadata.get("name", route.name)
    if name != route.name:
        raise statuses.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({route.name})"
        )

    live_uid = system["uid"]
    uid = metadata.get("uid", live_uid)
    if uid != live_uid:
        cause = ("metadata.uid", f'Invalid value: "{uid}": field is immutable')
        raise requests.invalid(resource, route.name, [cause])

    version = metadata.get("resourceVersion")
    if version not in (None, "", system["resourceVersion"]):
        raise requests.conflict(resource, route.name)


def _without(obj: Object, *names: str) -> Object:
    return {key: value for key, value in obj.items() if key not in names}


# Patches


def _merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: maps merge, null deletes, everything else replaces.

    This does for kubectl's strategic merges, too: their `$` directives only order or guard what is
    sent besides.
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
    is_list = isinstance(patch, list)
    if not is_list or not all(isinstance(step, dict) for step in patch):
        raise statuses.bad_request("error decoding patch: a JSON patch is a list of operations")

    document = copy.deepcopy(target)
    root: dict[str, Any] = {"": document}  # a JSON pointer begins with an empty name
    try:
        for step in patch:
            _json_patch_step(root, step)
    except (KeyError, ValueError, TypeError):
        message = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", message) from None
    return root[""]


def _json_patch_step(root: dict[str, Any], step: Mapping[str, Any]) -> None:
    """Do one operation; raises KeyError, ValueError or TypeError if it does not fit."""
    *above, name = _pointer(step["path"])
    parent: Any = root
    for token in above:
        parent = parent[token]
    operation = step["op"]
    if operation == "add":
        parent[name] = step["value"]
        return
    current = parent[name]
    if operation == "remove":
        del parent[name]
    elif operation == "replace":
        parent[name] = step["value"]
    elif operation != "test" or current != step["value"]:
        raise ValueError(step)


def _pointer(text: str) -> list[str]:
    """The names of a JSON pointer (RFC 6901)."""
    names = []
    for token in text.split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        names.append(name)
    return names


_PATCHES: dict[str, Callable[[Any, Any], Any]] = {
    "application/merge-patch+json": _merge_patch,
    "application/strategic-merge-patch+json": _merge_patch,
    "application/json-patch+json": _json_patch,
}
