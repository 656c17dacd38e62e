"""What `make test` says before pytest starts, about the API server that tests need."""

from pathlib import Path

import pytest
from tools.apiserver import prepare
from tools.apiserver.build import KUBERNETES, cache_of_module


def _program(folder: Path, name: str, script: str = "exit 1") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Go and without anything built; its programs are in `bin`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("TOPOSCOPE_REQUIRE_REAL_API", raising=False)
    return tmp_path


@pytest.mark.usefixtures("machine")
def test_prepare_without_go_says_which_tests_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare.main() == 0

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("No real API server: no `go` on PATH: install Go 1.26")
    assert lines[1] == "Tests use the embedded API server; those that need a real one are skipped."


@pytest.mark.usefixtures("machine")
def test_prepare_without_go_fails_where_a_real_server_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOSCOPE_REQUIRE_REAL_API", "1")

    assert prepare.main() == 1


def test_prepare_says_what_it_builds_before_go_runs(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _program(machine / "bin", "go", 'if [ "$1" = env ]; then echo go1.26.1; else exit 1; fi')

    assert prepare.main() == 0

    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("Building kube-apiserver v1.")
    assert first.endswith("once, about 4 minutes on two cores ...")


@pytest.mark.parametrize("place", ["assets", "path", "cache"])
def test_prepare_is_silent_where_the_programs_are_there(
    place: str, machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {
        "assets": machine / "assets",
        "path": machine / "bin",
        "cache": cache_of_module("apiserver", KUBERNETES),
    }
    folder = folders[place]
    _program(folder, "etcd")
    _program(folder, "kube-apiserver")
    if place == "assets":
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))

    assert prepare.main() == 0
    assert capsys.readouterr().err == ""


def test_prepare_names_an_assets_folder_that_holds_no_programs(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = machine / "empty"
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(empty))

    assert prepare.main() == 0
    said = capsys.readouterr().err
    assert f"KUBEBUILDER_ASSETS={empty} does not hold etcd" in said
