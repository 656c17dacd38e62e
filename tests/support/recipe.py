"""The steps of docs/maintainers/new-system.md that a plugin has not taken: what they leave is checked, not how."""

import importlib.resources
import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from tests.support.paths import CRD, ROOT
from toposcope.integrations.framework.plugin import Plugin, PluginPart
from toposcope.kube.discovery import Kind

PAGE = ROOT / "docs" / "maintainers" / "new-system.md"
MANIFESTS = ROOT / "manifests"
GUIDES = ROOT / "docs"
TESTS = ROOT / "tests" / "integrations"
FOLLOWS = frozenset({"list", "watch"})
WRITES = frozenset({"get", "list", "watch", "create", "patch", "delete"})

UNWATCHED = {
    "kuberay": "its objects ask for no level themselves",
    "osmo": "its workflows are no objects of the API server",
    "runai": "its workloads are no objects of the API server",
}
"""Systems whose workloads the controller need not watch, and why."""
GENERATED = re.compile(r"<!-- generated: .*?<!-- end: [^>]*>", re.DOTALL)
OWN_FILES = frozenset({"test_new_system.py", "test_recipe.py"})
"""Tests of the recipe itself, which name made-up systems."""

Rights = dict[tuple[str, str], set[str]]
"""Verbs by API group and plural."""


def missing_steps(plugin: Plugin) -> list[str]:
    """`Step 6: rights: the controller may not watch gangs.slotwise.example.com`, one for each omission."""
    omissions = []
    for step, omission in _missing(plugin):
        heading = _heading(step)
        omissions.append(f"{heading}: {omission}")
    return omissions


def _heading(step: int) -> str:
    """The heading of a step on the page, so that the two cannot part."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"## Step {step}:"):
            return line.removeprefix("## ")
    raise AssertionError(f"{PAGE} has no step {step}")


def _missing(plugin: Plugin) -> Iterator[tuple[int, str]]:
    """The number of a step, and what it leaves out."""
    has_workload_reader = plugin.part(PluginPart.WORKLOAD) is not None
    if has_workload_reader and not plugin.watched and plugin.name not in UNWATCHED:
        yield 1, f"the controller watches no kind of {plugin.title}"
    if has_workload_reader and not _has_field_list(plugin):
        yield 2, f"no field_uses.yaml lists the fields of {plugin.title}"
    if plugin.watched and not has_workload_reader:
        watched = plugin.watched[0]
        yield 2, f"nobody reads {watched.kind}s"
    if plugin.published and plugin.part(PluginPart.PUBLISHER) is None:
        published = plugin.published[0]
        yield 4, f"nobody writes {published.kind}s"
    yield from _missing_elsewhere(plugin)


def _missing_elsewhere(plugin: Plugin) -> Iterator[tuple[int, str]]:
    """The steps outside of the system's folder."""
    for omission in _missing_rights(plugin):
        yield 6, omission
    for omission in _missing_options(plugin):
        yield 7, omission
    if not _is_documented(plugin):
        yield 8, f"no page of docs/ is about {plugin.title}"
    if not _is_tested(plugin):
        yield 9, f"no file of tests/integrations/ names {plugin.title}"


def _has_field_list(plugin: Plugin) -> bool:
    folder = importlib.resources.files(plugin.package)
    return (folder / "field_uses.yaml").is_file()


def _missing_rights(plugin: Plugin) -> Iterator[str]:
    controller = _rights("base/controller-rbac.yaml")
    for kind in [*plugin.watched, *plugin.followed]:
        yield from _missing_verbs(controller, kind, FOLLOWS)
    for kind in plugin.published:
        yield from _missing_verbs(controller, kind, WRITES)

    page = _rights("components/ui/rbac.yaml")
    prune = _rights("prune/rbac.yaml")
    for kind in plugin.published:
        if "delete" not in prune.get((kind.group, kind.plural), set()):
            yield f"toposcope uninstall may not delete {kind.name}"
        if "list" not in page.get((kind.group, kind.plural), set()):
            yield f"the page may not list {kind.name}"
        if not _is_confined(kind):
            yield f"no policy confines the controller's {kind.name}"


def _missing_verbs(rights: Rights, kind: Kind, verbs: frozenset[str]) -> Iterator[str]:
    granted = rights.get((kind.group, kind.plural), set())
    missing = ", ".join(sorted(verbs - granted))
    if missing:
        yield f"the controller may not {missing} {kind.name}"


def _rights(file: str) -> Rights:
    """What the ClusterRole in a manifest grants."""
    rights: Rights = {}
    for rule in _rules(file, "ClusterRole"):
        for group in rule["apiGroups"]:
            for plural in rule["resources"]:
                rights.setdefault((group, plural), set()).update(rule["verbs"])
    return rights


def _rules(file: str, kind: str) -> Iterator[dict[str, Any]]:
    for document in _documents(file):
        if document["kind"] == kind:
            yield from document["rules"]


def _documents(file: str) -> Iterable[dict[str, Any]]:
    text = (MANIFESTS / file).read_text(encoding="utf-8")
    return list(yaml.load_all(text, yaml.CSafeLoader))


def _missing_options(plugin: Plugin) -> Iterator[str]:
    options = _publish_options()
    for kind in plugin.published:
        if kind.option not in options:
            yield f"spec.publish has no field {kind.option}"


def _is_confined(kind: Kind) -> bool:
    for document in _documents("components/admission-policy/controller-published.yaml"):
        constraints = document["spec"].get("matchConstraints", {})
        for rule in constraints.get("resourceRules", ()):
            has_group = kind.group in rule["apiGroups"]
            if has_group and kind.plural in rule["resources"]:
                return True
    return False


def _publish_options() -> set[str]:
    """The fields of `spec.publish`."""
    crd = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)
    version = crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]
    publish = spec["properties"]["publish"]
    return set(publish["properties"])


def _is_documented(plugin: Plugin) -> bool:
    """Whether what is written by hand names the system on some page."""
    for page in [*GUIDES.glob("*.md"), *GUIDES.glob("integrations/*.md")]:
        text = page.read_text(encoding="utf-8")
        by_hand = GENERATED.sub("", text)
        if _names(by_hand, plugin):
            return True
    return False


def _is_tested(plugin: Plugin) -> bool:
    """Whether a test of the systems names this one, or stands in its folder."""
    folder = TESTS / plugin.name
    if folder.is_dir():
        return True
    for file in TESTS.rglob("*.py"):
        if file.name in OWN_FILES:
            continue
        text = file.read_text(encoding="utf-8")
        if _names(text, plugin):
            return True
    return False


def _names(text: str, plugin: Plugin) -> bool:
    """Whether a text names the system, or an object that is checked by what it makes."""
    if plugin.title in text:
        return True
    making = plugin.part(PluginPart.MAKING)
    if making is None:
        return False
    return any(kind in text for _, kind in making.MADE)
