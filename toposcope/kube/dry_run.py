"""What the API server and its webhooks say of an object, asked by a dry run.

Everything is done but storing it. As `kubectl apply --server-side --dry-run=server` does it. An
object that is not there yet is created, so that webhooks see a creation and unknown fields are
named; one that is there is applied by kubectl's field manager, by force: other owners of a field (a
controller, an earlier client-side apply) are no reason to refuse a workload.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

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

    `refused` is False where it could not be asked.
    """

    field: str
    message: str
    refused: bool = True


class DryRun:
    """Asks one server; what it serves is looked up once for each API version."""

    def __init__(self, client: Caller, namespace: str) -> None:
        """`namespace` is that of objects that name none."""
        self._client = client
        self._namespace = namespace
        self._served: dict[str, dict[str, tuple[str, bool]]] = {}

    def ask(self, document: Mapping[str, Any]) -> tuple[Remark, ...]:
        """What it objects to; empty where it would take the object.

        Raises KubeError if there is no answer.
        """
        version, kind = str(document.get("apiVersion") or ""), str(document.get("kind") or "")
        if not version or not kind:
            return ()
        resource = self._kinds(version).get(kind)
        if resource is None:
            return (
                Remark("kind", f"the server has no {kind} of {version}; is its CRD installed?"),
            )
        body = _plain(document)
        plural, namespaced = resource
        inside = (
            f"/namespaces/{body['metadata'].get('namespace') or self._namespace}"
            if namespaced
            else ""
        )
        path = f"{_root(version)}{inside}/{plural}"
        try:
            self._send(path, body)
        except ApiError as error:
            return tuple(_remarks(error))
        return ()

    def _kinds(self, version: str) -> dict[str, tuple[str, bool]]:
        """Plural name, and whether it is in namespaces, of each kind."""
        if version not in self._served:
            listed = find(self._client, _root(version)) or {}
            self._served[version] = {
                str(resource.get("kind")): (str(resource["name"]), bool(resource.get("namespaced")))
                for resource in listed.get("resources") or ()
                if "/" not in str(resource.get("name", "/"))
            }
        return self._served[version]

    def _send(self, path: str, body: dict[str, Any]) -> None:
        name = body["metadata"].get("name")
        if name and find(self._client, f"{path}/{name}") is not None:
            query = {**_DRY, "force": "true"}
            self._client.call(
                Request("PATCH", f"{path}/{name}", query, compact(body).encode(), APPLY)
            )
        else:
            self._client.call(Request("POST", path, _DRY, compact(body).encode()))


def _root(version: str) -> str:
    return f"/{'apis' if '/' in version else 'api'}/{version}"


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    kept = (
        {key: value for key, value in metadata.items() if key not in _BY_SERVER}
        if isinstance(metadata, dict)
        else {}
    )
    return {**document, "metadata": kept}


def _remarks(error: ApiError) -> Iterator[Remark]:
    if error.forbidden and (match := _RBAC.search(error.message)):
        text = f"these credentials may not {match[1]} it, so the API server was not asked; ask an admin for the verbs "
        yield Remark("", f"{text}get, create and patch ({error.message})", refused=False)
    elif _NO_DRY_RUN in error.message:
        yield Remark("", f"the API server cannot be asked: {error.message}", refused=False)
    elif fields := _UNKNOWN_FIELD.findall(error.message):
        yield from (Remark(field, "API server: unknown field") for field in dict.fromkeys(fields))
    elif error.causes and not error.message.startswith(_WEBHOOK):
        yield from (Remark(field, f"API server: {message}") for field, message in error.causes)
    else:
        field = next((field for field, _ in error.causes), "")
        yield Remark(field, f"API server: {error.message}")
