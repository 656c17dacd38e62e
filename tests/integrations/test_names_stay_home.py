"""A system is named in its own folder and in few other files: its resource's spec, the registry, help texts."""

import re

import pytest
from tests.support.paths import ROOT
from toposcope.integrations.framework.field_uses import FILE
from toposcope.integrations.registry import FOLDERS

PRODUCT = ROOT / "toposcope"
MOST_FILES = 8
WORDS = {
    "dynamo": "dynamo",
    "grove": "grove",
    "runai": "run:ai",
    "kai": "kai",
    "kueue": "kueue",
    "disaggregatedset": "disaggregatedset",
    "lws": "leaderworkerset",
    "jobset": "jobset",
    "kuberay": "kuberay",
    "kubeflow": "kubeflow",
    "appwrapper": "appwrapper",
    "volcano": "volcano",
    "osmo": "osmo",
    "slurm": "slurm",
    "nccl": "nccl",
}
"""What people call it, by its folder; Kubernetes is everywhere."""
IMPORTS_DRA = re.compile(r"^from toposcope[.]integrations([.]dra[. ]| import dra\b)", re.MULTILINE)
TEXTS = frozenset({".py", ".yaml", ".toml", ".ts", ".tsx"})


def files_naming(folder: str, word: str) -> list[str]:
    """The files outside of the system's folder with its name in them, in any case."""
    own = PRODUCT / "integrations" / folder
    naming = []
    for path in sorted(PRODUCT.rglob("*")):
        if path.suffix not in TEXTS or own in path.parents or "node_modules" in path.parts:
            continue
        if path == PRODUCT / "rank.py":  # one file for jobs, which have no registry to ask
            continue
        if path.name == FILE:  # its fields are called as their projects call them
            continue
        text = path.read_text(encoding="utf-8").lower()
        if word in text or folder in text:
            naming.append(str(path.relative_to(PRODUCT)))
    return naming


@pytest.mark.parametrize(("folder", "word"), WORDS.items(), ids=WORDS)
def test_system_is_named_in_few_files_outside_its_folder(folder: str, word: str) -> None:
    naming = files_naming(folder, word)
    assert len(naming) <= MOST_FILES, naming


def test_dynamic_resource_allocation_is_imported_by_few_files() -> None:
    """The word itself is everywhere: it is an API of Kubernetes, by which the agent reads devices."""
    own = PRODUCT / "integrations" / "dra"
    importing = []
    for path in sorted(PRODUCT.rglob("*.py")):
        if own not in path.parents and IMPORTS_DRA.search(path.read_text(encoding="utf-8")):
            importing.append(str(path.relative_to(PRODUCT)))
    assert 1 <= len(importing) <= MOST_FILES, importing


def test_every_system_is_counted() -> None:
    assert set(WORDS) | {"kubernetes"} == set(FOLDERS)


def test_registry_is_a_file_that_names_systems() -> None:
    assert "integrations/registry.py" in files_naming("kueue", "kueue")
