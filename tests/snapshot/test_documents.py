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
from toposcope.snapshot.decode import every
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
    return f"{json.dumps(node_list)}\n{saved(ITEMS[5:])}"


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
    file = tmp_path_factory.mktemp("expected") / "one.json"
    file.write_text(json.dumps(LIST))
    return facts(load_files([str(file)]))


@pytest.mark.regression
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_holds_the_same_cluster(layout: str, expected: object, tmp_path: Path) -> None:
    file = tmp_path / "cluster"
    file.write_bytes(LAYOUTS[layout]().encode())
    found = load_files([str(file)])
    assert names(found.nodes) == ["gb200-01", "gb200-02", "gb200-03", "gb200-04", "gb200-05"]
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
    file.write_bytes(text.replace("\n", line_end).encode())
    problems: list[Problem] = []
    places = {}
    for document in documents([str(file)], problems.append):
        places[document.kind] = (document.place.document, document.place.line)
    assert places == kinds
    assert [(problem.place.document, problem.place.line) for problem in problems] == malformed


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
    file.write_text("".join(one.format(i) for i in range(10_000)))
    problems: list[Problem] = []
    found = list(documents([str(file)], problems.append))
    assert problems == []
    assert len(found) == 10_000
    last = found[-1].place
    assert last.document == 10_000
    assert last.line == 9_999 * 5


def test_one_run_reports_every_problem_with_its_place(tmp_path: Path) -> None:
    nodes = demo_nodes(most=3)
    label = dict(nodes[1]["metadata"]["labels"]) | {"rack": 12}
    bad_label = nodes[1] | {"metadata": nodes[1]["metadata"] | {"labels": label}}
    listed, documented = tmp_path / "list.yaml", tmp_path / "documents.yaml"
    listed.write_text(as_yaml({**LIST, "items": [nodes[0], bad_label, nodes[2]]}))
    documented.write_text(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  labels: [x]\n---\n"
        "kind: Node\nmetadata: {name: b\n---\n"
        "metadata: {}\n---\n"
        "- 1\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - resources: {requests: {cpu: much}}\n"
    )
    broken = tmp_path / "broken.json"
    broken.write_text(saved(nodes)[:-2000])
    with pytest.raises(InputError) as caught:
        load_files([str(listed), str(documented), str(broken), str(tmp_path / "none.yaml")])
    lines = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
    at = next(i for i, line in enumerate(listed.read_text().splitlines(), 1) if line.strip() == "rack: 12")
    quotes = "Expected text, got a number (put it in quotes)"
    assert lines == [
        f"list.yaml, document 1, item 2, line {at}: metadata.labels.rack: {quotes}",
        "documents.yaml, document 1, line 5: metadata.labels: Expected `object | null`, got a list",
        "documents.yaml, document 2, line 9: not YAML: did not find expected ',' or '}'",
        "documents.yaml, document 3, line 9: kind: is missing; what object is this?",
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


BAD = [
    b"{", b"[1, 2]", b"\x00\xff", b"{}{", b"a: b: c", b"\x1f\x8bnot gzip", b"- " * 5000, b"[" * 100_000,
    b'{"kind": 3}', b'{"a":' * 5000, b"kind: Node\nmetadata: {name: !!python/object:os.system x}", b"&a [*a]", b"? ",
    b'{"kind":"List","items":[3]}', b'{"kind":"List","items":{}}', b"kind: List\nitems: 3", b"{}",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_bad_text_is_a_problem_and_no_traceback(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_bytes(text)
    with pytest.raises(InputError) as caught:
        load_files([str(file)])
    assert {problem.place.file for problem in caught.value.problems} == {str(file)}


@pytest.mark.parametrize("text", [b"", b"\xef\xbb\xbf", b"---\n---\n", b"# nothing\n", b"\n\n"])
def test_empty_file_is_an_empty_cluster(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_bytes(text)
    found = load_files([str(file)])
    assert (found.nodes, found.pods) == ((), None)
    (no_nodes,) = found.warnings
    assert no_nodes.startswith("there are no Nodes in the files")
    (_, no_pods) = found.warnings_about_pods_too
    assert no_pods.startswith("there are no Pods in the files")


def test_bulk_is_cut_from_nodes_only_and_never_from_texts(tmp_path: Path) -> None:
    script = "#!/bin/sh\nimages:\n- one\n"
    file = tmp_path / "f.yaml"
    file.write_text(
        as_yaml(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c"},
                "data": {"s": script},
            }
        )
    )
    problems: list[Problem] = []
    [found] = documents([str(file)], problems.append)
    assert not problems
    assert found.read(dict)["data"]["s"] == script


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
        found = load_files([str(path)], keep_matrix=every, others=others)
    except InputError as error:
        return [str(problem) for problem in error.problems]
    pods = None if found.pods is None else sorted(found.pods, key=lambda pod: pod.name)
    return found.nodes, pods, found.topologies, found.published, found.warnings


def check_either_way(tmp_path: Path, text: str | bytes) -> object:
    path = tmp_path / "cluster.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = outcome(path)
    assert found == outcome(path, WantsNodes())
    return found


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("items", [PLAIN, MIXED, [*PLAIN, FOREIGN], PLAIN[:1], [PODS[1]]])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_same_cluster_either_way(items: list[dict[str, Any]], newline: str, tmp_path: Path) -> None:
    check_either_way(tmp_path, saved(items).replace("\n", newline))
    check_either_way(tmp_path, (saved(items[:3]) + saved(items[2:])).replace("\n", newline))


@pytest.mark.usefixtures("chunk")
def test_damage_is_reported_as_when_items_are_read_one_by_one(tmp_path: Path) -> None:
    text = saved(MIXED).encode()
    rng = random.Random(7)
    for _ in range(25):
        at, length = rng.randrange(len(text)), rng.choice([1, 1, 2, 40, 3_000])
        damage = rng.choice([b"", b'"', b"}", b"\xff", b"\n"])
        check_either_way(tmp_path, text[:at] + damage + text[at + length :])
    for kept in ("f:lastTransitionTime", "gb200-01"):
        at = text.index(kept.encode())
        assert "not UTF-8" in str(check_either_way(tmp_path, text[:at] + b"\xff" + text[at:]))
    for wrong in ('"gb200-01"', '"nvidia.com/gpu": "4"', '"items"', '"kind": "Pod"', '"kind": "List"'):
        damaged = wrong.replace('"', "{", 1).replace('"', "}", 1)
        check_either_way(tmp_path, text.decode().replace(wrong, damaged))
    many = text.decode().replace('"nvidia.com/gpu": "4"', '"nvidia.com/gpu": "many"')
    assert "many" in str(check_either_way(tmp_path, many))
