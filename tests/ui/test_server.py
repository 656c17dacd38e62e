"""Every response of the page's server, over real sockets."""

import gzip
import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.support.saved import demo_nodes
from tests.ui.serving import PAGE, Nodes, Served, decoded, facts_of, rack_nodes, served
from toposcope import __version__
from toposcope.kube.errors import UnreachableError
from toposcope.snapshot.decode import Decoder
from toposcope.ui import protocol, routes
from toposcope.ui.bundle import Bundle
from toposcope.ui.guard import POLICY
from toposcope.ui.questions import MAX_BYTES
from toposcope.ui.source import FullNode

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": POLICY,
}
"""Of every response."""
POST = b'{"workload": ""}'
CHECK_HEAD = b"POST /api/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """20 nodes of the demo, one of them degraded."""
    decoder = Decoder(lambda _name, _not_ok: True)
    nodes = []
    full = {}
    for document in demo_nodes(most=20, faulty=("gb200-02",)):
        node = decoder.node(partial(msgspec.convert, document))
        nodes.append(node)
        full[node.name] = FullNode(node, "2026-01-01T00:00:00Z")
    folder = tmp_path_factory.mktemp("page")
    with served(folder, facts_of(nodes), Nodes(full=full)) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/", 200, id="page"),
        pytest.param("/assets/app.js", 200, id="script"),
        pytest.param("/assets/app.css", 200, id="style"),
        pytest.param("/assets/missing.js", 404, id="missing-script"),
        pytest.param("/assets/..%2f..%2fwire.py", 404, id="file-outside"),
        pytest.param("/api/snapshot", 200, id="snapshot"),
        pytest.param("/api/node/gb200-01", 200, id="node"),
        pytest.param("/api/node/missing", 404, id="missing-node"),
        pytest.param("/api/node/..%2f..%2fsecrets", 404, id="path-as-node"),
        pytest.param("/api/search?q=gb200", 200, id="search"),
        pytest.param("/api/search?q=" + "x" * 300, 400, id="long-query"),
        pytest.param("/healthz", 200, id="health"),
        pytest.param("/readyz", 200, id="readiness"),
        pytest.param("/api/secrets", 404, id="missing-question"),
        pytest.param("/api/check", 405, id="check"),
    ],
)
def test_every_response_has_strict_headers_and_no_cookie(server: Served, path: str, status: int) -> None:
    answered, headers, body = server.ask(path)
    assert answered == status
    for name, value in HEADERS.items():
        assert headers[name] == value
    assert "set-cookie" not in headers
    assert "server" not in headers
    if status >= 400:
        assert body["error"]


def test_content_security_policy_allows_only_this_server() -> None:
    rules = [rule.strip() for rule in POLICY.split(";")]
    assert sorted(rules) == [
        "base-uri 'none'",
        "connect-src 'self'",
        "default-src 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "img-src 'self' data:",
        "script-src 'self'",
        "style-src 'self'",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8470", "localhost:1", "LOCALHOST", "[::1]:8470"])
def test_names_of_this_machine_are_served(server: Served, host: str) -> None:
    assert server.status("/api/search?q=", Host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost:80@evil.example", "", "10.1.2.3:8470"]
)
def test_other_names_are_not_served(server: Served, host: str) -> None:
    assert server.status("/api/search?q=", Host=host) == 421


def test_probes_may_use_the_address_of_a_pod(server: Served) -> None:
    assert server.status("/healthz", Host="10.1.2.3:8470") == 200


def test_host_name_can_be_allowed(tmp_path: Path) -> None:
    hosts = ("127.0.0.1", "ui.example.com")
    with served(tmp_path, hosts=hosts) as found:
        status = found.status("/api/snapshot", Host="UI.example.com:443")
    assert status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "GARBAGE"])
def test_only_reads_are_allowed(server: Served, method: str) -> None:
    assert server.status("/api/snapshot", method) == 405
    assert server.status("/", method) == 405


def test_head_has_no_body(server: Served) -> None:
    status, headers, body = server.ask("/api/node/gb200-01", "HEAD")
    assert status == 200
    assert body == b""
    length = int(headers["content-length"])
    assert length > 100


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        pytest.param("application/json", 200, id="json"),
        pytest.param("application/json; charset=utf-8", 200, id="json-with-charset"),
        pytest.param("text/plain", 415, id="text"),
        pytest.param("application/x-www-form-urlencoded", 415, id="form"),
    ],
)
def test_check_is_posted_as_json(server: Served, content_type: str, status: int) -> None:
    answered = server.status("/api/check", "POST", POST, Content_Type=content_type)
    assert answered == status


def test_check_without_a_content_type_is_refused(server: Served) -> None:
    assert server.status("/api/check", "POST", POST) == 415


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        pytest.param("Origin", "http://127.0.0.1:{port}", 200, id="own-origin"),
        pytest.param("Origin", "http://evil.example", 403, id="other-origin"),
        pytest.param("Origin", "null", 403, id="null-origin"),
        pytest.param("Sec_Fetch_Site", "same-origin", 200, id="same-origin"),
        pytest.param("Sec_Fetch_Site", "cross-site", 403, id="cross-site"),
    ],
)
def test_only_this_page_may_post_a_check(server: Served, header: str, value: str, status: int) -> None:
    headers = {
        "Content_Type": "application/json",
        header: value.format(port=server.port),
    }
    answered = server.status("/api/check", "POST", POST, **headers)
    assert answered == status


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="array"),
        pytest.param(b"{}", id="empty-object"),
        pytest.param(b'{"workload": 1}', id="number"),
        pytest.param(b'{"workload": "", "more": 1}', id="unknown-field"),
        pytest.param(b"\xff", id="no-utf-8"),
        pytest.param(b"[" * 100_000, id="brackets"),
    ],
)
def test_malformed_check_says_what_to_send(server: Served, body: bytes) -> None:
    status, _, found = server.ask(
        "/api/check",
        "POST",
        body,
        Content_Type="application/json",
    )
    assert status == 400
    assert found["error"].startswith('send {"workload": TEXT}')


def connected(server: Served) -> socket.socket:
    """A connection to the server, for half a request."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def test_body_that_is_too_large_is_rejected_before_it_is_read(server: Served) -> None:
    too_much = b"x" * (MAX_BYTES + 1)
    with connected(server) as raw:
        raw.sendall(CHECK_HEAD + b"Content-Length: 9000000000\r\n\r\n" + too_much)

        answer = raw.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_incomplete_body_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BODY_SECONDS", 0.05)
    with served(tmp_path) as found, connected(found) as raw:
        raw.sendall(CHECK_HEAD + b'Content-Length: 100\r\n\r\n{"work')

        answer = raw.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert found.status("/api/snapshot") == 200


def test_incomplete_request_loses_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.ui.server.HEADER_SECONDS", 0.05)
    parts = [
        b"",
        b"GET /api/snap",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /ag",
    ]
    with served(tmp_path) as found:
        for part in parts:
            with connected(found) as raw:
                raw.sendall(part)
                while raw.recv(1 << 16):
                    pass  # until the server closes it


def test_snapshot_is_the_same_with_and_without_gzip(server: Served) -> None:
    _, plain_headers, plain = server.ask("/api/snapshot")
    status, headers, packed = server.ask("/api/snapshot", Accept_Encoding="gzip")
    assert status == 200
    assert headers["content-encoding"] == "gzip"
    unpacked = gzip.decompress(packed)
    assert json.loads(unpacked) == plain
    etag = headers["etag"]
    assert etag == plain_headers["etag"]
    assert server.status("/api/snapshot", If_None_Match=etag) == 304
    msgspec.convert(plain, protocol.SnapshotData)  # every field as it is written down


def test_snapshot_has_a_column_for_each_fact(server: Served) -> None:
    found = server.get("/api/snapshot")
    assert found["otherNodes"] == 0
    nodes = found["nodes"]
    place = nodes["name"].index("gb200-02")
    assert nodes["gpus"][place] == 4
    assert nodes["free"][place] == 4
    assert nodes["reasons"] == {str(place): ["GPU 1: 17 of 18 NVLinks active"]}
    row = decoded(found)["gb200-02"]
    assert row["marks"] == ["degraded"]
    assert row["labels"]["cloud.google.com/gce-topology-subblock"] == "rack-1"
    host = nodes["labels"]["kubernetes.io/hostname"]
    assert host["values"] == []
    assert host["codes"] == [protocol.OWN_NAME] * 20


def test_node_is_answered_in_full(server: Served) -> None:
    found = server.get("/api/node/gb200-02")
    msgspec.convert(found, protocol.NodeData)
    assert found["reasons"] == ["GPU 1: 17 of 18 NVLinks active"]
    assert found["since"] == {"at": "2026-01-01T00:00:00Z", "exact": False}
    gpus = [device["label"] for device in found["devices"] if device["kind"] == "gpu"]
    assert gpus == ["GPU0", "GPU1", "GPU2", "GPU3"]
    assert found["nvlinkDomains"] == [gpus]

    size = len(found["devices"])
    assert len(found["matrix"]) == size
    cells: set[str] = set()
    for row in found["matrix"]:
        assert len(row) == size
        cells.update(row)
    explained = {cell_class["cell"] for cell_class in found["classes"]}
    assert explained == cells
    path = found["domains"]["cluster"]
    assert path[:3] == ["zone-1", "block-1", "rack-1"]


def test_node_that_cannot_be_read_is_shown_without_its_matrix(tmp_path: Path) -> None:
    source = Nodes(broken=UnreachableError("https://cluster.test does not answer"))
    with served(tmp_path, source=source) as found:
        status, _, node = found.ask("/api/node/n1")
    assert status == 200
    assert node["matrix"] is None
    assert node["problem"] == "its link matrix cannot be read right now: https://cluster.test does not answer"
    assert node["labels"]["kubernetes.io/hostname"] == "n1"


def test_failing_api_server_is_not_asked_for_a_node(tmp_path: Path) -> None:
    facts = facts_of(rack_nodes())
    source = Nodes(broken=AssertionError("it was asked"))
    facts.mark_failing("nodes", "https://cluster.test does not answer")
    with served(tmp_path, facts, source) as found:
        node = found.get("/api/node/n1")
    assert node["problem"] == ("its link matrix cannot be read right now: nodes: https://cluster.test does not answer")


def test_search_finds_the_node_of_a_gpu(server: Served) -> None:
    node = server.get("/api/node/gb200-11")
    gpus = [device for device in node["devices"] if device["kind"] == "gpu"]
    uuid = gpus[0]["name"]
    beginning = uuid[:16].upper()
    found = server.get(f"/api/search?q={beginning}")
    assert found == {
        "gpus": [{"uuid": uuid, "node": "gb200-11"}],
        "more": False,
    }


@pytest.mark.parametrize("query", ["GPU", "no-such"])
def test_search_finds_no_gpu_by_other_words(server: Served, query: str) -> None:
    found = server.get(f"/api/search?q={query}")
    assert found == {"gpus": [], "more": False}


def test_before_the_cluster_has_been_read(tmp_path: Path) -> None:
    facts = facts_of(rack_nodes())
    with served(tmp_path, facts, ready=False) as found:
        status, headers, body = found.ask("/api/snapshot")
        assert status == 503
        assert headers["retry-after"] == "1"
        assert body["error"] == "the cluster is being read for the first time; 4 nodes so far"
        assert found.status("/readyz") == 503
        assert found.status("/healthz") == 200
        facts.mark_failing("nodes", "https://cluster.test does not answer")
        _, _, body = found.ask("/api/snapshot")
    assert body["error"] == "the cluster cannot be read: nodes: https://cluster.test does not answer"


def test_page_and_its_files_come_from_the_bundle(server: Served) -> None:
    page = server.get("/")
    assert page.decode() == PAGE
    _, headers, _ = server.ask("/assets/app.js")
    assert headers["content-type"] == "text/javascript; charset=utf-8"


def test_missing_page_says_how_to_get_it(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    with served(folder) as found:
        index = folder / "index.html"
        index.unlink()
        status, _, body = found.ask("/")
    assert status == 503
    assert body.decode().strip() == Bundle(folder).missing


def test_missing_page_names_the_way_to_get_it_here(tmp_path: Path) -> None:
    """A clone has its source beside it and can build it; an installation by pip from source has not."""
    package = tmp_path / "toposcope" / "ui"
    static = package / "static"
    installed = Bundle(static).missing
    assert installed == (
        "this installation has no page for toposcope ui: install the released wheel, "
        f"toposcope-{__version__}-py3-none-any.whl, or use the image"
    )
    source = package / "page"
    source.mkdir(parents=True)
    (source / "package.json").write_text("{}")
    cloned = Bundle(static).missing
    assert cloned == "the page of toposcope ui is not built: run make ui"
    assert "\n" not in installed + cloned
