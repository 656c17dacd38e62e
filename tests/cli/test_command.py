"""What all commands have in common: how objects are named, and a server that does not answer."""

import socket
from pathlib import Path

import pytest
from tests.cli.clusters import plain
from tests.cli.conftest import Command, CommandOnCluster


@pytest.mark.regression
@pytest.mark.parametrize(
    ("words", "plain_words"),
    [
        pytest.param("matrix node/h200-1", "matrix h200-1", id="kind-and-name"),
        pytest.param("matrix nodes h200-1", "matrix h200-1", id="kind-name"),
        pytest.param("levels gtopo/cluster", "levels cluster", id="short-kind"),
        pytest.param("tree clustertopology.gpu.topology/cluster", "tree cluster", id="kind-with-group"),
        pytest.param("export --format kai clustertopologies cluster", "export --format kai cluster", id="plural-kind"),
    ],
)
def test_objects_are_named_as_kubectl_names_them(words: str, plain_words: str, toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(plain, words).out == toposcope_on(plain, plain_words).out


@pytest.mark.regression
def test_silent_server_is_given_up_with_the_flag_that_waits_longer(tmp_path: Path, toposcope: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections into its backlog, and never answers
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = tmp_path / "config"
        config.write_text(
            f"{{clusters: [{{name: c, cluster: {{server: '{server}'}}}}], current-context: c,"
            " contexts: [{name: c, context: {cluster: c}}]}"
        )
        err = toposcope(f"tree --kubeconfig {config} --request-timeout 1s", code=2).err
    assert err == (
        f"toposcope tree: {server} does not answer: timed out; "
        "it was silent for 1 s: --request-timeout 2m waits longer\n"
    )
