"""Clusters from files: every layout, lists taken many items at a time, hostile YAML, problems with their place."""

import gzip
import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.snapshot.clusters import names
from tests.support.documents import read_manifest
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.snapshot import cutter
from toposcope.snapshot.decode import keep_every
from toposcope.snapshot.documents import documents
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.problems import InputError, Problem

ITEMS = [*demo_nodes(most=5), pod("p", "gb200-01", 3), cluster_topology(required=["rack"])]
LIST = {
    "apiVersion": "v1",
    "items": ITEMS,
    "kind": "List",
    "metadata": {"resourceVersion": ""},
}


class Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def as_yaml(document: Any) -> str:
    return yaml.dump(document, Dumper=Dumper, width=100_000)


def typed_list() -> str:
    """Nodes as an API server lists them, without their kind."""
    nodes = []
    for node in ITEMS[:5]:
        bare = dict(node)
        del bare["kind"]
        del bare["apiVersion"]
        nodes.append(bare)
    node_list = {
        "kind": "NodeList",
        "apiVersion": "v1",
        "metadata": {},
        "items": nodes,
    }
    others = saved(ITEMS[5:])
    return f"{json.dumps(node_list)}\n{others}"


def json_texts(indent: int | str | None = 2) -> list[str]:
    """Each object as JSON."""
    return [json.dumps(item, indent=indent) for item in ITEMS]


def json_and_yaml_by_turns(*, yaml_first: bool) -> str:
    """Objects in both languages, between marks."""
    texts = []
    is_yaml = yaml_first
    for item in ITEMS:
        texts.append(as_yaml(item) if is_yaml else json.dumps(item, indent=2))
        is_yaml = not is_yaml
    return "\n---\n".join(texts)


LAYOUTS: dict[str, Callable[[], str]] = {
    "kubectl-json": lambda: saved(ITEMS),
    "windows": lambda: saved(ITEMS).replace("\n", "\r\n"),
    "one-line": lambda: json.dumps(LIST),
    "jq-order": lambda: json.dumps({"kind": "List", "items": ITEMS, "apiVersion": "v1"}, indent=2),
    "lines": lambda: "\n".join(json_texts(None)),
    "several-on-one-line": lambda: "".join(json_texts(None)),
    "several-indented": lambda: "\n".join(json_texts()),
    "two-lists": lambda: saved(ITEMS[:2]) + saved(ITEMS[2:]),
    "typed-list": typed_list,
    "kubectl-yaml": lambda: as_yaml(LIST),
    "yaml-documents": lambda: "---\n".join(map(as_yaml, ITEMS)),
    "yaml-with-marks-at-both-ends": lambda: "---\n" + "---\n".join(map(as_yaml, ITEMS)) + "---\n",
    "yaml-and-a-list": lambda: as_yaml(ITEMS[0]) + "---\n" + as_yaml({**LIST, "items": ITEMS[1:]}),
    "json-within-yaml-marks": lambda: "\n---\n".join(["# a comment", *json_texts(None)]),
    "yaml-list-in-other-order": lambda: yaml.dump(
        {"kind": "List", "apiVersion": "v1", "items": ITEMS},
        Dumper=Dumper,
        sort_keys=False,
    ),
    "json-with-marks": lambda: "\n---\n".join(json_texts()),
    "json-with-marks-and-comments-on-windows": lambda: (
        "# c\n---\n" + "\n# d\n--- # e\n\n".join(json_texts(1)) + "\n---\n"
    ).replace("\n", "\r\n"),
    "json-indented-by-tabs": lambda: "\n".join(json_texts("\t")),
    "json-lists-with-marks": lambda: saved(ITEMS[:2]) + "---\n" + saved(ITEMS[2:]) + "---",
    "json-item-on-each-line": lambda: '{"kind": "List", "items": [\n' + ",\n".join(json_texts(None)) + "\n]}",
    "json-and-yaml-by-turns": lambda: json_and_yaml_by_turns(yaml_first=False),
    "yaml-and-json-by-turns": lambda: json_and_yaml_by_turns(yaml_first=True),
    "yaml-in-braces": lambda: "\n---\n".join(yaml.dump(item, Dumper=Dumper, default_flow_style=True) for item in ITEMS),
    "byte-order-mark": lambda: "\ufeff" + saved(ITEMS),
}


def facts(snapshot: Snapshot) -> object:
    return snapshot.nodes, snapshot.pods, snapshot.topologies


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("expected")
    file = folder / "one.json"
    file.write_text(json.dumps(LIST))
    return facts(load_files([str(file)]))


@pytest.mark.regression
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_holds_the_same_cluster(layout: str, expected: object, tmp_path: Path) -> None:
    file = tmp_path / "cluster"
    text = LAYOUTS[layout]()
    file.write_bytes(text.encode())
    found = load_files([str(file)])
    assert names(found.nodes) == [
        "gb200-01",
        "gb200-02",
        "gb200-03",
        "gb200-04",
        "gb200-05",
    ]
    assert facts(found) == expected


STREAMS = [
    pytest.param('{\n"kind": "A"\n}\n---\n{"kind": "B"}\n---\n', {"A": (1, 1), "B": (2, 5)}, [], id="marks"),
    pytest.param('{\n"kind": "A"\n}\n{"kind":\n "B"}', {"A": (1, 1), "B": (2, 4)}, [], id="nothing-between"),
    pytest.param(
        '\n\n{"kind": "A"} {"kind": "B"}\n{"kind": "C"}', {"A": (1, 3), "B": (2, 3), "C": (3, 4)}, [], id="one-line"
    ),
    pytest.param(
        '# one\n{"kind": "A"} # two\n# three\n\n{"kind": "B"}\n--- # four\nkind: C\n',
        {"A": (1, 2), "B": (2, 5), "C": (3, 6)},
        [],
        id="comments",
    ),
    pytest.param(
        '\ufeff{"kind": "A"}\n---\nkind: B\nmetadata: {}\n---\n\t{"kind": "C"}\n{"kind": "D"}\n---',
        {
            "A": (1, 1),
            "B": (2, 2),
            "C": (3, 6),
            "D": (4, 7),
        },
        [],
        id="yaml-between",
    ),
    pytest.param(
        'kind: A\n---\n{"kind": "B", "items":\n{"x": [\n{}\n]}}\n---\n# no more\n',
        {"A": (1, 1), "B": (2, 3)},
        [],
        id="yaml-first",
    ),
    pytest.param(
        '{kind: A}\n---\n{kind: B,\n "x": [1, 2,]}\n---\nkind: C',
        {"A": (1, 1), "B": (2, 3), "C": (3, 5)},
        [],
        id="yaml-in-braces",
    ),
    pytest.param(
        '{"kind": "A"}\n---\n{"kind":\n"B",,\n}\n---\n{"kind": "C"}\n',
        {"A": (1, 1), "C": (3, 7)},
        [(2, 4)],
        id="malformed",
    ),
    pytest.param(
        '{"kind": "A"}\n---\n{"kind": [\n{},\n---\n{"kind": "C"}\n',
        {"A": (1, 1), "C": (3, 6)},
        [(2, 3)],
        id="without-end",
    ),
]


@pytest.mark.regression
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize(("text", "kinds", "malformed"), STREAMS)
def test_documents_have_their_lines(
    text: str, kinds: dict[str, tuple[int, int]], malformed: list[tuple[int, int]], line_end: str, tmp_path: Path
) -> None:
    """Documents by their kinds, and those that are none, each with its number and its line."""
    file = tmp_path / "stream"
    stream = text.replace("\n", line_end)
    file.write_bytes(stream.encode())
    problems: list[Problem] = []
    places = {}
    for document in documents([str(file)], problems.append):
        place = document.place
        places[document.kind] = (place.document, place.line)
    assert places == kinds
    places_of_problems = []
    for problem in problems:
        place = problem.place
        places_of_problems.append((place.document, place.line))
    assert places_of_problems == malformed


def test_standard_input_directories_and_compression(expected: object, tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    nodes = gzip.compress(saved(ITEMS[:4]).encode())
    (folder / "nodes.json.gz").write_bytes(nodes)
    (tmp_path / "more.yaml").write_text(as_yaml(ITEMS[4]))
    (tmp_path / "README.md").write_text("{not a cluster")
    others = gzip.compress(saved(ITEMS[5:]).encode())
    loaded = load_files([str(tmp_path), "-"], io.BytesIO(others))
    assert facts(loaded) == expected


def test_ten_thousand_documents_pass_through(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{}\n---\n"
    many = [one.format(number) for number in range(10_000)]
    file.write_text("".join(many))
    problems: list[Problem] = []
    found = list(documents([str(file)], problems.append))
    assert problems == []
    assert len(found) == 10_000
    last = found[-1].place
    assert last.document == 10_000
    assert last.line == 9_999 * 5


def test_one_run_reports_every_problem_with_its_place(tmp_path: Path) -> None:
    first, second, third = demo_nodes(most=3)
    whole = saved([first, second, third])
    second["metadata"]["labels"]["rack"] = 12
    listed = tmp_path / "list.yaml"
    text = as_yaml({**LIST, "items": [first, second, third]})
    listed.write_text(text)
    documented = tmp_path / "documents.yaml"
    documented.write_text(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  labels: [x]\n---\n"
        "kind: Node\nmetadata: {name: b\n---\n"
        "metadata: {}\n---\n"
        "- 1\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - resources: {requests: {cpu: much}}\n"
    )
    broken = tmp_path / "broken.json"
    broken.write_text(whole[:-2000])
    missing = tmp_path / "none.yaml"
    with pytest.raises(InputError) as caught:
        load_files([str(listed), str(documented), str(broken), str(missing)])

    message = str(caught.value).replace(f"{tmp_path}/", "")
    lines = message.splitlines()
    stripped = [line.strip() for line in text.splitlines()]
    at = stripped.index("rack: 12") + 1
    quotes = "Expected text, got a number (put it in quotes)"
    assert lines == [
        f"list.yaml, document 1, item 2, line {at}: metadata.labels.rack: {quotes}",
        "documents.yaml, document 1, line 5: metadata.labels: Expected `object | null`, got a list",
        "documents.yaml, document 2, line 9: not YAML: did not find expected ',' or '}'",
        "documents.yaml, document 3, line 9: kind: is missing, so the kind of the object is unknown",
        "documents.yaml, document 4, line 11: not a Kubernetes object: it needs apiVersion, kind and metadata",
        lines[5],
        lines[6],
        "none.yaml: No such file or directory",
    ]
    assert lines[5] == (
        "documents.yaml, document 5, line 13: spec.containers[0].resources.requests: cpu: 'much' is not a quantity; "
        "write a number such as 8, 500m or 2Gi"
    )
    assert lines[6].startswith("broken.json, document 1, line ")
    assert lines[6].endswith("items: the list does not end; is the file complete?")


BAD = {
    "brace": b"{",
    "array": b"[1, 2]",
    "binary": b"\x00\xff",
    "object-and-brace": b"{}{",
    "two-colons": b"a: b: c",
    "broken-gzip": b"\x1f\x8bnot gzip",
    "deep-yaml": b"- " * 5000,
    "brackets": b"[" * 100_000,
    "kind-number": b'{"kind": 3}',
    "deep-json": b'{"a":' * 5000,
    "python-object": b"kind: Node\nmetadata: {name: !!python/object:os.system x}",
    "alias-of-itself": b"&a [*a]",
    "key-mark": b"? ",
    "item-number": b'{"kind":"List","items":[3]}',
    "items-object": b'{"kind":"List","items":{}}',
    "items-number": b"kind: List\nitems: 3",
    "empty-object": b"{}",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_bad_text_is_a_problem_and_no_traceback(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_bytes(text)
    with pytest.raises(InputError) as caught:
        load_files([str(file)])
    assert caught.value.problems
    for problem in caught.value.problems:
        assert problem.place.file == str(file)


@pytest.mark.parametrize(
    "text",
    [b"", b"\xef\xbb\xbf", b"---\n---\n", b"# nothing\n", b"\n\n"],
    ids=["nothing", "byte-order-mark", "marks", "comment", "empty-lines"],
)
def test_empty_file_is_an_empty_cluster(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_bytes(text)
    found = load_files([str(file)])
    assert found.nodes == ()
    assert found.pods is None
    (no_nodes,) = found.warnings
    assert no_nodes.startswith("there are no Nodes in the files")
    (_, no_pods) = found.warnings_about_pods_too
    assert no_pods.startswith("there are no Pods in the files")


def test_bulk_is_cut_from_nodes_only_and_never_from_texts(tmp_path: Path) -> None:
    script = "#!/bin/sh\nimages:\n- one\n"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"s": script},
    }
    file = tmp_path / "f.yaml"
    file.write_text(as_yaml(config_map))
    problems: list[Problem] = []
    (found,) = documents([str(file)], problems.append)
    assert not problems
    document = found.read(dict)
    assert document["data"]["s"] == script


# Lists are taken many items at a time: the result must be that of reading them one by one.

KUEUE: Final = read_manifest("snapshot/kueue-topology.yaml")
PODS: Final = [
    pod("runs", "gb200-01", 3),
    pod("over", "gb200-02", 3, phase="Succeeded"),
    read_manifest("snapshot/waiting-pod.yaml"),
]
PLAIN: Final = [*demo_nodes(most=7), *PODS]
MIXED: Final = [KUEUE, *PLAIN[:4], cluster_topology(required=["rack"]), *PLAIN[4:], KUEUE]
FOREIGN: Final = {"apiVersion": "other.io/v1", "kind": "Node", "metadata": {"name": "not-ours"}}


class WantsNodes:
    """Somebody who wants whole Nodes: with them, items are read one by one."""

    def wants(self, _group: str, kind: str) -> bool:
        return kind == "Node"

    def put(self, document: Mapping[str, Any]) -> None:
        pass


@pytest.fixture(params=[600, 5_000, 1 << 17])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes are read at a time."""
    monkeypatch.setattr(cutter, "_CHUNK", request.param)


def outcome(path: Path, others: WantsNodes | None = None) -> object:
    try:
        found = load_files([str(path)], keep_matrix=keep_every, others=others)
    except InputError as error:
        return [str(problem) for problem in error.problems]
    pods = None
    if found.pods is not None:
        pods = sorted(found.pods, key=lambda pod: pod.name)
    return {
        "nodes": found.nodes,
        "pods": pods,
        "topologies": found.topologies,
        "published": found.published,
        "warnings": found.warnings,
    }


def check_either_way(tmp_path: Path, text: str | bytes) -> object:
    path = tmp_path / "cluster.json"
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(content)
    found = outcome(path)
    one_by_one = outcome(path, WantsNodes())
    assert found == one_by_one
    return found


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize(
    "items",
    [PLAIN, MIXED, [*PLAIN, FOREIGN], PLAIN[:1], [PODS[1]]],
    ids=["plain", "mixed", "foreign", "one-node", "one-pod"],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
def test_same_cluster_either_way(items: list[dict[str, Any]], newline: str, tmp_path: Path) -> None:
    text = saved(items)
    check_either_way(tmp_path, text.replace("\n", newline))
    two_lists = saved(items[:3]) + saved(items[2:])
    check_either_way(tmp_path, two_lists.replace("\n", newline))


@pytest.mark.usefixtures("chunk")
def test_damage_is_reported_as_when_items_are_read_one_by_one(tmp_path: Path) -> None:
    text = saved(MIXED)
    content = text.encode()
    rng = random.Random(7)
    for _ in range(25):
        start = rng.randrange(len(content))
        end = start + rng.choice([1, 1, 2, 40, 3_000])
        damage = rng.choice([b"", b'"', b"}", b"\xff", b"\n"])
        check_either_way(tmp_path, content[:start] + damage + content[end:])
    for kept in (b"f:lastTransitionTime", b"gb200-01"):
        at = content.index(kept)
        damaged = content[:at] + b"\xff" + content[at:]
        assert "not UTF-8" in str(check_either_way(tmp_path, damaged))
    for wrong in ('"gb200-01"', '"nvidia.com/gpu": "4"', '"items"', '"kind": "Pod"', '"kind": "List"'):
        braced = wrong.replace('"', "{", 1).replace('"', "}", 1)
        check_either_way(tmp_path, text.replace(wrong, braced))
    many = text.replace('"nvidia.com/gpu": "4"', '"nvidia.com/gpu": "many"')
    assert "many" in str(check_either_way(tmp_path, many))
