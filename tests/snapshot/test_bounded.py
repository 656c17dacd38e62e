"""No file stops a reader: bytes, rows, digits, depth and labels are bounded, and the bound is said."""

import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.snapshot.clusters import names
from tests.support.saved import Object, demo_nodes, pod, saved
from toposcope.kube.pod_resources import MOST_AMOUNT, amount, pod_requests
from toposcope.snapshot import packed
from toposcope.snapshot.decode import keep_degraded
from toposcope.snapshot.documents import documents
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import MAGIC, write_packed
from toposcope.snapshot.problems import InputError, Problem

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


def read(content: str) -> Snapshot:
    return load_files(["-"], io.BytesIO(content.encode()))


def names_in(content: str) -> list[str]:
    """The nodes in this text."""
    return names(read(content).nodes)


def problems_in(content: str) -> list[str]:
    """What is wrong with the objects in this text."""
    found: list[Problem] = []
    for document in documents(["-"], found.append, io.BytesIO(content.encode())):
        try:
            document.read(dict)
        except InputError as error:
            found += error.problems
    return [problem.message for problem in found]


class Counted:
    """A pattern that counts the characters it is given to look at: from where it begins to where it can end at most."""

    def __init__(self, pattern: Any) -> None:
        self._pattern, self.looked_at = pattern, 0

    def match(self, text: bytes, at: int = 0) -> Any:
        found = self._pattern.match(text, at)
        self.looked_at += found.end() - at + 1 if found else 1
        return found


@pytest.mark.regression
@pytest.mark.parametrize(
    "line",
    [
        pytest.param("# a license\r\n", id="comment"),
        pytest.param("#\r\n", id="empty-comment"),
        pytest.param("\r\n", id="empty-line"),
        pytest.param("---\r\n", id="mark"),
        pytest.param("--- # a\r\n", id="mark-with-comment"),
        pytest.param("# a\n", id="unix-comment"),
        pytest.param("  \r\n", id="blanks"),
    ],
)
def test_lines_before_an_object_that_was_saved_on_windows(line: str) -> None:
    head = line * 2000
    node = "kind: Node\r\napiVersion: v1\r\nmetadata: {name: a}\r\n"
    items = (
        "apiVersion: v1\r\nitems:\r\n- apiVersion: v1\r\n  kind: Node\r\n  metadata:\r\n    name: a\r\nkind: List\r\n"
    )
    assert names_in(head + node) == ["a"]
    assert names_in(head + json.dumps(NODE)) == ["a"]
    assert names_in(head + items) == ["a"]


@pytest.mark.regression
def test_lines_without_object_are_read_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    blank = Counted(packed_documents()._BLANK)
    monkeypatch.setattr(packed_documents(), "_BLANK", blank)
    text = "---\n#\n" * 20_000 + "kind: Node\napiVersion: v1\nmetadata: {name: a}\n"
    assert names_in(text) == ["a"]
    assert blank.looked_at < 4 * len(text)


def packed_documents() -> Any:
    from toposcope.snapshot import documents as module  # noqa: PLC0415 - the function of this name is imported above

    return module


def test_problem_has_its_line_after_marks_and_comments() -> None:
    text = "# one\r\n---\r\n# three\r\n---\r\n# five\r\nkind: Node\r\napiVersion: v1\r\nmetadata: {name: 7}\r\n"
    with pytest.raises(InputError, match=r"line 8: metadata\.name"):
        read(text)


def test_unusual_indentation_is_no_layout() -> None:
    indent = " " * 60_000
    lines = [
        "{",
        f'{indent}"apiVersion": "v1",',
        f'{indent}"items": [',
        f"{indent}{json.dumps(NODE)}",
        f"{indent}]",
        "}",
        "",
    ]
    assert names_in("\n".join(lines)) == ["a"]


@pytest.mark.parametrize("depth", [9, 300])
def test_lists_within_lists_are_refused(depth: int) -> None:
    opened = '{"kind":"List","items":[' * depth
    closed = "]}" * depth
    problems = problems_in(opened + json.dumps(NODE) + closed)
    assert any("nested" in problem for problem in problems)


@pytest.mark.parametrize("depth", [201, 400, 900, 5000])
@pytest.mark.parametrize("opened", ['{"a":', "["], ids=["object", "array"])
def test_json_is_as_deep_as_yaml_may_be(opened: str, depth: int) -> None:
    closed = {"[": "]"}.get(opened, "}")
    text = '{"kind":"A","apiVersion":"b","spec":' + opened * depth + "1" + closed * depth + "}"
    (problem,) = problems_in(text)
    assert "nested" in problem


@pytest.mark.regression
@pytest.mark.parametrize(
    "number",
    [
        pytest.param("0x" + "f" * 5000, id="hexadecimal"),
        pytest.param("0b" + "1" * 5000, id="binary"),
        pytest.param("0" + "7" * 5000, id="octal"),
        pytest.param("1" + ":59" * 3000, id="sexagesimal"),
        pytest.param("1" + ":59" * 3000 + ".5", id="sexagesimal-fraction"),
    ],
)
def test_numbers_of_yaml_in_other_bases(number: str) -> None:
    text = f"kind: Node\napiVersion: v1\nmetadata:\n  name: a\nspec:\n  x: {number}\n"
    with pytest.raises(InputError, match=r"line 6: not YAML: a number has more than 100 digits; put it in quotes"):
        read(text)


@pytest.mark.regression
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("!!int ''", id="empty-int"),
        pytest.param("!!int +", id="sign-as-int"),
        pytest.param("!!int abc", id="word-as-int"),
        pytest.param("!!float ''", id="empty-float"),
        pytest.param("!!float _", id="line-as-float"),
        pytest.param("!!bool maybe", id="word-as-bool"),
        pytest.param("!!bool ''", id="empty-bool"),
    ],
)
def test_values_that_are_not_what_their_tag_says(value: str) -> None:
    with pytest.raises(InputError, match=r"line 2: not YAML: '.*' is not (a whole number|a number|true or false)"):
        read(f"kind: Node\nx: {value}\n")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("!!timestamp foo", id="timestamp"),
        pytest.param("!!set {a}", id="set"),
        pytest.param("!!binary YQ==", id="binary"),
        pytest.param("!!omap [a: 1]", id="omap"),
        pytest.param("!!pairs [a: 1]", id="pairs"),
    ],
)
def test_values_that_json_does_not_have(value: str) -> None:
    with pytest.raises(InputError, match=r"line 2: not YAML: !!\w+ is no type of JSON; write it as text"):
        read(f"kind: Node\nx: {value}\n")


@contextmanager
def pipe(content: bytes) -> Iterator[str]:
    """The name of a pipe that somebody writes this into, as a shell's `<(...)` is one."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(content)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        thread.join()
        os.close(reading)


def as_saved(snapshot: Snapshot) -> bytes:
    out = io.BytesIO()
    write_packed(snapshot, out)
    return out.getvalue()


@pytest.mark.regression
@pytest.mark.parametrize(
    "form", [lambda text: text, lambda text: as_saved(read(text.decode()))], ids=["kubectl", "save"]
)
def test_pipe_is_opened_once(form: Callable[[bytes], bytes]) -> None:
    nodes = demo_nodes()
    text = saved([*nodes, pod("p", "gb200-01", 3)]).encode()
    with pipe(form(text)) as name:
        snapshot = load_files([name])
    assert len(snapshot.nodes) == len(nodes)
    assert names(snapshot.pods or ()) == ["p"]


def test_two_pipes_of_different_forms() -> None:
    one, *others = demo_nodes(most=3)
    packed_node = as_saved(read(saved([one])))
    listed_nodes = saved(others).encode()
    with pipe(packed_node) as first, pipe(listed_nodes) as second:
        snapshot = load_files([first, second])
    assert len(snapshot.nodes) == 3


def test_problem_in_a_pipe_has_its_line() -> None:
    bad = "kind: Node\napiVersion: v1\nmetadata: {name: 7}\n"
    with pipe(bad.encode()) as name, pytest.raises(InputError, match=rf"{name}, document 1, line 3: metadata\.name"):
        load_files([name])


@pytest.fixture
def forged(tmp_path: Path) -> Callable[..., str]:
    """Writes a saved file of equal nodes whose pod count is forged: it holds one pod."""

    def write(nodes: int, pods: int | None = None, **changed: Any) -> str:
        fields: dict[str, Any] = {
            "nodes": [packed._Node("a", "u", 0, [], True, True, 0, 0, 0, 0)] * nodes,
            "pods": pods,
            "requested": [{}],
            "warnings": [],
            "lacks_pods": pods is None,
            "topologies": [],
            "published": [],
            "objects": [],
            "taken_at": None,
            "catalogue": None,
            "served": {},
            "scheduler_profiles": None,
            "keys": [[]],
            "strings": [],
            "taints": [()],
            "allocatable": [{}],
            "conditions": [{}],
        }
        cluster = packed._Cluster(**{**fields, **changed})
        matrices = packed._Matrices([None], [0] * nodes)
        pod_row = packed._Pod("p", 0, 1, 2, 0, 0, 0, 0, 3, 3, 0, 0)
        all_pods = packed._Pods([pod_row], ["d", "a", "Running", ""], [{}], [None], [{}], [{}])
        parts = packed._File(packed._zipped(cluster), packed._zipped(matrices), packed._zipped(all_pods))
        file = tmp_path / "forged.toposcope"
        file.write_bytes(MAGIC + packed._VERSION + msgspec.msgpack.encode(parts))
        return str(file)

    return write


@pytest.mark.regression
def test_saved_file_has_no_more_nodes_than_the_limit_allows(forged: Callable[..., str]) -> None:
    with pytest.raises(InputError, match=r"forged\.toposcope: the snapshot has more than 4,096 nodes; .*limit"):
        load_files([forged(4097)], limit=1 << 20)


@pytest.mark.parametrize("pods", [300_000_000, 10**15])
def test_saved_file_has_no_more_pods_than_the_limit_allows(forged: Callable[..., str], pods: int) -> None:
    with pytest.raises(InputError, match=r"the snapshot has more than 1,048,576 pods; .*--from-limit"):
        load_files([forged(1, pods)])


def test_fewer_pods_than_none_are_damage(forged: Callable[..., str]) -> None:
    with pytest.raises(InputError, match="a damaged snapshot; save it again"):
        load_files([forged(1, -5)])


def test_pods_that_are_not_there_are_damage(forged: Callable[..., str]) -> None:
    snapshot = load_files([forged(1, 1_000_000)])
    with pytest.raises(InputError, match="a damaged snapshot; save it again"):
        list(snapshot.pods or ())


def test_limit_of_its_own_holds_for_saved_files(forged: Callable[..., str]) -> None:
    with pytest.raises(InputError, match=r"has more than 4,096 nodes; .*raise --from-limit \(now 1\)"):
        load_files([forged(5000)], limit=1 << 20)


def test_long_warning_of_a_saved_file_is_cut(forged: Callable[..., str]) -> None:
    (warning,) = load_files([forged(1, warnings=["x" * 10_000_000])]).warnings
    assert len(warning) < 40_000
    assert warning.endswith("(cut after 32 KiB of 10,000,000 characters)")


def test_saved_file_that_nests_too_deeply_is_damage(
    forged: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = packed._encoded
    deep = b"\x81\xa1a" * 5000 + b"\x01"  # {"a": {"a": ...}} in msgpack
    monkeypatch.setattr(packed, "_encoded", lambda content: encoded(content).replace(b"\xa4DEEP", deep))
    name = forged(1, objects=["DEEP"])
    with pytest.raises(InputError, match="a damaged snapshot"):
        load_files([name])


@pytest.mark.parametrize("quantity", ["1e30", "9" * 39, "16E", "9223372036854775807Ei"])
def test_quantities_have_62_bits(quantity: str) -> None:
    assert amount("cpu", quantity) == MOST_AMOUNT
    assert amount("cpu", f"-{quantity}") == -MOST_AMOUNT
    two_containers = [{"cpu": MOST_AMOUNT}, {"cpu": MOST_AMOUNT}]
    assert pod_requests(two_containers) == {"cpu": MOST_AMOUNT}


def save_and_read(*objects: dict[str, Any]) -> Snapshot:
    """A cluster of these objects, as it comes back from a saved file."""
    content = as_saved(read(saved(list(objects))))
    return packed.unpacked("f", io.BytesIO(content), keep_degraded)


@pytest.mark.regression
def test_node_with_a_quantity_beyond_all_bounds_can_be_saved() -> None:
    node = {**NODE, "status": {"allocatable": {"cpu": "1e30"}}}
    (again,) = save_and_read(node).nodes
    assert again.allocatable["cpu"] == MOST_AMOUNT


@pytest.mark.regression
def test_pods_with_a_quantity_beyond_all_bounds_can_be_saved() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1e30"}}}
    pods = [pod(name, "a", 0, containers=[container]) for name in ("p", "q", "r", "s")]
    node = {**NODE, "status": {"allocatable": {}}}
    again = save_and_read(node, *pods)
    assert again.by_pods["a"]["cpu"] == MOST_AMOUNT


def test_whole_number_of_any_size_in_an_object_can_be_saved() -> None:
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "t", "x": 10**30},
    }
    again = save_and_read(NODE, topology)
    (published,) = again.published
    assert published.document["metadata"]["x"] == 1e30


@pytest.mark.parametrize("priority", [10**30, 1 << 31])
def test_priority_that_kubernetes_does_not_have_is_named(priority: int) -> None:
    with pytest.raises(InputError, match=r"spec\.priority"):
        read(saved([NODE, pod("p", "a", 0, priority=priority)]))


@pytest.mark.regression
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("z Nodes=evil", id="field-of-slurm"),
        pytest.param("a=b", id="equals"),
        pytest.param("a b", id="blank"),
        pytest.param("a,b", id="comma"),
        pytest.param("a[1]", id="bracket"),
        pytest.param("a'b", id="quote"),
        pytest.param("a\tb", id="tab"),
        pytest.param("x" * 64, id="64-letters"),
        pytest.param("a#b", id="number-sign"),
        pytest.param("a/b", id="slash"),
    ],
)
def test_label_value_that_means_something_elsewhere_is_refused(value: str) -> None:
    node = {**NODE, "metadata": {"name": "a", "labels": {"rack": value}}}
    with pytest.raises(InputError, match=r"metadata\.labels: .* is not a valid label value: use letters"):
        read(saved([node]))
    with pytest.raises(InputError, match="is not a valid label value"):
        read(json.dumps({"kind": "List", "items": [node]}))


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param(
            {**NODE, "metadata": {"name": "a", "labels": {"ra\x1bck": "1"}}},
            "line 9: metadata.labels: 'ra\\x1bck' cannot be in a label",
            id="label-key-with-escape",
        ),
        pytest.param(
            pod("p", "a b", 1),
            "line 23: spec.nodeName: 'a b' is not a valid name: use lower-case letters, digits, '-' and '.', "
            "up to 253 of them",
            id="node-with-blank",
        ),
    ],
)
def test_name_that_the_api_server_would_refuse_is_a_problem(document: Object, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        read(saved([document]))
    assert str(caught.value) == f"standard input, document 1, item 1, {problem}"


def test_overhead_of_a_pod_is_part_of_its_requests() -> None:
    (found,) = read(saved([NODE, pod("p", "a", 1, overhead={"cpu": "250m"})])).pods or ()
    assert found.requests["cpu"] == 250


def test_problem_of_a_huge_object_has_the_line_of_the_object() -> None:
    metadata = {"name": "a", "annotations": {"x": "y" * (2 << 20)}, "labels": {"rack": 12}}
    with pytest.raises(InputError) as caught:
        read(saved([{**NODE, "metadata": metadata}]))
    assert str(caught.value) == (
        "standard input, document 1, item 1, line 4: metadata.labels[...]: "
        "Expected text, got a number (put it in quotes)"
    )


def test_huge_text_in_braces_is_not_tried_as_yaml() -> None:
    with pytest.raises(InputError) as caught:
        read("{kind: Node, x: " + "y" * (2 << 20) + "}")
    assert str(caught.value) == "standard input, document 1, line 1: JSON is malformed: expected '\"'"


def test_progress_is_told_every_500_objects(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    file.write_text("".join(json.dumps(config_map) for _ in range(1001)))
    told: list[tuple[str, int]] = []

    def note(what: str, count: int, share: float | None = None) -> None:
        del share
        told.append((what, count))

    load_files([str(file)], progress=note)
    assert told == [(str(file), 500), (str(file), 1000)]


def test_long_message_is_cut_and_the_cut_is_said() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/5 nodes are available: " + "1" * 60_000,
    }
    waiting = pod("p", None, 1, phase="Pending")
    waiting["status"]["conditions"] = [condition]
    snapshot = read(saved([NODE, waiting]))
    (found,) = snapshot.pods or ()
    assert len(found.waiting) < 33_000
    assert found.waiting.endswith("... (cut after 32 KiB of 60,025 characters)")


def test_amount_that_counts_as_less_is_said() -> None:
    node = {**NODE, "status": {"allocatable": {"cpu": "1e30"}}}
    snapshot = read(saved([node, pod("p", "a", 0)]))
    (warning,) = [text for text in snapshot.warnings if "quantity" in text]
    assert warning == (
        "node a: a quantity is larger than Kubernetes can count, and counts as 4611686018427387903; correct it"
    )
