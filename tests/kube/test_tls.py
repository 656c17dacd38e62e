"""Certificates that are rotated under a running client: CA files and client certificates."""

import logging
import ssl
from pathlib import Path

import pytest
from tests.kube.scripted import ScriptedServer, answer, kubeconfig_document, server_tls, write
from tools.apiserver.certificates import Certificates, make_certificates
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.credentials import RotatingTls
from toposcope.kube.errors import ConfigError, UnreachableError
from toposcope.kube.requests import get

VERSION = get("/version")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of another CA."""
    return make_certificates(tmp_path_factory.mktemp("others"))


def serving(certificates: Certificates, *, only_clients_of: Path | None = None) -> ssl.SSLContext:
    context = server_tls(certificates, only_clients_of)
    # In TLS 1.3 a client hears only after its first request that its certificate is refused.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def put(content: Path, where: Path) -> None:
    """Replace a file as tools do that rotate: by another one."""
    fresh = where.with_suffix(".new")
    fresh.write_bytes(content.read_bytes())
    fresh.rename(where)


def kubeconfig_of(folder: Path, server: str, certificates: Certificates) -> str:
    """A kubeconfig with `ca`, `certificate` and `key` beside it."""
    for name in ("ca", "certificate", "key"):
        put(getattr(certificates, name), folder / name)
    user = {"client-certificate": "certificate", "client-key": "key"}
    return write(folder / "config", kubeconfig_document(server, user, {"certificate-authority": "ca"}))


@pytest.mark.regression
def test_a_pod_trusts_a_new_ca_at_once(tmp_path: Path, certificates: Certificates, others: Certificates) -> None:
    for name, content in (("token", b"secret"), ("ca.crt", certificates.ca.read_bytes())):
        (tmp_path / name).write_bytes(content)
    with ScriptedServer([answer(b"1")], serving(others)) as server:
        port = server.url.rpartition(":")[2]
        where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        client = ApiClient(load(None, where, tmp_path))
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            client.read(VERSION)
        put(others.ca, tmp_path / "ca.crt")
        assert client.read(VERSION) == b"1"
        client.close()


@pytest.mark.regression
def test_a_new_certificate_is_shown_after_a_refusal(
    tmp_path: Path, certificates: Certificates, others: Certificates
) -> None:
    with ScriptedServer([answer(b"1")], serving(certificates, only_clients_of=others.ca)) as server:
        client = ApiClient(load(kubeconfig_of(tmp_path, server.url, certificates)))
        with pytest.raises(UnreachableError):
            client.read(VERSION)
        assert not server.received
        put(others.certificate, tmp_path / "certificate")
        put(others.key, tmp_path / "key")
        assert client.read(VERSION) == b"1"
        client.close()


def test_a_kept_connection_ends_with_the_certificate_that_it_was_made_with(
    tmp_path: Path, certificates: Certificates, others: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """A kube-apiserver answers 401 on it once the certificate has expired."""
    with ScriptedServer([answer(b"%d" % n) for n in range(4)], serving(certificates)) as server:
        client = ApiClient(load(kubeconfig_of(tmp_path, server.url, certificates)))
        assert [client.read(VERSION) for _ in range(2)] == [b"0", b"1"]
        put(others.certificate, tmp_path / "certificate")
        assert client.read(VERSION) == b"2"
        assert server.connections == 1, "half a pair is no reason to do anything"
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "changed and cannot be used; keeping the previous version: " in caplog.text
        put(others.key, tmp_path / "key")
        assert client.read(VERSION) == b"3"
        assert server.connections == 2
        client.close()


def test_a_file_that_is_missing_for_a_moment_changes_nothing(tmp_path: Path, certificates: Certificates) -> None:
    tls = load(kubeconfig_of(tmp_path, "https://127.0.0.1:1", certificates)).tls
    assert tls
    first = tls()
    assert tls() is first
    (tmp_path / "ca").unlink()
    assert tls() is first
    put(certificates.ca, tmp_path / "ca")
    assert tls() is not first


def test_a_folder_that_a_link_points_to_is_looked_into(tmp_path: Path) -> None:
    """As kubelet does it: `ca.crt` is a link into `..data`, which is a link too."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ca.crt").touch()
    (tmp_path / "data").symlink_to("one")
    made = []

    def make() -> ssl.SSLContext:
        made.append(1)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    tls = RotatingTls(make, [str(tmp_path / "data" / "ca.crt")])
    tls()
    assert len(made) == 1
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(tmp_path / "data")
    tls()
    tls()
    assert len(made) == 2


def test_what_is_wrong_from_the_start_ends_the_program() -> None:
    def make() -> ssl.SSLContext:
        raise ConfigError("no CA")

    with pytest.raises(ConfigError, match="no CA"):
        RotatingTls(make, ())
