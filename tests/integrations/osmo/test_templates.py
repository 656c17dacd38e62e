"""OSMO's templates: what is filled in, which values are missing, and what a hostile one may not do."""

import pytest
from tests.integrations.clusters import POOL
from tests.support.checking import read
from tests.support.documents import text
from toposcope.api.yaml_text import load
from toposcope.integrations.documents import expanded
from toposcope.integrations.framework.levels import UnreadableDocumentError

pytestmark = pytest.mark.regression

TEMPLATE = """
workflow:
  name: {{ name }}
  resources:
    default:
      gpu: {{ gpus }}
  groups:
  - name: train
    tasks:
{% for i in range(nodes) %}
    - name: w{{ i }}
      lead: {{ "true" if i == 0 else "false" }}
      args: ["--master {{host:w0}} --log {{output}}/log"]
      outputs:
      - url: {{ bucket }}/{{workflow_id}}
{% endfor %}
default-values:
  name: demo
  gpus: 8
  nodes: 2
  bucket: s3://b
"""


def without(name: str) -> str:
    """The template without one of its default values."""
    kept = []
    for line in TEMPLATE.splitlines(keepends=True):
        if not line.startswith(f"  {name}: "):
            kept.append(line)
    return "".join(kept)


def refusal(template: str) -> str:
    """Why a template is not filled in."""
    with pytest.raises(UnreadableDocumentError) as raised:
        expanded(template.encode())
    return str(raised.value)


def test_template_is_filled_in_with_its_default_values() -> None:
    filled_in = expanded(TEMPLATE.encode())
    assert filled_in is not None
    workflow = load(filled_in)["workflow"]
    assert workflow["resources"] == {"default": {"gpu": 8}}
    first, second = workflow["groups"][0]["tasks"]
    assert first == {
        "name": "w0",
        "lead": True,
        "args": ["--master {{host:w0}} --log {{output}}/log"],
        "outputs": [{"url": "s3://b/{{workflow_id}}"}],
    }
    assert (second["name"], second["lead"]) == ("w1", False)


def test_tasks_of_a_template_are_placed() -> None:
    answer = read("OSMO", load(expanded(TEMPLATE.encode()) or b""), POOL)
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/demo, a gang
          group train: 2 default (nvidia.com/gpu=8)
    """)


def test_missing_value_that_places_tasks_is_named() -> None:
    assert refusal(without("gpus")) == (
        "this OSMO template has no value for gpus: add it to default-values, or check what "
        "osmo workflow submit --dry-run --set NAME=VALUE prints"
    )


def test_missing_value_of_a_loop_is_named() -> None:
    assert refusal(without("nodes")).startswith("this OSMO template has no value for nodes: ")


def test_missing_value_that_places_no_task_is_noted() -> None:
    answer = read("OSMO", load(expanded(without("bucket").encode()) or b""), POOL)
    assert answer.notes[-1] == "to submit this template, also --set bucket, which does not affect placement"


@pytest.mark.parametrize(
    "document",
    [
        pytest.param("workflow:\n  tasks:\n  - args: ['{{output}}']\n", id="only-words-of-run-time"),
        pytest.param("workflow:\n  tasks: []\n", id="no-template"),
        pytest.param("kind: Job\nworkflow:\n  name: {{ x }}\n", id="other-sections"),
        pytest.param("data: |\n  workflow: {{ x }}\n", id="no-workflow"),
    ],
)
def test_document_without_template_is_left_alone(document: str) -> None:
    assert expanded(document.encode()) is None


def test_line_of_a_syntax_error_is_that_of_the_file() -> None:
    assert refusal("version: 2\nworkflow:\n  name: {{ x\n").startswith("this OSMO template, line 3: ")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param(
            "{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe.", id="unsafe"
        ),
        pytest.param("{{ 1 / 0 }}", "ZeroDivisionError: division by zero", id="arithmetic"),
        pytest.param("{{ range(10 ** 9) }}", "OverflowError: Range too big.", id="range"),
        pytest.param("{{ 'x' * 10 ** 12 }}", "uses too much memory", id="memory"),
        pytest.param(
            "{% for _ in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "renders to more than 4 MiB of text", id="text"
        ),
    ],
)
def test_hostile_template_is_refused(expression: str, message: str) -> None:
    template = f"workflow:\n  name: {expression}\n"
    assert refusal(template).startswith(f"this OSMO template: {message[:40]}")


@pytest.mark.slow
def test_template_that_never_ends_is_stopped() -> None:
    nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    assert refusal(f"workflow:\n  name: {nested}\n") in (
        "this OSMO template: uses too much time or memory",
        "this OSMO template: takes longer than 10 s to render",
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param("default-values: 7\n", "must be an object of names and values", id="no-object"),
        pytest.param("default-values:\n  a: [\n", "cannot be read: not YAML", id="no-yaml"),
    ],
)
def test_malformed_default_values_are_refused(values: str, message: str) -> None:
    assert refusal(f"workflow:\n  name: x\n{values}").startswith(f"default-values of this OSMO template {message}")
