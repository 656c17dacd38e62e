"""The API server that tests share: how it is started, and what is said when it ends by itself."""

import os
from pathlib import Path

import pytest
from tools.apiserver.server import Binaries, RealApiServer, ServerError, go_environment

_DIES_LIKE_GO = """
echo starting
echo 'fatal error: concurrent map read and map write' >&2
for goroutine in $(seq 500); do echo "goroutine $goroutine [running]:" >&2; done
exit 2
"""


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def dying_server(tmp_path: Path) -> RealApiServer:
    """A server whose kube-apiserver ends the moment it is started."""
    etcd = _program(tmp_path / "etcd-program", "exec sleep 60")
    apiserver = _program(tmp_path / "kube-apiserver-program", _DIES_LIKE_GO)
    folder = tmp_path / "server"
    folder.mkdir()
    return RealApiServer(Binaries(etcd, apiserver), folder)


@pytest.mark.regression
def test_server_that_ends_names_the_error_and_not_the_last_goroutine(dying_server: RealApiServer) -> None:
    with pytest.raises(ServerError) as raised, dying_server:
        pass

    message = str(raised.value)
    assert message.startswith(f"kube-apiserver ended; logs are in {dying_server.folder}\n")
    assert "kube-apiserver.log: ...fatal error: concurrent map read and map write\n" in message
    assert "goroutine 500" not in message


@pytest.mark.regression
def test_stop_keeps_the_logs_of_a_server_that_ended(dying_server: RealApiServer) -> None:
    dying_server.launch()
    os.waitid(os.P_PID, dying_server.pid("kube-apiserver"), os.WEXITED | os.WNOWAIT)

    with pytest.raises(ServerError, match="concurrent map"):
        dying_server.check()
    dying_server.stop()

    assert (dying_server.folder / "kube-apiserver.log").is_file()


@pytest.mark.parametrize(
    ("version", "processors"),
    [
        pytest.param("v1.30.14", "1", id="with-the-race"),
        pytest.param("v1.36.0", None, id="without"),
        pytest.param("v1.37.2", None, id="latest"),
    ],
)
def test_server_of_kubernetes_with_the_race_gets_one_processor(version: str, processors: str | None) -> None:
    assert go_environment(version).get("GOMAXPROCS") == processors
