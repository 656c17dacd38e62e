"""A plain HTTP client and an administrator's API on it.

What checks the product does not use the product's client.
"""

import http.client
import json
import select
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlsplit

_JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
NODES: Final = "/api/v1/nodes"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PATIENCE_SECONDS: Final = 30.0  # seconds until something that must happen is declared missing
_PAUSE_SECONDS: Final = 0.01  # seconds between two questions


class Options(TypedDict, total=False):
    """Of a request: JSON where nothing else is given; `token` authenticates it."""

    content_type: str
    accept: str
    token: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """One response: `body` is decoded JSON, or text where the server sends text."""

    code: int
    headers: Mapping[str, str]
    body: Any


class HttpClient:
    """Requests to one server; `timeout` in seconds.

    Over TLS a connection serves one request after the other: handshakes would be most of what a
    request costs; `close` ends those that are kept. A plain one serves a single request.
    """

    def __init__(self, url: str, ca_file: Path | None, timeout: float = 30) -> None:
        split = urlsplit(url)
        self._address = (split.hostname or "", split.port or 0)
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._timeout = timeout
        # Several threads may ask at a time: each takes a connection that is idle, or a new one.
        self._idle: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Close the connections that are kept.

        The garbage collector would too, and warn of sockets left open.
        """
        while self._idle:
            self._idle.pop().close()

    def request(
        self, method: str, path: str, body: Any = None, **options: Unpack[Options]
    ) -> Answer:
        """Send a request; a body that is no bytes is sent as JSON."""
        with self.open(method, path, body, **options) as response:
            text = response.read().decode()
            is_json = response.headers.get_content_type() == "application/json"
            return Answer(
                response.status, dict(response.getheaders()), json.loads(text) if is_json else text
            )

    @contextmanager
    def open(
        self, method: str, path: str, body: Any = None, **options: Unpack[Options]
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and give its response to be read piece by piece."""
        headers = {"Accept": options.get("accept", _JSON)}
        if token := options.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = options.get("content_type", _JSON)
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = self._take()
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:
                yield response
                was_read = response.isclosed()
        except BaseException:
            connection.close()
            raise
        if self._context and was_read:
            self._idle.append(connection)
        else:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        """A connection that the server has not closed meanwhile."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            # What is idle has nothing to say but its end.
            if connection.sock is not None and not select.select([connection.sock], (), (), 0)[0]:
                return connection
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address
        if self._context:
            return http.client.HTTPSConnection(
                host, port, context=self._context, timeout=self._timeout
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


@dataclass
class AdminApi:
    """An API server with its administrator's credentials; `name` is `real` or `embedded`."""

    name: str
    url: str
    kubeconfig: Path
    ca_file: Path | None = None
    admin_token: str | None = None
    client: HttpClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = HttpClient(self.url, self.ca_file)

    @property
    def is_real(self) -> bool:
        """Whether this is a kube-apiserver."""
        return self.name == "real"

    def ask(self, method: str, path: str, body: Any = None, **options: Unpack[Options]) -> Answer:
        """Send a request as the administrator, or as the owner of `token`."""
        if not options.get("token"):
            options["token"] = self.admin_token
        return self.client.request(method, path, body, **options)

    def request(
        self, method: str, path: str, body: Any = None, **options: Unpack[Options]
    ) -> tuple[int, Any]:
        """`ask` without the headers."""
        answer = self.ask(method, path, body, **options)
        return answer.code, answer.body

    def get(self, path: str) -> Any:
        """Return what must be there."""
        return self._done(200, "GET", path)

    def create(self, path: str, obj: Any) -> Any:
        """Create what must not be there yet."""
        return self._done(201, "POST", path, obj)

    def patch(self, path: str, change: Any) -> Any:
        """Merge a change into what must be there."""
        return self._done(200, "PATCH", path, change, content_type=MERGE)

    def _done(
        self, expected: int, method: str, path: str, body: Any = None, **options: Unpack[Options]
    ) -> Any:
        code, answer = self.request(method, path, body, **options)
        assert code == expected, answer
        return answer

    def apply(
        self, path: str, obj: Any, manager: str = "tester", *, force: bool = False
    ) -> tuple[int, Any]:
        """Server-side apply."""
        path += f"?fieldManager={manager}"
        if force:
            path += "&force=true"
        return self.request("PATCH", path, obj, content_type=APPLY)

    @contextmanager
    def watch(
        self, path: str, query: str, *, accept: str = "application/json"
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Open a watch; iterate over its events as long as the server sends them."""
        with self.client.open(
            "GET", f"{path}?watch=1&{query}", accept=accept, token=self.admin_token
        ) as response:
            assert response.status == 200, response.read()
            yield (json.loads(line) for line in response)

    def install_crd(self, crd: dict[str, Any]) -> dict[str, Any]:
        """Create a CRD; return it once its names are accepted and it is served, or refused."""
        self.create(CRDS, crd)
        return self.settled_crd(crd["metadata"]["name"])

    def settled_crd(self, name: str) -> dict[str, Any]:
        """Wait until a CRD is established and served, or its names are refused."""

        def decided() -> bool:
            states = crd_conditions(self.get(f"{CRDS}/{name}"))
            if states.get("Established") == "True":
                return self._is_served(name)
            return states.get("NamesAccepted") == "False"

        wait_until(decided, f"CRD {name} is served or refused")
        if self.is_real:
            self._let_objects_in(name)
        return self.get(f"{CRDS}/{name}")

    def _let_objects_in(self, name: str) -> None:
        """Give a CRD the age at which a kube-apiserver takes its objects at once.

        In the first two seconds it holds back each create, for the sake of further servers that may
        not know the kind yet (apiextensions' customresource_handler.go). Here is one server.
        """
        path = f"{CRDS}/{name}"
        status = self.get(path)["status"]
        for at, condition in enumerate(status["conditions"]):
            if condition["type"] != "Established" or condition["status"] != "True":
                continue
            entry = f"/status/conditions/{at}"
            is_still_there = {
                "op": "test",
                "path": f"{entry}/type",
                "value": "Established",
            }
            make_older = {
                "op": "replace",
                "path": f"{entry}/lastTransitionTime",
                "value": "2026-01-02T03:04:05Z",
            }
            code, answer = self.request(
                "PATCH",
                f"{path}/status",
                [is_still_there, make_older],
                content_type=JSON_PATCH,
            )
            assert code == 200, answer

    def remove_crd(self, name: str) -> None:
        """Delete a CRD and wait until it is gone with its objects."""
        path = f"{CRDS}/{name}"
        self.request("DELETE", path)

        def is_gone() -> bool:
            code, _ = self.request("GET", path)
            return code == 404

        wait_until(is_gone, f"CRD {name} is gone")

    def _is_served(self, name: str) -> bool:
        plural, _, group = name.partition(".")
        crd = self.get(f"{CRDS}/{name}")
        for version in crd["spec"]["versions"]:
            if not version["served"]:
                continue
            path = f"/apis/{group}/{version['name']}/{plural}"
            code, _ = self.request("GET", path)
            if code != 200:
                return False
        return True


def crd_conditions(crd: dict[str, Any]) -> dict[str, str]:
    """Status of each condition."""
    return {
        entry["type"]: entry["status"] for entry in (crd.get("status", {}).get("conditions") or ())
    }


def pod_token(api: AdminApi, pod: dict[str, Any]) -> str:
    """A token as kubelet gets it for a pod: bound to the pod, with its node as a claim.

    Only real servers issue one.
    """
    metadata = pod["metadata"]
    bound = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "boundObjectRef": bound,
            "expirationSeconds": 3600,
            "audiences": [],
        },
    }
    namespace = metadata["namespace"]
    account = pod["spec"]["serviceAccountName"]
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = api.create(path, request)
    return answer["status"]["token"]


def wait_until(done: Callable[[], bool], what: str, patience: float = _PATIENCE_SECONDS) -> None:
    """Poll until the condition holds.

    The pauses leave the CPU to the program under test.
    """
    deadline = time.monotonic() + patience
    while not done():
        assert time.monotonic() < deadline, f"did not happen within {patience:.0f} s: {what}"
        time.sleep(_PAUSE_SECONDS)
