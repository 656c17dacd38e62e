"""The cluster that a pod runs in: service account, rotation, TLS."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.kube.scripted import Reply, ScriptedServer, answer, server_tls
from tests.support.paths import ROOT
from tools.apiserver.certificates import Certificates, make_certificates
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load, pod_namespace
from toposcope.kube.errors import ConfigError, UnreachableError
from toposcope.kube.requests import get

VERSION = get("/version")


@pytest.fixture
def account(tmp_path: Path, certificates: Certificates) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("toposcope-system")
    (tmp_path / "ca.crt").write_bytes(certificates.ca.read_bytes())
    return tmp_path


def environment(host: str = "10.0.0.1", port: str | None = "6443") -> dict[str, str]:
    environ = {
        "KUBERNETES_SERVICE_HOST": host,
        "HOME": "/nonexistent",
    }
    if port is not None:
        environ["KUBERNETES_SERVICE_PORT"] = port
    return environ


def client_in_pod(server: ScriptedServer, account: Path, timeout: float = 15.0) -> ApiClient:
    _, _, port = server.url.rpartition(":")
    cluster = load(None, environment("127.0.0.1", port), account)
    return ApiClient(cluster, timeout=timeout)


@pytest.mark.parametrize(
    ("host", "port", "server"),
    [
        pytest.param("10.0.0.1", "6443", "https://10.0.0.1:6443", id="ipv4"),
        pytest.param("fd00::1", "443", "https://[fd00::1]:443", id="ipv6"),
        pytest.param("kubernetes.default.svc", None, "https://kubernetes.default.svc:443", id="no-port"),
        pytest.param("10.0.0.1", "", "https://10.0.0.1:443", id="empty-port"),
    ],
)
def test_the_server_comes_from_the_environment(account: Path, host: str, port: str | None, server: str) -> None:
    cluster = load(None, environment(host, port), account)
    assert cluster.server == server
    assert cluster.base_path == ""
    assert cluster.namespace == "toposcope-system"


def test_requests_carry_the_token_of_the_moment(account: Path, certificates: Certificates) -> None:
    with ScriptedServer([answer(b"1"), answer(b"2")], server_tls(certificates)) as server:
        client = client_in_pod(server, account)
        assert client.read(VERSION) == b"1"
        (account / "token").write_text("second")
        assert client.read(VERSION) == b"2"
        first, second = server.received
        assert first.headers["Authorization"] == "Bearer first"
        assert second.headers["Authorization"] == "Bearer second"
        client.close()


def test_a_server_that_the_cluster_s_ca_did_not_sign_gets_no_token(
    account: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = make_certificates(tmp_path_factory.mktemp("stranger"))
    assert stranger.ca.read_bytes() != certificates.ca.read_bytes()
    with ScriptedServer([answer()], server_tls(stranger)) as server:
        client = client_in_pod(server, account)
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            client.read(VERSION)
        assert not server.received


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", "holds no token", id="empty"),
        pytest.param(" \n", "holds no token", id="blank"),
        pytest.param("a\nb", "char", id="two-lines"),
        pytest.param("ÿþ\x00", "no bearer token has", id="no-utf8"),
        pytest.param(None, "token: No such file or directory", id="no-file"),
    ],
)
def test_a_broken_token_is_never_sent_and_never_shown(account: Path, content: str | None, words: str) -> None:
    cluster = load(None, environment(), account)
    token = account / "token"
    token.unlink()
    if content is not None:
        token.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=words) as caught:
        cluster.token()
    message = str(caught.value)
    assert str(token) in message
    assert "a\nb" not in message


def test_without_a_namespace_file_it_is_default(account: Path) -> None:
    assert pod_namespace(account) == "toposcope-system"
    (account / "namespace").write_text("\n")
    assert pod_namespace(account) == ""
    assert load(None, environment(), account).namespace == "default"
    (account / "namespace").unlink()
    assert pod_namespace(account) == ""
    assert load(None, environment(), account).namespace == "default"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="no-file"),
        pytest.param(b"", id="empty"),
        pytest.param(b"no certificate", id="text"),
        pytest.param(b"\x00\xff", id="bytes"),
    ],
)
def test_a_broken_ca_is_named(account: Path, content: bytes | None) -> None:
    if content is None:
        (account / "ca.crt").unlink()
    else:
        (account / "ca.crt").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{account}/ca.crt: no CA certificates in PEM there"):
        load(None, environment(), account)


def test_a_broken_port_is_named(account: Path) -> None:
    environ = environment(port="tcp://10.0.0.1:443")
    with pytest.raises(ConfigError, match=r"KUBERNETES_SERVICE_PORT.*tcp://10\.0\.0\.1:443"):
        load(None, environ, account)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        pytest.param(
            {"HOME": "/home/me"},
            r"no .*/token.*/home/me/\.kube/config does not exist.*pass --kubeconfig FILE",
            id="nothing",
        ),
        pytest.param({"KUBECONFIG": "x" * 300}, "cannot be read", id="nothing-that-may-be-looked-at"),
        pytest.param(
            {
                "KUBERNETES_SERVICE_HOST": "10.0.0.1",
                "KUBERNETES_SERVICE_PORT": "6443",
                "HOME": "/nonexistent",
            },
            "not in a pod",
            id="a-service-without-an-account",
        ),
    ],
)
def test_nothing_found(tmp_path: Path, environ: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(None, environ, tmp_path)


def test_an_explicit_kubeconfig_comes_before_the_pod(account: Path, kubeconfig: Path) -> None:
    kubeconfig.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://other'}}], "
        "contexts: [{name: x, context: {cluster: c}}], current-context: x}"
    )
    assert load(str(kubeconfig), environment(), account).server == "http://other"
    assert load(None, environment(), account).server == "https://10.0.0.1:6443"
    home = account / "home"
    folder = home / ".kube"
    folder.mkdir(parents=True)
    (folder / "config").write_bytes(kubeconfig.read_bytes())
    of_home = load(None, {"HOME": str(home)}, account)
    assert of_home.server == "http://other"
    of_variable = load(None, {"KUBECONFIG": f":/nonexistent:{kubeconfig}"}, account)
    assert of_variable.server == "http://other"


def test_a_frozen_handshake_times_out(account: Path) -> None:
    with ScriptedServer([Reply(None)]) as server:
        client = client_in_pod(server, account, timeout=0.05)
        with pytest.raises(UnreachableError):
            client.read(VERSION)


def test_in_a_pod_nothing_heavy_is_loaded(account: Path) -> None:
    """The `kubernetes` package alone weighs more than the agent."""
    heavy = {"kubernetes", "urllib3", "yaml", "asyncio", "tempfile", "msgspec", "dataclasses"}
    program = (
        "import sys, pathlib, toposcope.kube.client, toposcope.kube.config\n"
        f"toposcope.kube.config.load(None, {environment()!r}, pathlib.Path({str(account)!r}))\n"
        f"print(*sorted({heavy!r} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "\n"
