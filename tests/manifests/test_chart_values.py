"""No value of the chart can become YAML of its own: a text arrives as that text, where it belongs, or is refused.

The fields are derived from `values.schema.json`, so a new value is tried without being named here. A chart is rendered
twice with everything switched on: once with harmless texts, which mark the places that a field reaches, and once with a
hostile text in every field. Both must parse to the same objects but for these texts.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.support import Manifests
from tests.manifests.test_chart import CHART, NAMESPACE, Helm
from tests.support.programs import find_helm

pytestmark = pytest.mark.slow

HOSTILE = (
    "x\nhostNetwork: true",
    "x\n      hostNetwork: true\n      hostPID: true",
    "x\r\nprivileged: true",
    "x\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: planted}",
    "x: y",
    "x # y",
    "# x",
    "- x",
    "{x: y}",
    "[x, y]",
    '"x',
    "'x",
    'x", "y": "z',
    "{{ .Release.Name }}",
    '{{ fail "x" }}',
    "*x",
    "&x y",
    "!!int 3",
    "%TAG",
    "@x",
    "`x`",
    "| x",
    "> x",
    "? x",
    "true",
    "null",
    "~",
    "1e3",
    "0x10",
    "012",
    "1:20",
    "2001-01-01",
    "  x  ",
    "\tx",
    "\n  x\n y",
    "x\\ny",
    "$x ${y} $(z)",
    "\u2028x\u2029",
    "\ufeffx",
    "\u202ex",
    "é😀",
    "x" * 900,
)
"""Texts that mean something else in YAML, in a template or to a shell."""

EVERYTHING = {"platform": "gke", "namespace": {"check": False}}
"""Values that decide what is rendered: the rest of the switches are booleans, which are all true."""


@dataclass(frozen=True)
class Field:
    """A value of the chart that takes text: where it stands, and what the schema says about it."""

    path: tuple[str, ...]
    schema: dict[str, Any]

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def is_free(self) -> bool:
        """Whether the schema takes any text."""
        return not {"enum", "pattern"} & self.schema.keys()


SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference leads to."""
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].removeprefix("#/definitions/")
    definition: dict[str, Any] = SCHEMA["definitions"][name]
    return definition


def filled(schema: dict[str, Any], text_of: Callable[[Field], Any], path: tuple[str, ...] = ()) -> Any:
    """A value that the schema describes, with a text from `text_of` wherever it takes one."""
    schema = resolved(schema)
    if "enum" in schema or schema["type"] == "string":
        return text_of(Field(path, schema))
    if schema["type"] == "array":
        return [filled(schema["items"], text_of, (*path, "0"))]
    if schema["type"] == "object":
        return filled_object(schema, text_of, path)
    return {"boolean": True, "integer": 3}[schema["type"]]


def filled_object(schema: dict[str, Any], text_of: Callable[[Field], Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The same of an object: of named fields, of any keys with texts, or of whatever Kubernetes takes there."""
    if "properties" in schema:
        values = {}
        for name, inner in schema["properties"].items():
            values[name] = filled(inner, text_of, (*path, name))
        return values
    key = text_of(Field((*path, "key"), {"type": "string"}))
    value = text_of(Field((*path, "value"), {"type": "string"}))
    if "additionalProperties" in schema:
        return {key: value}
    return {"inner": {key: [value, {key: value}]}}


def harmless(field: Field) -> str:
    """A text that nothing else in the chart holds."""
    if "enum" in field.schema:
        allowed: list[str] = field.schema["enum"]
        return allowed[-1]
    return "mark-" + "-".join(field.path).lower()


def values_of(text_of: Callable[[Field], Any]) -> dict[str, Any]:
    """Values with everything switched on and a text from `text_of` in every field."""
    values: dict[str, Any] = filled(SCHEMA, text_of)
    values.pop("global")  # Helm's own: nothing here reads it
    return values | EVERYTHING


def fields_of() -> list[Field]:
    """Every field that takes a text."""
    found: list[Field] = []

    def note(field: Field) -> str:
        found.append(field)
        return harmless(field)

    values_of(note)
    chosen = []
    for field in found:
        if field.path[0] not in {"global", "platform"}:
            chosen.append(field)
    return chosen


@pytest.fixture(scope="module")
def render(chart: Path) -> Helm:
    """What helm makes of the chart with some values."""
    helm = find_helm()

    def run(values: Any) -> subprocess.CompletedProcess[str]:
        command = [
            helm,
            "template",
            "toposcope",
            str(chart),
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.36.0",
            "-f",
            "-",
        ]
        return subprocess.run(
            command,
            input=document_of(values),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


def document_of(values: Any) -> str:
    """The values as JSON, with escapes only where helm reads them: it takes no pair of surrogates."""
    text = json.dumps(values, ensure_ascii=False)
    for character in "\u0085\u2028\u2029\ufeff":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def parsed(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """The objects that were rendered; the configuration file in one of them is parsed, too."""
    assert done.stderr == ""
    assert done.returncode == 0
    objects = []
    for document in yaml.load_all(done.stdout, yaml.CSafeLoader):
        if document is None:
            continue
        if document["metadata"]["name"] == "toposcope-config":
            data = document["data"]
            data["config.yaml"] = yaml.load(data["config.yaml"], yaml.CSafeLoader)
        objects.append(document)
    return objects


def texts_in(part: Any) -> Iterator[str]:
    """Every text of an object, its keys included."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for item in part:
            yield from texts_in(item)
    elif isinstance(part, dict):
        for key, value in part.items():
            yield key
            yield from texts_in(value)


def replaced(part: Any, texts: dict[str, str]) -> Any:
    """The same with other texts, longest first: a mark may begin as another one does."""
    if isinstance(part, str):
        for old in sorted(texts, key=len, reverse=True):
            part = part.replace(old, texts[old])
        return part
    if isinstance(part, list):
        return [replaced(item, texts) for item in part]
    if isinstance(part, dict):
        result = {}
        for key, value in part.items():
            result[replaced(key, texts)] = replaced(value, texts)
        return result
    return part


@pytest.fixture(scope="module")
def marked(render: Helm) -> list[Any]:
    """The objects with a mark wherever a field reaches."""
    return parsed(render(values_of(harmless)))


def test_every_field_of_the_schema_reaches_an_object(marked: list[Any]) -> None:
    everything = "\n".join(texts_in(marked))
    for field in fields_of():
        assert harmless(field) in everything, field.name


TURNS = 6
"""Renders of the quick test: each field gets as many hostile texts, and each text stands in some field."""


@pytest.mark.parametrize("turn", range(TURNS))
def test_hostile_texts_stay_texts_in_some_fields_each(render: Helm, marked: list[Any], turn: int) -> None:
    free = [field for field in fields_of() if field.is_free]
    step = len(HOSTILE) // TURNS
    texts = {}
    marks = {}
    for number, field in enumerate(free):
        hostile = HOSTILE[(number + turn * step) % len(HOSTILE)]
        texts[field.path] = hostile
        marks[harmless(field)] = hostile

    def text_of(field: Field) -> str:
        return texts.get(field.path) or harmless(field)

    assert parsed(render(values_of(text_of))) == replaced(marked, marks)


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_hostile_text_stays_a_text_in_every_field(render: Helm, marked: list[Any], hostile: str) -> None:
    def text_of(field: Field) -> str:
        return hostile if field.is_free else harmless(field)

    marks = {}
    for field in fields_of():
        if field.is_free:
            marks[harmless(field)] = hostile
    assert parsed(render(values_of(text_of))) == replaced(marked, marks)


@pytest.mark.parametrize("field", [field for field in fields_of() if not field.is_free], ids=lambda field: field.name)
def test_field_of_given_texts_refuses_any_other(render: Helm, field: Field) -> None:
    def text_of(other: Field) -> str:
        return HOSTILE[0] if other == field else harmless(other)

    done = render(values_of(text_of))
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(3, id="integer"),
        pytest.param(1.5, id="fraction"),
        pytest.param(True, id="boolean"),
        pytest.param(None, id="null"),
        pytest.param([], id="empty-list"),
        pytest.param({}, id="empty-object"),
        pytest.param(["x"], id="list"),
        pytest.param({"x": "y"}, id="object"),
    ],
)
def test_field_of_text_refuses_other_types(render: Helm, wrong: Any) -> None:
    values = values_of(harmless)
    values["agent"]["podLabels"] = {"team": wrong}
    done = render(values)
    assert done.returncode != 0
    assert "team" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("x\nkind: Secret", id="two-lines"),
        pytest.param("x: y", id="colon"),
        pytest.param("Upper", id="upper-case"),
        pytest.param("-x", id="dash-first"),
        pytest.param("", id="empty"),
        pytest.param("x" * 64, id="too-long"),
    ],
)
def test_release_goes_into_a_namespace_that_can_exist(chart: Path, name: str) -> None:
    command = [
        find_helm(),
        "template",
        "toposcope",
        str(chart),
        f"--namespace={name}",
        "--kube-version=1.30.0",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    # Without a name helm takes `default`.
    expected = "add --namespace toposcope-system" if not name else "is not a namespace name"
    assert expected in done.stderr


def test_claim_of_the_values_stands_beside_the_charts_own(render: Helm) -> None:
    resources = {
        "claims": [{"name": "mine"}],
        "limits": {"memory": "1Gi"},
    }
    values = {
        "components": {"draClaim": True},
        "agent": {"resources": resources},
    }
    manifests = Manifests(parsed(render(values)))
    container = manifests.container("agent")
    assert container["resources"]["claims"] == [{"name": "mine"}, {"name": "gpus"}]
    assert container["resources"]["limits"] == {"memory": "1Gi"}
