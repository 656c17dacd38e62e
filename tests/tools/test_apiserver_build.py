"""Which Kubernetes the tests build."""

from pathlib import Path

import pytest
from tools.apiserver.build import NEWEST, kubernetes_module, made_once


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


@pytest.mark.parametrize("is_made", [pytest.param(True, id="made"), pytest.param(False, id="not-made")])
def test_what_a_run_is_not_limited_to_is_refused_made_or_not(
    is_made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.apiserver.build.LIMITED_TO", {"crds"})
    allowed = tmp_path / "crds" / "digest"
    refused = tmp_path / "helm" / "digest"

    assert made_once(allowed, lambda _: is_made, lambda _: None) == allowed
    with pytest.raises(RuntimeError, match="helm is made by a test that is not marked slow"):
        made_once(refused, lambda _: is_made, lambda _: None)
