"""What the API server and its webhooks say of an object, asked by a dry run.

A dry run does everything but store the object, as `kubectl apply --server-side --dry-run=server`
does. An object that does not exist yet is created, so that webhooks see a creation and unknown
fields are named. An existing one is applied by kubectl's field manager, by force: other owners of a
field (a controller, an earlier client-side apply) are no reason to refuse a workload.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from toposcope.kube.client import APPLY, Caller, Request, find
from toposcope.kube.errors import ApiError
from toposcope.text import compact

_DRY: Final = {"dryRun": "All", "fieldManager": "kubectl", "fieldValidation": "Strict"}
_BY_SERVER: Final = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""Metadata that the server sets: files of `kubectl get -o yaml` have it."""
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "([^"]+)"')
_RBAC: Final = re.compile(r'is forbidden: User "[^"]*" cannot (\w+) resource ')
_NO_DRY_RUN: Final = "does not support dry run"
_WEBHOOK: Final = "admission webhook "


@dataclass(frozen=True, slots=True)
class Remark:
    """What the server says of one field (empty: of the object).

    `is_refused` is False where it could not be asked.
    """

    field: str
    message: str
    is_refused: bool = True


class _Resource(NamedTuple):
    plural: str
    is_namespaced: bool


class DryRun:
    """Asks one server; what it serves is looked up once for each API version."""

    def __init__(self, client: Caller, namespace: str) -> None:
        """`namespace` is that of objects that name none."""
        self._client = client
        self._namespace = namespace
        self._served: dict[str, dict[str, _Resource]] = {}

    def ask(self, document: Mapping[str, Any]) -> tuple[Remark, ...]:
        """The objections of the server; empty if it would accept the object.

        Raises KubeError if there is no answer.
        """
        version = str(document.get("apiVersion") or "")
        kind = str(document.get("kind") or "")
        if not version or not kind:
            return ()
        resource = self._kinds(version).get(kind)
        if resource is None:
            message = f"the server has no {kind} of {version}; is its CRD installed?"
            return (Remark("kind", message),)
        body = _plain(document)
        path = _root(version)
        if resource.is_namespaced:
            namespace = body["metadata"].get("namespace") or self._namespace
            path += f"/namespaces/{namespace}"
        try:
            self._send(f"{path}/{resource.plural}", body)
        except ApiError as error:
            return tuple(_remarks(error))
        return ()

    def _kinds(self, version: str) -> dict[str, _Resource]:
        """What is served in a version, by kind."""
        if version not in self._served:
            answer = find(self._client, _root(version)) or {}
            resources = {}
            for resource in answer.get("resources") or ():
                plural = str(resource.get("name", "/"))
                if "/" in plural:
                    continue  # a subresource
                kind = str(resource.get("kind"))
                is_namespaced = bool(resource.get("namespaced"))
                resources[kind] = _Resource(plural, is_namespaced)
            self._served[version] = resources
        return self._served[version]

    def _send(self, path: str, body: dict[str, Any]) -> None:
        content = compact(body).encode()
        name = body["metadata"].get("name")
        object_path = f"{path}/{name}"
        if name and find(self._client, object_path) is not None:
            query = {**_DRY, "force": "true"}
            request = Request("PATCH", object_path, query, content, APPLY)
        else:
            request = Request("POST", path, _DRY, content)
        self._client.call(request)


def _root(version: str) -> str:
    prefix = "apis" if "/" in version else "api"
    return f"/{prefix}/{version}"


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what the server sets."""
    metadata = document.get("metadata")
    plain = dict(metadata) if isinstance(metadata, dict) else {}
    for field in _BY_SERVER:
        plain.pop(field, None)
    return {**document, "metadata": plain}


def _remarks(error: ApiError) -> Iterator[Remark]:
    forbidden = _RBAC.search(error.message) if error.is_forbidden else None
    unknown_fields = _UNKNOWN_FIELD.findall(error.message)
    if forbidden:
        text = (
            f"these credentials may not {forbidden[1]} it, so the API server was not asked; "
            f"ask an admin for the verbs get, create and patch ({error.message})"
        )
        yield Remark("", text, is_refused=False)
    elif _NO_DRY_RUN in error.message:
        yield Remark("", f"the API server cannot be asked: {error.message}", is_refused=False)
    elif unknown_fields:
        for field in dict.fromkeys(unknown_fields):
            yield Remark(field, "API server: unknown field")
    elif error.causes and not error.message.startswith(_WEBHOOK):
        for field, message in error.causes:
            yield Remark(field, f"API server: {message}")
    else:
        field = error.causes[0][0] if error.causes else ""
        yield Remark(field, f"API server: {error.message}")
