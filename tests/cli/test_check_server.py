"""`toposcope check --server`: a real API server with CRD, webhook and RBAC is asked by dry runs, and stores nothing."""

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Command
from tests.kube.scripted import server_tls
from tests.support.api import ApiUnderTest, account_token, create_namespace, create_service_account
from tests.support.paths import DOCUMENTS
from tools.apiserver.certificates import make_certificates
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.dry_run import DryRun, Remark

pytestmark = pytest.mark.real_api("the embedded server has no webhooks, and lets everybody do everything")

CRD = DOCUMENTS / "cli" / "cliques-crd.yaml"
COLLECTION = "/apis/words.example.com/v1/namespaces/default/cliques"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def clique(name: str, /, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "words.example.com/v1",
        "kind": "Clique",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
def served(api: ApiUnderTest) -> ApiUnderTest:
    api.share_crd(yaml.load(CRD.read_bytes(), yaml.CSafeLoader))
    return api


@pytest.fixture
def server(served: ApiUnderTest) -> Iterator[DryRun]:
    admin = load(str(served.kubeconfig))
    with contextlib.closing(ApiClient(admin)) as client:
        yield DryRun(client, "default")


@contextlib.contextmanager
def webhook(api: ApiUnderTest, folder: Path) -> Iterator[None]:
    """Refuses every Clique whose size is 13; ready when it has refused one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            review = json.loads(self.rfile.read(length))
            asked = review["request"]
            size = asked["object"]["spec"].get("size")
            response = {
                "uid": asked["uid"],
                "allowed": size != 13,
                "status": {"message": "spec.size: thirteen is no size"},
            }
            body = json.dumps({**review, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    certificates = make_certificates(folder)
    authority = base64.b64encode(certificates.ca.read_bytes())
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.socket = server_tls(certificates).wrap_socket(listener.socket, server_side=True)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    rule = {
        "apiGroups": ["words.example.com"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["cliques"],
    }
    hook = {
        "name": "sizes.words.example.com",
        "clientConfig": {
            "url": f"https://127.0.0.1:{listener.server_address[1]}/",
            "caBundle": authority.decode(),
        },
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "sizes"},
        "webhooks": [hook],
    }
    api.create(HOOKS, configuration)
    try:
        yield
    finally:
        api.request("DELETE", f"{HOOKS}/sizes")
        listener.shutdown()
        listener.server_close()


def soon(server: DryRun, document: dict[str, Any]) -> tuple[Remark, ...]:
    """What the server says once it has heard of a new webhook; each question is a request, which is pause enough."""
    for _ in range(500):
        remarks = server.ask(document)
        if remarks:
            return remarks
    pytest.fail("the webhook was never called")


def test_object_that_the_schema_refuses_is_not_stored(served: ApiUnderTest, server: DryRun) -> None:
    good = clique("good", size=3)
    assert server.ask(good) == ()
    small = clique("small", size=0)
    (wrong,) = server.ask(small)
    assert wrong.field == "spec.size"
    assert wrong.is_refused is True
    assert "should be greater than or equal to 1" in wrong.message
    odd = clique("odd", size=3, sizes=4, other=1)
    assert server.ask(odd) == (
        Remark("spec.other", "API server: unknown field"),
        Remark("spec.sizes", "API server: unknown field"),
    )
    stored = served.get(COLLECTION)
    assert stored["items"] == []


def test_present_object_is_changed_as_kubectl_would(served: ApiUnderTest, server: DryRun) -> None:
    there = served.create(COLLECTION, clique("there", size=3, level="rack"))
    assert server.ask(there) == ()  # with all that the server wrote into it
    moved = clique("there", size=3, level="host")
    (wrong,) = server.ask(moved)
    assert wrong.field == "spec"
    assert wrong.message.endswith("is immutable")
    new = clique("new", size=3, level="host")
    assert server.ask(new) == ()
    misspelt = clique("there", size=3, sizes=4, level="rack")
    (unknown,) = server.ask(misspelt)
    assert "sizes" in unknown.field + unknown.message
    assert served.get(f"{COLLECTION}/there") == there


def test_webhook_refuses_in_its_own_words(served: ApiUnderTest, server: DryRun, tmp_path: Path) -> None:
    denied = (
        'API server: admission webhook "sizes.words.example.com" denied the request: spec.size: thirteen is no size'
    )
    unlucky = clique("unlucky", size=13)
    lucky = clique("lucky", size=12)
    with webhook(served, tmp_path):
        assert soon(server, unlucky) == (Remark("", denied),)
        assert server.ask(lucky) == ()


def test_missing_kind_group_or_namespace_is_named(server: DryRun) -> None:
    (kind,) = server.ask({**clique("x"), "kind": "Choir"})
    assert kind == Remark("kind", "the server has no Choir of words.example.com/v1; is its CRD installed?")
    (group,) = server.ask({**clique("x"), "apiVersion": "nobody.example.com/v1"})
    assert group.message == "the server has no Clique of nobody.example.com/v1; is its CRD installed?"
    elsewhere = clique("x", size=1)
    elsewhere["metadata"] = {"name": "x", "namespace": "nowhere"}
    (namespace,) = server.ask(elsewhere)
    assert namespace.message == 'API server: namespaces "nowhere" not found'
    assert server.ask({"name": "a pool of OSMO"}) == ()


def test_credentials_without_rights_learn_which_verbs_it_takes(served: ApiUnderTest) -> None:
    create_namespace(served, "guests")
    create_service_account(served, "guests", "guest")
    token = account_token(served, "guests", "guest")
    admin = load(str(served.kubeconfig))
    guest = ClusterAccess(admin.server, admin.tls, lambda: token, "guests")
    with contextlib.closing(ApiClient(guest)) as client:
        server = DryRun(client, "guests")
        (remark,) = server.ask(clique("x", size=1))
    assert not remark.is_refused
    assert remark.message.startswith("these credentials may not get it, so the API server was not asked; ask an admin")
    assert "the verbs get, create and patch (cliques.words.example.com" in remark.message


def test_command_shows_findings_of_the_server(served: ApiUnderTest, tmp_path: Path, toposcope: Command) -> None:
    container = {"name": "main", "imag": "x", "image": "x"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": pod}},
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
    }
    documents = [job, config, clique("small", size=0)]
    texts = [yaml.safe_dump(document) for document in documents]
    file = tmp_path / "work.yaml"
    file.write_text("---\n".join(texts))

    check = f"check -f {file} --kubeconfig {served.kubeconfig}"
    without_server = toposcope(check, code=None).out
    assert "API server" not in without_server
    shown = toposcope(f"{check} --server", code=1).out
    assert "  error: spec.template.spec.containers[0].imag (line 9): API server: unknown field\n" in shown
    assert "document 3, line 18: Clique\n  error: spec.size (line 24): API server: " in shown
    assert "1 object of other kinds skipped (ConfigMap)" in shown
    found = toposcope(f"{check} --server -o json", code=1).json
    rules = []
    for workload in found["workloads"]:
        assert workload["place"]
        for finding in workload["findings"]:
            rules.append(finding["rule"])
    assert rules[-1] == "server"
    jobs = served.get("/apis/batch/v1/namespaces/default/jobs")
    assert jobs["items"] == []


def test_server_flag_is_refused_for_files(tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(yaml.safe_dump(clique("x")))
    ran = toposcope(f"check -f {file} --from {file} --server", code=2)
    assert "--server asks the API server of" in ran.err
