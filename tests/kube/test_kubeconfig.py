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
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import ConfigError, UnreachableError
from toposcope.kube.requests import get
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.text import parse

VERSION = get("/version")
Plugin = Callable[[str], dict[str, Any]]


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def inline_pair(certificates: Certificates) -> dict[str, str]:
    """A user with a client certificate and its key."""
    return {
        "client-certificate-data": encoded(certificates.certificate),
        "client-key-data": encoded(certificates.key),
    }


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def load_document(kubeconfig: Path, content: dict[str, Any]) -> ClusterAccess:
    """The cluster of a kubeconfig with this content."""
    return load(write(kubeconfig, content))


def ask(cluster: ClusterAccess) -> Any:
    with closing(ApiClient(cluster)) as client:
        return parse(client.read(VERSION))


def one_answer(certificates: Certificates, **options: Any) -> ScriptedServer:
    """A server that answers once, and wants a client certificate where there are options."""
    return ScriptedServer([answer(b"1")], server_tls(certificates, **options))


@pytest.fixture
def tls_server(certificates: Certificates) -> Iterator[ScriptedServer]:
    with ScriptedServer([answer(b"1")], server_tls(certificates)) as server:
        yield server


class TestCredentials:
    def test_a_token(self, kubeconfig: Path) -> None:
        content = document(user={"token": "secret"})
        cluster = load_document(kubeconfig, content)
        assert cluster.token() == "secret"
        assert cluster.server == "https://127.0.0.1:1"
        assert cluster.namespace == "default"

    @pytest.mark.regression
    @pytest.mark.parametrize("kind", ["token", "tokenFile", "exec", "client-certificate"])
    def test_none_without_tls(
        self, kubeconfig: Path, plugin: Plugin, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As kubectl does."""
        user = plugin("{'token': 'secret'}") if kind == "exec" else {kind: "secret"}
        with ScriptedServer([answer(b"1"), answer(b"2")]) as server:
            cluster = load_document(kubeconfig, document(server.url, user))
            assert ask(cluster) == 1
            assert ask(cluster) == 2
        first, second = server.received
        assert first.headers["Authorization"] is None
        assert second.headers["Authorization"] is None
        assert not (kubeconfig.parent / "calls").exists()  # the plugin was not even asked
        [record] = caplog.records
        assert "users[u].user: credentials are not sent, because" in record.getMessage()
        assert record.getMessage().endswith("clusters[c].cluster.server is not https")

    def test_a_token_file_is_relative_to_the_kubeconfig_and_read_anew(self, kubeconfig: Path) -> None:
        token = kubeconfig.parent / "token"
        token.write_text("first\n")
        content = document(user={"tokenFile": "token", "token": "other"})
        cluster = load_document(kubeconfig, content)
        assert cluster.token() == "first"
        token.write_text("second\n")
        assert cluster.token() == "second"

    def test_nobody(self, kubeconfig: Path) -> None:
        content = document()
        context = content["contexts"][0]["context"]
        del context["user"]
        del content["users"]
        cluster = load_document(kubeconfig, content)
        assert cluster.token() is None
        content = document()
        content["users"] = [{"name": "u", "user": None}]
        cluster = load_document(kubeconfig, content)
        assert cluster.token() is None

    def test_namespace_and_names_of_any_script(self, kubeconfig: Path) -> None:
        text = json.dumps(document(user={"token": "t"}))
        text = text.replace('"u"', '"büro-東京"')
        text = text.replace('"x"', '"ключ"')
        content = json.loads(text)
        context = content["contexts"][0]["context"]
        context["namespace"] = "team"
        cluster = load_document(kubeconfig, content)
        assert cluster.namespace == "team"

    def test_json_and_a_byte_order_mark(self, kubeconfig: Path) -> None:
        text = json.dumps(document(user={"token": "t"}))
        kubeconfig.write_text(text, encoding="utf-8-sig")
        cluster = load(str(kubeconfig))
        assert cluster.token() == "t"

    @pytest.mark.parametrize("inline", [True, False])
    def test_a_client_certificate(self, kubeconfig: Path, certificates: Certificates, inline: bool) -> None:
        folder = kubeconfig.parent
        for name in ("ca", "certificate", "key"):
            original: Path = getattr(certificates, name)
            (folder / name).write_bytes(original.read_bytes())
        user = {"client-certificate": "certificate", "client-key": "key"}
        ca = {"certificate-authority": "ca"}
        if inline:
            user = {
                "client-certificate-data": encoded(folder / "certificate"),
                "client-key-data": encoded(folder / "key"),
            }
            ca = {"certificate-authority-data": encoded(folder / "ca")}
        with one_answer(certificates, client_ca=certificates.ca) as server:
            content = document(server.url, user, cluster=ca)
            assert ask(load_document(kubeconfig, content)) == 1

    def test_an_inline_client_certificate_needs_no_folder_that_can_be_written(
        self, kubeconfig: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
        user = inline_pair(certificates)
        ca = {"certificate-authority-data": encoded(certificates.ca)}
        before = open_descriptors()
        with one_answer(certificates, client_ca=certificates.ca) as server:
            content = document(server.url, user, cluster=ca)
            assert ask(load_document(kubeconfig, content)) == 1
        assert open_descriptors() == before

    def test_without_memory_files_the_error_says_what_to_do(
        self, kubeconfig: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("toposcope.kube.kubeconfig._MEMORY_FILES", False)
        monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
        user = inline_pair(certificates)
        content = document(HTTPS, user)
        with pytest.raises(ConfigError, match=r"\[u\]\.user: .* needs a writable temporary directory .* set TMPDIR"):
            load_document(kubeconfig, content)

    def test_a_pipe_is_read_once(self, certificates: Certificates, tls_server: ScriptedServer) -> None:
        ca = {"certificate-authority-data": encoded(certificates.ca)}
        reading, writing = os.pipe()
        content = document(tls_server.url, cluster=ca)
        with os.fdopen(writing, "w") as file:
            json.dump(content, file)
        for _ in range(2):  # as a command that connects twice
            cluster = load(f"/dev/fd/{reading}")
            assert cluster.server == tls_server.url
        os.close(reading)

    def test_data_comes_before_files(
        self, kubeconfig: Path, certificates: Certificates, tls_server: ScriptedServer
    ) -> None:
        ca = {
            "certificate-authority": "/nonexistent",
            "certificate-authority-data": encoded(certificates.ca),
        }
        content = document(tls_server.url, cluster=ca)
        assert ask(load_document(kubeconfig, content)) == 1

    def test_folded_base64(self, kubeconfig: Path, certificates: Certificates, tls_server: ScriptedServer) -> None:
        text = "# Zürich\n".encode() + certificates.ca.read_bytes()
        folded = base64.encodebytes(text).decode()
        ca = {"certificate-authority-data": folded}
        content = document(tls_server.url, cluster=ca)
        assert ask(load_document(kubeconfig, content)) == 1


class TestServers:
    def test_without_its_ca_a_server_is_a_stranger(self, kubeconfig: Path, tls_server: ScriptedServer) -> None:
        cluster = load_document(kubeconfig, document(tls_server.url))
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            ask(cluster)

    def test_verification_can_be_switched_off(self, kubeconfig: Path, tls_server: ScriptedServer) -> None:
        unverified = {"insecure-skip-tls-verify": True}
        content = document(tls_server.url, cluster=unverified)
        assert ask(load_document(kubeconfig, content)) == 1

    def test_tls_server_name(self, kubeconfig: Path, certificates: Certificates) -> None:
        ca = {"certificate-authority": str(certificates.ca)}
        with ScriptedServer([answer(b"1")], server_tls(certificates), host="127.0.0.2") as server:
            stranger = load_document(kubeconfig, document(server.url, cluster=ca))
            with pytest.raises(UnreachableError, match=r"127\.0\.0\.2"):
                ask(stranger)
            ca["tls-server-name"] = "localhost"
            known = load_document(kubeconfig, document(server.url, cluster=ca))
            assert ask(known) == 1
            host = server.received[0].headers["Host"]
            assert host == server.url.removeprefix("https://")

    def test_a_ca_without_key_identifiers(self, kubeconfig: Path) -> None:
        """Those of EKS and MicroK8s have none; Python 3.13 refuses them by default."""
        bare = bare_certificates(kubeconfig.parent)
        ca = {"certificate-authority": str(bare.ca)}
        with one_answer(bare) as server:
            content = document(server.url, cluster=ca)
            assert ask(load_document(kubeconfig, content)) == 1

    def test_the_embedded_server_s_own(self, kubeconfig: Path, embedded_server: EmbeddedApiServer) -> None:
        embedded_server.write_kubeconfig(kubeconfig)
        version = ask(load(str(kubeconfig)))
        assert version["major"] == "1"


class TestSeveralFiles:
    def test_the_first_that_names_something_counts(self, tmp_path: Path) -> None:
        one = tmp_path / "one"
        two = tmp_path / "two"
        one.mkdir()
        two.mkdir()
        first = one / "config"
        second = two / "config"
        (two / "token").write_text("from-two")
        contexts = document()["contexts"]
        write(first, {"current-context": "x", "contexts": contexts})
        content = document("https://second", {"tokenFile": "token"})
        content["current-context"] = "other"
        write(second, content)
        spec = f"{first}:/nonexistent:{second}"
        cluster = load(spec)
        assert cluster.server == "https://second"
        assert cluster.token() == "from-two"
        content = document("https://first", {"token": "from-one"})
        write(first, content)
        cluster = load(spec)
        assert cluster.server == "https://first"
        assert cluster.token() == "from-one"

    def test_an_empty_file_is_none(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        full = tmp_path / "full"
        empty.touch()
        write(full, document("http://full"))
        cluster = load(f"{empty}:{full}")
        assert cluster.server == "http://full"


class TestPlugins:
    def test_its_token_is_sent(self, kubeconfig: Path, plugin: Plugin, certificates: Certificates) -> None:
        user = plugin("{'token': f'secret-{count}'}")
        ca = {"certificate-authority": str(certificates.ca)}
        with one_answer(certificates) as server:
            content = document(server.url, user, cluster=ca)
            context = content["contexts"][0]["context"]
            context["namespace"] = "team"
            cluster = load_document(kubeconfig, content)
            assert ask(cluster) == 1
            (received,) = server.received
            assert received.headers["Authorization"] == "Bearer secret-1"
        assert cluster.namespace == "team"

    def test_an_expired_token_is_fetched_anew(self, kubeconfig: Path, plugin: Plugin) -> None:
        expired = plugin("{'token': f'secret-{count}', 'expirationTimestamp': '2020-01-01T00:00:00Z'}")
        cluster = load_document(kubeconfig, document(user=expired))
        first = cluster.token()
        second = cluster.token()
        assert first
        assert second
        assert first != second

    def test_its_certificate_is_shown(self, kubeconfig: Path, certificates: Certificates, plugin: Plugin) -> None:
        status = {
            "clientCertificateData": certificates.certificate.read_text(),
            "clientKeyData": certificates.key.read_text(),
        }
        user = plugin(repr(status))
        ca = {"certificate-authority": str(certificates.ca)}
        with one_answer(certificates, client_ca=certificates.ca) as server:
            content = document(server.url, user, cluster=ca)
            assert ask(load_document(kubeconfig, content)) == 1

    def test_the_first_file_s_context_counts_for_plugins_too(self, tmp_path: Path, plugin: Plugin) -> None:
        first = tmp_path / "first"
        second = tmp_path / "second"
        write(first, {"current-context": "x"})
        content = document(user=plugin("{'token': 'secret'}"))
        content["current-context"] = "nobody"
        write(second, content)
        cluster = load(f"{first}:{second}")
        assert cluster.token() == "secret"

    @pytest.mark.parametrize(
        "status",
        [
            pytest.param("sys.exit('no network')", id="exit"),
            pytest.param("{}", id="no-token"),
            pytest.param("{'token': ''}", id="empty-token"),
            pytest.param("exec('raise OSError')", id="exception"),
        ],
    )
    def test_a_plugin_that_fails_is_an_error(self, kubeconfig: Path, plugin: Plugin, status: str) -> None:
        content = document(user=plugin(status))
        with pytest.raises(ConfigError, match=r"config: users\[u\]\.user\.exec: .*(credentials|token)"):
            load_document(kubeconfig, content)

    def test_without_the_package_that_asks(
        self, kubeconfig: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "kubernetes", None)
        content = document(user=plugin("{'token': 'secret'}"))
        with pytest.raises(ConfigError, match=r"exec: .*pip install kubernetes, or use a kubeconfig with a token"):
            load_document(kubeconfig, content)

    def test_a_plugin_that_is_not_installed(self, kubeconfig: Path) -> None:
        command = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "no-such-plugin",
        }
        content = document(user={"exec": command})
        with pytest.raises(ConfigError, match=r"users\[u\]\.user\.exec: "):
            load_document(kubeconfig, content)


HTTPS = "https://127.0.0.1:1"


def check_refused(kubeconfig: Path, content: dict[str, Any], error: str) -> None:
    """The error names the file, the field and the fix, and no secret."""
    with pytest.raises(ConfigError, match=error) as caught:
        load_document(kubeconfig, content).token()
    message = str(caught.value)
    assert str(kubeconfig) in message
    assert "hunter2" not in message
    assert "12345" not in message


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param({"current-context": ""}, "current-context is not set.*use-context", id="no-current-context"),
        pytest.param(
            {"current-context": "y"}, r"current-context: contexts.*named 'y' \(existing: x\)", id="context-missing"
        ),
        pytest.param({"contexts": None}, r"contexts has no entry named 'x' \(existing: none\)", id="no-contexts"),
        pytest.param({"contexts": {"x": 1}}, "contexts has no entry", id="contexts-are-odd"),
        pytest.param(
            {"contexts": [{"name": "x", "context": [1]}]}, r"contexts\[x\].context is no", id="context-is-a-list"
        ),
        pytest.param({"clusters": [7]}, r"contexts\[x\]\.context\.cluster: clusters.*'c'", id="cluster-missing"),
        pytest.param({"users": []}, r"contexts\[x\]\.context\.user: users.*'u'", id="user-missing"),
    ],
)
def test_mistake_in_contexts_clusters_or_users_is_named(kubeconfig: Path, change: dict[str, Any], error: str) -> None:
    content = document()
    content.update(change)
    check_refused(kubeconfig, content, error)


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
            {"proxy-url": "http://p"},
            r"clusters\[c\]\.cluster\.proxy-url is not supported: .*without a proxy",
            id="proxy",
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
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        secret,
    )
    (kubeconfig.parent / "key").write_bytes(text)
    user = {
        "client-certificate": str(certificates.certificate),
        "client-key": "key",
    }
    content = document(HTTPS, user)
    with pytest.raises(ConfigError, match=r"users\[u\]\.user: the client key is encrypted; decrypt it"):
        load_document(kubeconfig, content)


def bare_certificates(folder: Path) -> Certificates:
    """A CA and a server certificate with no extensions but those that everybody needs."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    common_name = x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")
    authority = x509.Name([common_name])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        hour = timedelta(hours=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(public)
            .not_valid_before(now - hour)
            .not_valid_after(now + hour)
            .serial_number(x509.random_serial_number())
        )

    def pem(of: x509.CertificateBuilder) -> bytes:
        signed = of.sign(ca_key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    is_authority = x509.BasicConstraints(ca=True, path_length=None)
    root = builder(authority, ca_key.public_key())
    root = root.add_extension(is_authority, critical=True)
    address = x509.IPAddress(ip_address("127.0.0.1"))
    names = x509.SubjectAlternativeName([address])
    leaf = builder(x509.Name([]), key.public_key())
    leaf = leaf.add_extension(names, critical=True)
    files = Certificates(
        folder / "bare-ca.crt",
        folder / "bare.crt",
        folder / "bare.key",
    )
    files.ca.write_bytes(pem(root))
    files.certificate.write_bytes(pem(leaf))
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    files.key.write_bytes(key_text)
    return files


def test_a_context_by_name_and_the_service_account_is_not_asked(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("secret")
    content = document()
    content["contexts"] = []
    content["clusters"] = []
    for name in ("x", "y"):
        context = {"cluster": name, "user": "u"}
        content["contexts"].append({"name": name, "context": context})
        cluster = {"server": f"http://{name}"}
        content["clusters"].append({"name": name, "cluster": cluster})
    environ = {
        "KUBECONFIG": write(tmp_path / "config", content),
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    }
    assert load(None, environ, account, context="y").server == "http://y"
    with pytest.raises(ConfigError, match=r"--context: contexts has no entry named 'z' \(existing: x, y\)"):
        load(None, environ, account, context="z")
