"""What a request does to what, in the API server's own words: for metrics and logs."""

from toposcope.kube.client import APPLY, Request

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(request: Request) -> str:
    """`get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`."""
    if request.method == "PATCH" and request.content_type == APPLY:
        return "apply"
    whole = len(_parts(request.path)) == 1
    if request.method == "GET":
        return "watch" if "watch" in request.query else "list" if whole else "get"
    if request.method == "DELETE" and whole:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def resource_of(request: Request) -> str:
    """As in `kubectl get`: `nodes`, `topologies.kai.scheduler`, `clustertopologies.gpu.topology/status`.

    Requests that ask what is served are about `discovery`.
    """
    plural, *rest = [*_parts(request.path), ""]
    if not plural:
        return "discovery"
    first, group, *_ = request.path.strip("/").split("/")
    resource = f"{plural}.{group}" if first == "apis" else plural
    return f"{resource}/{rest[1]}" if len(rest) > 2 else resource  # noqa: PLR2004 - name, subresource, ""


def _parts(path: str) -> list[str]:
    """Plural, name and subresource, as far as the path goes."""
    first, *rest = path.strip("/").split("/")
    parts = rest[2:] if first == "apis" else rest[1:]
    in_namespace = parts[:1] == ["namespaces"] and len(parts) > 2  # noqa: PLR2004 - else the namespace itself
    return parts[2:] if in_namespace else parts
