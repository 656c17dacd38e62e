"""JSON that is no answer of an API server, to each request of each program: one line, and no traceback."""

import http.client
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from tests.cli.conftest import Command
from tests.kube.scripted import Received, ScriptedServer, answer, kubeconfig_document, write
from tests.support.api import CRDS, NODES, ApiUnderTest, create_namespace, node
from tests.support.paths import CRD
from tests.support.programs import lacking
from tests.support.publishing import install
from tests.support.saved import pod
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.ui.bundle import Bundle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.embedded_api("each run is recorded on an API server of its own"),
]

WRONG = (
    b"{}",
    b"[]",
    b"null",
    b'"x"',
    b'{"metadata":null}',
    b'{"metadata":{},"items":[null]}',
    b'{"metadata":[]}',
)
COMMANDS = {
    "uninstall": "uninstall --yes",
    "uninstall-dry-run": "uninstall",
    "tree": "tree",
    "nodes": "nodes",
    "levels": "levels",
    "suggest": "suggest",
    "save": "save again.toposcope",
    "export": "export --format slurm",
    "matrix": "matrix n1",
    "check": "check -f job.yaml",
    "explain": "explain pod/waiting -n train",
    "diff": "diff saved.toposcope",
    "ui": "ui --export page.html",
    "agent": "agent --once --nvidia-labels --profile dgx-h200 --node-name n1",
    "agent-cleanup": "agent --cleanup --node-name n1",
    "controller": "controller --once",
    "controller-dry-run": "controller --once --dry-run",
}
QUEUE = {"name": "j", "namespace": "train", "labels": {"kueue.x-k8s.io/queue-name": "q"}}


class Recording:
    """The answers of an API server to one run of a command, by method and target, in their order."""

    def __init__(self, api: ApiUnderTest) -> None:
        self._api = api
        self._answers: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        self.requests: list[tuple[str, str]] = []

    def forward(self, received: Received) -> bytes:
        """Ask the API server, and remember what it answers; no streams, and no sets in selectors: it lacks them."""
        target = re.sub(r"%2C[^&]*\+in\+[^&]*", "", received.target)
        if "watch=true" in target:
            return answer(b"{}", "422 Unprocessable Entity")
        headers = {}
        for name in ("Accept", "Content-Type"):
            value = received.headers.get(name)
            if value:
                headers[name] = value

        where = urlsplit(self._api.url)
        upstream = http.client.HTTPConnection(where.hostname or "", where.port)
        upstream.request(received.method, target, received.body or None, headers)
        response = upstream.getresponse()
        status = f"{response.status} {response.reason}"
        reply = answer(response.read(), status)
        upstream.close()

        key = (received.method, received.target)
        self._answers[key].append(reply)
        if response.status < 400 and key not in self.requests:
            self.requests.append(key)
        return reply

    def replay(self, spoiled: tuple[str, str], body: bytes) -> Callable[[Received], bytes]:
        """The same answers again, but `body` to the first request of that method and target."""
        left = {key: list(answers) for key, answers in self._answers.items()}
        left[spoiled][0] = answer(body)

        def reply(received: Received) -> bytes:
            answers = left.get((received.method, received.target))
            if not answers:
                return answer(b"{}", "404 Not Found")
            if len(answers) == 1:
                return answers[0]
            return answers.pop(0)

        return reply


@pytest.fixture
def cluster(api: ApiUnderTest, toposcope: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApiUnderTest:
    """Everything that Toposcope writes, a pod that waits, and a folder with files."""
    monkeypatch.chdir(tmp_path)
    crd = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)
    api.create(CRDS, crd)
    install(
        api,
        "kueue-topologies-v0.19",
        "kueue-resourceflavors-v0.19",
        "kai-topologies-v0.17",
    )
    labels = {
        "kubernetes.io/hostname": "n1",
        "topology.kubernetes.io/zone": "z",
    }
    api.create(NODES, node("n1", labels=labels))
    topology = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "c"},
    }
    api.create(PATH, topology)
    to_it = ("--kubeconfig", api.kubeconfig)
    toposcope("agent --once --nvidia-labels --profile dgx-h200 --node-name n1", *to_it)
    toposcope("controller --once", *to_it)

    create_namespace(api, "train")
    waiting = pod("waiting", None, 8, phase="Pending")
    api.create("/api/v1/namespaces/train/pods", waiting)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": QUEUE,
        "spec": {"template": {"spec": pod("x", None, 8)["spec"]}},
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job), encoding="utf-8")
    toposcope("save saved.toposcope", *to_it)
    return api


@pytest.mark.regression
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_ends_with_a_traceback(
    cluster: ApiUnderTest, toposcope: Command, command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if command.startswith("ui") and Bundle().page() is None:
        lacking("BROWSER", "the page is not built: make ui")
    recording = Recording(cluster)
    file = tmp_path / "kubeconfig.yaml"

    def run(replies: Callable[[Received], bytes]) -> tuple[int, str]:
        caplog.clear()
        with ScriptedServer(replies) as server:
            kubeconfig = write(file, kubeconfig_document(server.url))
            ran = toposcope(command, "--kubeconfig", kubeconfig, code=None)
        return ran.code, ran.err + caplog.text

    code, words = run(recording.forward)
    assert code in (0, 1), words
    assert recording.requests
    for method, target in recording.requests:
        path, _, _ = target.partition("?")
        named = f"the answer to {method} {path}"
        for body in WRONG:
            replies = recording.replay((method, target), body)
            ended, words = run(replies)
            about = (method, target, body, words)
            assert "Traceback" not in words, about
            is_answer_to_delete = method == "DELETE" and body.startswith(b"{")
            if command.startswith("uninstall") and not is_answer_to_delete:
                assert ended == 2, about
                assert words.startswith(f"toposcope uninstall: {named} is "), about
                assert words.count("\n") == 1, about
            elif ended == 2 or command.startswith("agent"):
                assert named in words, about
