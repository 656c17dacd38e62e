"""Kubernetes objects in files of tests/documents/."""

import yaml
from tests.support.paths import DOCUMENTS
from tests.support.saved import Object


def read_manifests(name: str) -> list[Object]:
    """New objects of a file, such as `cli/claims.yaml`."""
    return list(yaml.safe_load_all((DOCUMENTS / name).read_text(encoding="utf-8")))


def read_manifest(name: str) -> Object:
    """The only object of a file."""
    (document,) = read_manifests(name)
    return document
