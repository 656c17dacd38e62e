"""The steps of docs/maintainers/new-system.md that a plugin has not taken: what they leave is checked, not how."""

from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from tests.support.paths import CRD, ROOT
from toposcope.integrations.framework.plugin import Part, Plugin
from toposcope.kube.discovery import Kind

PAGE = ROOT / "docs" / "maintainers" / "new-system.md"
MANIFESTS = ROOT / "manifests"
GUIDES = ROOT / "docs" / "integrations"
FOLLOWS = frozenset({"list", "watch"})
WRITES = frozenset({"get", "list", "watch", "create", "patch", "delete"})


def missing_steps(plugin: Plugin) -> list[str]:
    """`Step 6: rights: the controller may not watch gangs.slotwise.example.com`, one for each omission."""
    return [f"{_heading(step)}: {what}" for step, what in _missing(plugin)]


def _heading(step: int) -> str:
    """The heading of a step on the page, so that the two cannot part."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"## Step {step}:"):
            return line.removeprefix("## ")
    raise AssertionError(f"{PAGE} has no step {step}")


def _missing(plugin: Plugin) -> Iterator[tuple[int, str]]:
    if plugin.watched and plugin.part(Part.WORKLOAD) is None:
        yield 2, f"nobody reads {plugin.watched[0].kind}s"
    if plugin.published and plugin.part(Part.PUBLISHER) is None:
        yield 4, f"nobody writes {plugin.published[0].kind}s"
    yield from _missing_rights(plugin)
    options = _publish_options()
    for kind in plugin.published:
        if kind.option not in options:
            yield 7, f"spec.publish has no field {kind.option}"
    if (plugin.watched or plugin.published) and not _is_documented(plugin.title):
        yield 8, f"no page of docs/integrations/ is about {plugin.title}"


def _missing_rights(plugin: Plugin) -> Iterator[tuple[int, str]]:
    controller = _rights("base/controller-rbac.yaml")
    for kinds, verbs in ((plugin.watched, FOLLOWS), (plugin.followed, FOLLOWS), (plugin.published, WRITES)):
        for kind in kinds:
            lacking = verbs - controller.get((kind.group, kind.plural), set())
            if lacking:
                yield 6, f"the controller may not {', '.join(sorted(lacking))} {kind.name}"
    page = _rights("components/ui/rbac.yaml")
    for kind in plugin.published:
        if "list" not in page.get((kind.group, kind.plural), set()):
            yield 6, f"the page may not list {kind.name}"
        if not _is_confined(kind):
            yield 6, f"no policy confines the controller's {kind.name}"


def _rights(file: str) -> dict[tuple[str, str], set[str]]:
    """The verbs of the ClusterRole in a manifest, by API group and plural."""
    rights: dict[tuple[str, str], set[str]] = {}
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
    return [*yaml.safe_load_all((MANIFESTS / file).read_text(encoding="utf-8"))]


def _is_confined(kind: Kind) -> bool:
    for document in _documents("components/admission-policy/controller-published.yaml"):
        for rule in document["spec"].get("matchConstraints", {}).get("resourceRules", ()):
            if kind.group in rule["apiGroups"] and kind.plural in rule["resources"]:
                return True
    return False


def _publish_options() -> set[str]:
    """The fields of `spec.publish`."""
    crd = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"]["publish"]["properties"])


def _is_documented(title: str) -> bool:
    return any(title in page.read_text(encoding="utf-8") for page in GUIDES.glob("*.md"))
