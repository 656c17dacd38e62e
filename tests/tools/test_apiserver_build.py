"""Which Kubernetes the tests build."""

import pytest
from tools.apiserver.build import NEWEST, kubernetes_module


@pytest.mark.parametrize(
    ("chosen", "folder"),
    [
        pytest.param("", NEWEST, id="usual"),
        pytest.param("oldest", NEWEST / "oldest", id="oldest"),
        pytest.param("latest", NEWEST / "latest", id="latest"),
    ],
)
def test_each_choice_pins_a_version(chosen: str, folder: object) -> None:
    module = kubernetes_module(chosen)
    assert module == folder
    assert "k8s.io/kubernetes v1." in (module / "go.mod").read_text(encoding="utf-8")


def test_another_choice_is_an_error_and_not_the_usual_version() -> None:
    with pytest.raises(ValueError, match="it must be oldest or latest"):
        kubernetes_module("lastest")
