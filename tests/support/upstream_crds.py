"""Other projects' CRDs: their own files where those are at hand, and else what tests rely on of them.

A CRD of its project comes from the folder beside the repository or out of a Go module of a pinned version, which is
downloaded once. Without either there is `DESCRIBED`, of tests/fixtures/upstream_crds.yaml.
tests/apiserver/test_upstream_crds.py holds one to the other.
"""

import copy
import functools
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.support.paths import FIXTURES, SHARED
from tools.apiserver.build import BuildError, cache_root, made_once, usable_go

Object = dict[str, Any]

_MODULES: dict[str, tuple[str, dict[str, str]]] = yaml.load(
    (FIXTURES / "upstream_modules.yaml").read_bytes(), yaml.CSafeLoader
)
"""Module and version to its checksum and the CRDs in it."""


def upstream_crd(name: str) -> Object:
    """The CRD of that project and version, a copy of its own."""
    return json.loads(_text(name))


@functools.cache
def _text(name: str) -> str:
    return json.dumps(published(name) or described(name))


@functools.cache
def published(name: str) -> Object | None:
    """The CRD as its project publishes it; None where it is not to be had."""
    file = SHARED / "crds" / f"{name}.yaml"
    if not file.is_file():
        file = _downloaded() / f"{name}.yaml"
    if not file.is_file():
        return None
    crd: Object = yaml.load(file.read_bytes(), yaml.CSafeLoader)
    return crd


@functools.cache
def _downloaded() -> Path:
    """The folder of the CRDs that come from Go modules; empty without Go or its module proxy."""
    digests = [checksum[3:9].replace("/", "_") for checksum, _ in _MODULES.values()]
    folder = cache_root() / "crds" / "-".join(digests)
    try:
        return made_once(folder, Path.is_dir, _download)
    except BuildError:
        return folder


def _download(folder: Path) -> None:
    command = [usable_go(), "mod", "download", "-json", *_MODULES]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    for module in _documents(process.stdout):
        path = module["Path"]
        version = module["Version"]
        checksum, files = _MODULES[f"{path}@{version}"]
        if module.get("Sum") != checksum:
            reason = module.get("Error") or "another checksum than the pinned one"
            raise BuildError(f"{path}: {reason}")
        source = Path(module["Dir"])
        for name, file in files.items():
            shutil.copy(source / file, folder / f"{name}.yaml")


def _documents(text: str) -> Iterator[Object]:
    """The JSON documents that stand one behind the other."""
    decoder = json.JSONDecoder()
    rest = text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        yield document
        rest = rest[end:].strip()


# In this project's words.

DESCRIBED: dict[str, Object] = yaml.load((FIXTURES / "upstream_crds.yaml").read_bytes(), yaml.CSafeLoader)
"""Project, kind and first version that has it, to the CRD."""


def described(name: str) -> Object:
    """The CRD in this project's words, a copy of its own; raises KeyError."""
    return copy.deepcopy(DESCRIBED[name])


def stand_in(group: str, versions: str, kind: str, plural: str, *, is_namespaced: bool = True) -> Object:
    """A CRD that takes anything in each of these versions, the first of which is stored."""
    metadata: Object = {"name": f"{plural}.{group}"}
    if group.endswith("k8s.io"):
        # Such a group needs the approval of its API; upstream's CRDs carry it too.
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved"}

    described_versions = []
    for number, version in enumerate(versions.split()):
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        described_versions.append(
            {
                "name": version,
                "served": True,
                "storage": number == 0,
                "schema": {"openAPIV3Schema": schema},
            }
        )

    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "scope": "Namespaced" if is_namespaced else "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": described_versions,
        },
    }
