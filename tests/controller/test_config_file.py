"""A configuration file that changes, is half written, goes and comes back."""

import logging
import os
from pathlib import Path

import pytest
from toposcope.controller.config_file import ConfigFile
from toposcope.hierarchy.catalogue import BUILT_IN

HEAD = "apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\n"


def text(key: str) -> str:
    return HEAD + f"catalogue:\n  keys:\n  - {{key: {key}, domain: rack}}\n"


def mounted(folder: Path, version: str, content: str) -> Path:
    """A ConfigMap as a kubelet mounts it: one link is turned from the old folder to the new."""
    (folder / version).mkdir()
    (folder / version / "config.yaml").write_text(content)
    (folder / "new").symlink_to(version)
    (folder / "new").rename(folder / "..data")
    if not (folder / "config.yaml").is_symlink():
        (folder / "config.yaml").symlink_to("..data/config.yaml")
    return folder / "config.yaml"


def racks(file: ConfigFile) -> tuple[str, ...]:
    return tuple(key for key in file.catalogue.keys["rack"] if key not in BUILT_IN.keys["rack"])


def test_a_missing_file_is_logged_once_at_info(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file = ConfigFile(tmp_path / "config.yaml")
    assert not file.look()
    assert not file.look()
    assert (file.catalogue, file.problems) == (BUILT_IN, ())
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage().endswith("config.yaml does not exist; using the built-in catalogue only")
    (tmp_path / "config.yaml").write_text(text("a/rack"))
    assert file.look()
    assert racks(file) == ("a/rack",)


def test_a_configmap_is_taken_over_at_once(tmp_path: Path) -> None:
    file = ConfigFile(mounted(tmp_path, "..1", text("a/rack")))
    assert file.look()
    assert not file.look()
    mounted(tmp_path, "..2", text("b/rack"))
    assert file.look()
    assert racks(file) == ("b/rack",)
    mounted(tmp_path, "..3", text("b/rack"))
    assert not file.look()  # other in name only


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text("a/rack"))
    file = ConfigFile(path)
    assert file.look()
    path.write_text(HEAD)  # whole YAML, and half of what is to come
    assert not file.look()
    path.write_text(text("longer.example.com/rack"))
    assert not file.look()
    assert racks(file) == ("a/rack",)
    assert file.look()
    assert racks(file) == ("longer.example.com/rack",)
    assert not file.look()


def test_a_broken_file_keeps_the_last_one_and_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = ConfigFile(mounted(tmp_path, "..1", text("a/rack")))
    file.look()
    mounted(tmp_path, "..2", HEAD + "catalogue: [\n")
    for _ in range(3):
        assert not file.look()
    assert racks(file) == ("a/rack",)
    (problem,) = file.problems
    assert "config.yaml:4: not YAML" in problem
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"{problem}; keeping the previous configuration"]
    mounted(tmp_path, "..3", text("c/rack"))
    assert file.look()
    assert file.problems == ()


def test_a_bad_entry_is_logged_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = ConfigFile(mounted(tmp_path, "..1", text("a/rack") + "  - {key: B/rack, domain: rack}\n"))
    assert file.look()
    assert racks(file) == ("a/rack",)
    assert len(file.problems) == 1
    assert "config.yaml:6: catalogue.keys[1].key: 'B/rack'" in caplog.text


def test_a_file_that_stays_away_is_no_longer_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text("a/rack"))
    file = ConfigFile(path)
    file.look()
    path.unlink()
    assert not file.look()
    path.write_text(text("a/rack"))
    assert not file.look()
    path.unlink()
    assert not file.look()
    assert racks(file) == ("a/rack",)
    assert file.look()
    assert racks(file) == ()
    assert "was removed; using the built-in catalogue" in caplog.text


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    folder = ConfigFile(tmp_path / "folder")
    assert not folder.look()
    assert "Is a directory" in folder.problems[0]
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        os.truncate(file.fileno(), 2 << 20)
    found = ConfigFile(large)
    assert not found.look()
    assert "a ConfigMap holds 1048576" in found.problems[0]
