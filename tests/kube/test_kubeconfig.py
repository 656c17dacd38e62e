"""Kubeconfig files: what kubectl accepts, and errors that name the file, the field and the fix."""

import base64
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.kube.scripted import ScriptedServer, answer, server_tls, write
from tests.kube.scripted import kubeconfig_document as document
from tools.apiserver.certificates import Certificates
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.credentials import Cluster
from toposcope.kube.errors import ConfigError, UnreachableError
from toposcope.kube.requests import get
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.text import parse

VERSION = get("/version")
Plugin = Callable[[str], dict[str, Any]]


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def ask(cluster: Cluster) -> Any:
    with closing(ApiClient(cluster)) as client:
        return parse(client.read(VERSION))


@pytest.fixture
def tls_server(certificates: Certificates) -> Iterator[ScriptedServer]:
    with ScriptedServer([answer(b"1")], server_tls(certificates)) as server:
        yield server


class TestCredentials:
    def test_a_token(self, kubeconfig: Path) -> None:
        cluster = load(write(kubeconfig, document(user={"token": "secret"})))
        assert cluster.token() == "secret"
        assert (cluster.server, cluster.namespace) == ("https://127.0.0.1:1", "default")

    @pytest.mark.regression
    @pytest.mark.parametrize("kind", ["token", "tokenFile", "exec", "client-certificate"])
    def test_none_without_tls(
        self, kubeconfig: Path, plugin: Plugin, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As kubectl does."""
        user = plugin("{'token': 'secret'}") if kind == "exec" else {kind: "secret"}
        with ScriptedServer([answer(b"1"), answer(b"2")]) as server:
            cluster = load(write(kubeconfig, document(server.url, user)))
            assert [ask(cluster), ask(cluster)] == [1, 2]
        assert [request.headers["Authorization"] for request in server.received] == [None, None]
        assert not (kubeconfig.parent / "calls").exists()  # the plugin was not even asked
        [record] = caplog.records
        assert "users[u].user: credentials are not sent, because" in record.getMessage()
        assert record.getMessage().endswith("clusters[c].cluster.server is not https")

    def test_a_token_file_is_relative_to_the_kubeconfig_and_read_anew(self, kubeconfig: Path) -> None:
        (kubeconfig.parent / "token").write_text("first\n")
        cluster = load(write(kubeconfig, document(user={"tokenFile": "token", "token": "other"})))
        assert cluster.token() == "first"
        (kubeconfig.parent / "token").write_text("second\n")
        assert cluster.token() == "second"

    def test_nobody(self, kubeconfig: Path) -> None:
        content = document()
        del content["contexts"][0]["context"]["user"], content["users"]
        assert load(write(kubeconfig, content)).token() is None
        assert load(write(kubeconfig, document() | {"users": [{"name": "u", "user": None}]})).token() is None

    def test_namespace_and_names_of_any_script(self, kubeconfig: Path) -> None:
        text = json.dumps(document(user={"token": "t"})).replace('"u"', '"büro-東京"').replace('"x"', '"ключ"')
        content = json.loads(text)
        content["contexts"][0]["context"]["namespace"] = "team"
        assert load(write(kubeconfig, content)).namespace == "team"

    def test_json_and_a_byte_order_mark(self, kubeconfig: Path) -> None:
        kubeconfig.write_text(json.dumps(document(user={"token": "t"})), encoding="utf-8-sig")
        assert load(str(kubeconfig)).token() == "t"

    @pytest.mark.parametrize("inline", [True, False])
    def test_a_client_certificate(self, kubeconfig: Path, certificates: Certificates, inline: bool) -> None:
        folder = kubeconfig.parent
        for name in ("ca", "certificate", "key"):
            (folder / name).write_bytes(getattr(certificates, name).read_bytes())
        user = {"client-certificate": "certificate", "client-key": "key"}
        ca = {"certificate-authority": "ca"}
        if inline:
            user = {f"{name}-data": encoded(folder / file) for name, file in user.items()}
            ca = {"certificate-authority-data": encoded(folder / "ca")}
        with ScriptedServer([answer(b"1")], server_tls(certificates, client_ca=certificates.ca)) as server:
            assert ask(load(write(kubeconfig, document(server.url, user, cluster=ca)))) == 1

    def test_an_inline_client_certificate_needs_no_folder_that_can_be_written(
        self, kubeconfig: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
        pair = {"client-certificate": certificates.certificate, "client-key": certificates.key}
        user = {f"{name}-data": encoded(path) for name, path in pair.items()}
        ca = {"certificate-authority-data": encoded(certificates.ca)}
        before = open_descriptors()
        with ScriptedServer([answer(b"1")], server_tls(certificates, client_ca=certificates.ca)) as server:
            assert ask(load(write(kubeconfig, document(server.url, user, cluster=ca)))) == 1
        assert open_descriptors() == before

    def test_without_memory_files_the_error_says_what_to_do(
        self, kubeconfig: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("toposcope.kube.kubeconfig._MEMORY_FILES", False)
        monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
        pair = {"client-certificate": certificates.certificate, "client-key": certificates.key}
        user = {f"{name}-data": encoded(path) for name, path in pair.items()}
        with pytest.raises(ConfigError, match=r"\[u\]\.user: .* needs a writable temporary directory .* set TMPDIR"):
            load(write(kubeconfig, document(HTTPS, user)))

    def test_a_pipe_is_read_once(self, certificates: Certificates, tls_server: ScriptedServer) -> None:
        ca = {"certificate-authority-data": encoded(certificates.ca)}
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as file:
            json.dump(document(tls_server.url, cluster=ca), file)
        for _ in range(2):  # as a command that connects twice
            assert load(f"/dev/fd/{reading}").server == tls_server.url
        os.close(reading)

    def test_data_comes_before_files(
        self, kubeconfig: Path, certificates: Certificates, tls_server: ScriptedServer
    ) -> None:
        ca = {"certificate-authority": "/nonexistent", "certificate-authority-data": encoded(certificates.ca)}
        assert ask(load(write(kubeconfig, document(tls_server.url, cluster=ca)))) == 1

    def test_folded_base64(self, kubeconfig: Path, certificates: Certificates, tls_server: ScriptedServer) -> None:
        text = "# Zürich\n".encode() + certificates.ca.read_bytes()
        folded = base64.encodebytes(text).decode()
        content = document(tls_server.url, cluster={"certificate-authority-data": folded})
        assert ask(load(write(kubeconfig, content))) == 1


class TestServers:
    def test_without_its_ca_a_server_is_a_stranger(self, kubeconfig: Path, tls_server: ScriptedServer) -> None:
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            ask(load(write(kubeconfig, document(tls_server.url))))

    def test_verification_can_be_switched_off(self, kubeconfig: Path, tls_server: ScriptedServer) -> None:
        assert ask(load(write(kubeconfig, document(tls_server.url, cluster={"insecure-skip-tls-verify": True})))) == 1

    def test_tls_server_name(self, kubeconfig: Path, certificates: Certificates) -> None:
        ca = {"certificate-authority": str(certificates.ca)}
        with ScriptedServer([answer(b"1")], server_tls(certificates), host="127.0.0.2") as server:
            with pytest.raises(UnreachableError, match=r"127\.0\.0\.2"):
                ask(load(write(kubeconfig, document(server.url, cluster=ca))))
            ca["tls-server-name"] = "localhost"
            assert ask(load(write(kubeconfig, document(server.url, cluster=ca)))) == 1
            assert server.received[0].headers["Host"] == server.url.removeprefix("https://")

    def test_a_ca_without_key_identifiers(self, kubeconfig: Path) -> None:
        """Those of EKS and MicroK8s have none; Python 3.13 refuses them by default."""
        bare = bare_certificates(kubeconfig.parent)
        with ScriptedServer([answer(b"1")], server_tls(bare)) as server:
            content = document(server.url, cluster={"certificate-authority": str(bare.ca)})
            assert ask(load(write(kubeconfig, content))) == 1

    def test_the_embedded_server_s_own(self, kubeconfig: Path, embedded_server: EmbeddedApiServer) -> None:
        embedded_server.write_kubeconfig(kubeconfig)
        assert ask(load(str(kubeconfig)))["major"] == "1"


class TestSeveralFiles:
    def test_the_first_that_names_something_counts(self, tmp_path: Path) -> None:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        first, second = tmp_path / "one" / "config", tmp_path / "two" / "config"
        (tmp_path / "two" / "token").write_text("from-two")
        write(first, {"current-context": "x", "contexts": document()["contexts"]})
        write(second, document("https://second", {"tokenFile": "token"}) | {"current-context": "other"})
        spec = f"{first}:/nonexistent:{second}"
        cluster = load(spec)
        assert (cluster.server, cluster.token()) == ("https://second", "from-two")
        write(first, document("https://first", {"token": "from-one"}))
        cluster = load(spec)
        assert (cluster.server, cluster.token()) == ("https://first", "from-one")

    def test_an_empty_file_is_none(self, tmp_path: Path) -> None:
        empty, full = tmp_path / "empty", tmp_path / "full"
        empty.touch()
        write(full, document("http://full"))
        assert load(f"{empty}:{full}").server == "http://full"


class TestPlugins:
    def test_its_token_is_sent(self, kubeconfig: Path, plugin: Plugin, certificates: Certificates) -> None:
        with ScriptedServer([answer(b"1")], server_tls(certificates)) as server:
            ca = {"certificate-authority": str(certificates.ca)}
            content = document(server.url, plugin("{'token': f'secret-{count}'}"), cluster=ca)
            content["contexts"][0]["context"]["namespace"] = "team"
            cluster = load(write(kubeconfig, content))
            assert ask(cluster) == 1
            assert server.received[0].headers["Authorization"] == "Bearer secret-1"
        assert cluster.namespace == "team"

    def test_an_expired_token_is_fetched_anew(self, kubeconfig: Path, plugin: Plugin) -> None:
        expired = plugin("{'token': f'secret-{count}', 'expirationTimestamp': '2020-01-01T00:00:00Z'}")
        cluster = load(write(kubeconfig, document(user=expired)))
        first, second = cluster.token(), cluster.token()
        assert first
        assert second
        assert first != second

    def test_its_certificate_is_shown(self, kubeconfig: Path, certificates: Certificates, plugin: Plugin) -> None:
        pair = {"clientCertificateData": certificates.certificate, "clientKeyData": certificates.key}
        user = plugin(repr({name: path.read_text() for name, path in pair.items()}))
        with ScriptedServer([answer(b"1")], server_tls(certificates, client_ca=certificates.ca)) as server:
            content = document(server.url, user, cluster={"certificate-authority": str(certificates.ca)})
            assert ask(load(write(kubeconfig, content))) == 1

    def test_the_first_file_s_context_counts_for_plugins_too(self, tmp_path: Path, plugin: Plugin) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        write(first, {"current-context": "x"})
        write(second, document(user=plugin("{'token': 'secret'}")) | {"current-context": "nobody"})
        assert load(f"{first}:{second}").token() == "secret"

    @pytest.mark.parametrize("status", ["sys.exit('no network')", "{}", "{'token': ''}", "exec('raise OSError')"])
    def test_a_plugin_that_fails_is_an_error(self, kubeconfig: Path, plugin: Plugin, status: str) -> None:
        with pytest.raises(ConfigError, match=r"config: users\[u\]\.user\.exec: .*(credentials|token)"):
            load(write(kubeconfig, document(user=plugin(status))))

    def test_without_the_package_that_asks(
        self, kubeconfig: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "kubernetes", None)
        with pytest.raises(ConfigError, match=r"exec: .*pip install kubernetes, or use a kubeconfig with a token"):
            load(write(kubeconfig, document(user=plugin("{'token': 'secret'}"))))

    def test_a_plugin_that_is_not_installed(self, kubeconfig: Path) -> None:
        user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
        with pytest.raises(ConfigError, match=r"users\[u\]\.user\.exec: "):
            load(write(kubeconfig, document(user=user)))


HTTPS = "https://127.0.0.1:1"


def check_refused(kubeconfig: Path, content: dict[str, Any], error: str) -> None:
    """The error names the file, the field and the fix, and no secret."""
    with pytest.raises(ConfigError, match=error) as caught:
        load(write(kubeconfig, content)).token()
    assert str(kubeconfig) in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param({"current-context": ""}, "current-context is not set.*use-context", id="no-current-context"),
        pytest.param(
            {"current-context": "y"}, r"current-context: contexts.*named 'y' \(there: x\)", id="context-missing"
        ),
        pytest.param({"contexts": None}, r"contexts has no entry named 'x' \(there: none\)", id="no-contexts"),
        pytest.param({"contexts": {"x": 1}}, "contexts has no entry", id="contexts-are-odd"),
        pytest.param(
            {"contexts": [{"name": "x", "context": [1]}]}, r"contexts\[x\].context is no", id="context-is-a-list"
        ),
        pytest.param({"clusters": [7]}, r"contexts\[x\]\.context\.cluster: clusters.*'c'", id="cluster-missing"),
        pytest.param({"users": []}, r"contexts\[x\]\.context\.user: users.*'u'", id="user-missing"),
    ],
)
def test_mistake_in_contexts_clusters_or_users_is_named(kubeconfig: Path, change: dict[str, Any], error: str) -> None:
    check_refused(kubeconfig, document() | change, error)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param(
            {"server": None}, r"clusters\[c\]\.cluster\.server: None is not the URL.*https://HOST:PORT", id="no-server"
        ),
        pytest.param({"server": "10.0.0.1:6443"}, "not the URL of an API server", id="server-without-scheme"),
        pytest.param({"server": 6443}, "server is not text; put it in quotes", id="server-is-a-number"),
        pytest.param({"server": "https://h:99999"}, "not the URL", id="server-with-a-bad-port"),
        pytest.param({"server": "https://[::1"}, "not the URL", id="server-with-a-bad-address"),
        pytest.param({"server": "https://:6443"}, "not the URL", id="server-without-host"),
        pytest.param({"server": "https://h\r\nX: y"}, "not the URL", id="server-with-a-line-end"),
        pytest.param({"server": "https://h/knöten"}, "not the URL", id="server-of-another-script"),
        pytest.param(
            {"proxy-url": "http://p"}, r"clusters\[c\]\.cluster\.proxy-url is not supported: .*directly", id="proxy"
        ),
        pytest.param({"certificate-authority": "no"}, "certificate-authority: .*No such file", id="ca-missing"),
        pytest.param({"certificate-authority-data": "bm8="}, "certificate-authority-data: no CA", id="ca-no-pem"),
        pytest.param({"certificate-authority-data": "n;o"}, "authority-data is not base64", id="ca-no-base64"),
        pytest.param({"certificate-authority-data": "ü"}, "is not base64", id="ca-of-another-script"),
        pytest.param({"insecure-skip-tls-verify": "false"}, "verify is neither true nor false", id="insecure-no-flag"),
    ],
)
def test_mistake_in_a_cluster_is_named(kubeconfig: Path, change: dict[str, Any], error: str) -> None:
    check_refused(kubeconfig, document(cluster=change), error)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param({"as": "root"}, r"users\[u\]\.user\.as is not supported", id="impersonation"),
        pytest.param(
            {"username": "me", "password": "hunter2"}, "username is not supported: .*use a token", id="password"
        ),
        pytest.param({"token": 12345}, r"users\[u\]\.user\.token is not text", id="token-is-a-number"),
        pytest.param({"token": "hunter2 x"}, "user.token holds characters", id="token-is-two"),
        pytest.param({"tokenFile": "hunter"}, "hunter: No such file", id="token-file-missing"),
        pytest.param({"client-certificate-data": "bm8="}, "client-key go together; one is missing", id="key-missing"),
        pytest.param({"client-key-data": "bm8="}, "go together; one is missing", id="certificate-missing"),
        pytest.param(
            {"client-certificate-data": "bm8=", "client-key": "no"}, r"users\[u\]\.user: .*pair", id="no-pair"
        ),
    ],
)
def test_mistake_in_a_user_is_named(kubeconfig: Path, change: dict[str, Any], error: str) -> None:
    check_refused(kubeconfig, document(user=change), error)


@pytest.mark.parametrize(
    ("content", "times", "words"),
    [
        pytest.param("", 1, "current-context is not set", id="empty"),
        pytest.param("a: [", 1, "line 2: not YAML", id="broken"),
        pytest.param("- a\n- b\n", 1, "holds no mapping", id="a-list"),
        pytest.param("just text", 1, "holds no mapping", id="text"),
        pytest.param("\x7fELF\x02\x01\x01\x00\x00", 1, "not YAML", id="a-program"),
        pytest.param("a: \x80\x81", 1, "not YAML", id="bytes"),
        pytest.param("a: b\n", 4000000, "is larger than 16 MiB", id="huge"),
    ],
)
def test_files_that_are_no_kubeconfig(kubeconfig: Path, content: str, times: int, words: str) -> None:
    kubeconfig.write_bytes(content.encode("latin-1") * times)
    with pytest.raises(ConfigError, match=words) as caught:
        load(str(kubeconfig))
    assert str(kubeconfig) in str(caught.value)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"kubeconfig {tmp_path}/none: No such file or directory"):
        load(f"{tmp_path}/none")
    with pytest.raises(ConfigError, match=f"kubeconfig {tmp_path}: Is a directory"):
        load(str(tmp_path))


def test_an_encrypted_key_asks_nobody_for_a_password(kubeconfig: Path, certificates: Certificates) -> None:
    key = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"password")
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    (kubeconfig.parent / "key").write_bytes(text)
    user = {"client-certificate": str(certificates.certificate), "client-key": "key"}
    with pytest.raises(ConfigError, match=r"users\[u\]\.user: the client key is encrypted; decrypt it"):
        load(write(kubeconfig, document(HTTPS, user)))


def bare_certificates(folder: Path) -> Certificates:
    """A CA and a server certificate with no extensions but those that everybody needs."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        named = x509.CertificateBuilder().subject_name(subject).issuer_name(authority).public_key(public)
        dated = named.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        return dated.serial_number(x509.random_serial_number())

    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    root = builder(authority, ca_key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    leaf = builder(x509.Name([]), key.public_key()).add_extension(names, critical=True)
    pem = serialization.Encoding.PEM
    files = Certificates(folder / "bare-ca.crt", folder / "bare.crt", folder / "bare.key")
    files.ca.write_bytes(root.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    files.certificate.write_bytes(leaf.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    plain = serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return files


def test_a_context_by_name_and_the_service_account_is_not_asked(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("secret")
    content = document() | {"contexts": [{"name": n, "context": {"cluster": n, "user": "u"}} for n in "xy"]}
    content["clusters"] = [{"name": n, "cluster": {"server": f"http://{n}"}} for n in "xy"]
    environ = {"KUBECONFIG": write(tmp_path / "config", content), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert load(None, environ, account, context="y").server == "http://y"
    with pytest.raises(ConfigError, match=r"--context: contexts has no entry named 'z' \(there: x, y\)"):
        load(None, environ, account, context="z")
