"""The list of all sentences: what it takes from a module, and how a field reads in it."""

import ast
from textwrap import dedent

import pytest
from tools.docgen import sentences
from tools.docgen.sentences import field_name, sentences_of


def test_sentences_of_a_module_are_listed_once_in_order() -> None:
    source = '''
        """What this module does."""
        LIMITS = {"at most": "at most {} entries", "few": ("no room", "no quota")}

        class Problem(Error):
            """A problem that somebody has."""

        def said(node: "a node", why: str = "nobody knows") -> "a text":
            """Say it."""
            log.warning("node %s is silent", node)
            raise Problem(f"no room on {node.name} for {len(pods)} pods")
            return f"no room on {node.name} for {len(pods)} pods"
    '''
    assert sentences_of(dedent(source)) == [
        "at most {} entries",
        "no quota",
        "no room",
        "no room on {name} for {len(pods)} pods",
        "nobody knows",
        "node %s is silent",
    ]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("heard == 'the node is full'", id="compared"),
        pytest.param("heard.startswith('the node')", id="beginning"),
        pytest.param("re.compile('no room for it')", id="pattern"),
        pytest.param("'zone block rack'.split()", id="list"),
        pytest.param("class Part(StrEnum):\n    READY = 'not ready'", id="enumeration"),
        pytest.param("match heard:\n    case 'no room there':\n        pass", id="case"),
        pytest.param("f'import sys; from {module} import main; main()'", id="program"),
        pytest.param("KEY = 'gpu.topology/rack'", id="one-word"),
    ],
)
def test_text_that_is_not_said_is_left_out(source: str) -> None:
    assert sentences_of(source) == []


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("node.name", "name"),
        ("_state", "state"),
        ("names[0]", "names"),
        ("self._count(nodes, 'node')", "count(nodes)"),
        ("self.age()", "age"),
        ("'is' if ready else f'{x} are'", "is | {x} are"),
        ("a + 1", "a + 1"),
    ],
)
def test_field_reads_as_a_name(expression: str, name: str) -> None:
    parsed = ast.parse(expression, mode="eval")
    assert field_name(parsed.body) == name


@pytest.mark.slow
def test_list_names_room_file_sentence_and_alerts() -> None:
    lines = sentences.text().splitlines()
    rooms = [line for line in lines if line.startswith("== ")]
    assert rooms[0] == "== agent"
    assert rooms[-1] == "== alerts"
    assert len(rooms) == len(set(rooms))
    start = lines.index("toposcope/api/levels.py")
    assert lines[start - 1] == ""
    assert lines[start + 1].startswith("  ")
    assert max(map(len, lines)) < 1000
