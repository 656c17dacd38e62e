"""What users and schedulers write is read in bounded time and depth, and is unknown beyond that."""

import re
from typing import Any

import pytest
from tests.support.cluster import RACK, gpu_node
from toposcope.api.levels import Level
from toposcope.api.yaml_text import locate
from toposcope.explain.meanings import meaning
from toposcope.hardware.ranges import parse_list
from toposcope.hierarchy.node import NodeFacts, Traits
from toposcope.hierarchy.table import Table
from toposcope.integrations.dra.devices import DraDevice
from toposcope.integrations.dra.selectors import matches
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import conditions
from toposcope.integrations.framework.foreign_patterns import compiled
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.grove.waiting import is_apart
from toposcope.integrations.slurm.topology import tree
from toposcope.integrations.volcano.hyper_nodes import levels_of_tiers, nodes_inside
from toposcope.kube.dry_run import _RBAC
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.capture_text import CaptureError

DEVICE = DraDevice("d", "p", "gpu-0", {"d/a": True, "d/n": 1})
TRUE = 'device.attributes["d"].a'


@pytest.mark.regression
@pytest.mark.parametrize("count", [1, 2, 3, 600, 601, 9000])
def test_negations_in_a_row_are_counted(count: int) -> None:
    assert matches("!" * count + TRUE, DEVICE) is (count % 2 == 0)
    with_spaces = "! " * (count // 2) + "!" * (count % 2)
    assert matches(with_spaces + TRUE, DEVICE) is (with_spaces.count("!") % 2 == 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_negated_value_that_is_no_boolean_is_unknown(count: int) -> None:
    assert matches("!" * count + 'device.attributes["d"].n == 1', DEVICE) is None
    assert matches("!" * count + '"a" == "a"', DEVICE) is None


@pytest.mark.regression
@pytest.mark.parametrize(
    ("opened", "closed"), [("(", ")"), ("!(", ")"), ("((", "))"), ("true && (", ")"), ("false || (true && (", "))")]
)
@pytest.mark.parametrize("depth", [1, 30, 33, 600, 5000])
def test_brackets_too_deep_are_unknown(opened: str, closed: str, depth: int) -> None:
    expression = opened * depth + TRUE + closed * depth
    brackets = depth * opened.count("(") + 1  # the name of the domain has some, too
    is_too_much = brackets > 32 or len(expression) > 10 << 10
    assert (matches(expression, DEVICE) is None) is is_too_much


@pytest.mark.parametrize(
    "expression", ["a(" * 900 + ")" * 900, "[" * 900, "a[" * 900, "device" + ".a" * 900, "(" * 900]
)
def test_expression_that_is_not_understood_is_unknown_however_deep(expression: str) -> None:
    assert matches(expression, DEVICE) is None


def test_expression_too_long_for_a_server_is_unknown() -> None:
    long = " && ".join(["true"] * 2000)
    assert matches(long[: 10 << 10].rpartition(" && ")[0], DEVICE) is True
    assert matches(long, DEVICE) is None


MESSAGES = (
    "0/5 nodes are available: " + "1" * 60_000,
    "0/5 nodes are available: " + "3 node(s) had untolerated taint {" * 2000,
    "0/5 nodes are available: " + "1 a, " * 10_000,
    "node-group a can allocate only " + "9" * 60_000 + " of 3 required pods",
    "Resources were found for " + "9" * 60_000 + " pods while 3 are required for gang scheduling",
    "Job is not ready for scheduling." * 2000,
    "Job is not ready for scheduling. Waiting for 3 pods for SubGroup " + "a," * 20_000,
    "topology t, requirement r couldn't be satisfied for job <" * 900,
    "9" * 60_000 + "/3 slice(s) fit on level rack",
    "9" * 60_000 + "/3 tasks in gang unschedulable",
    "a" * 60_000 + " quota has reached",
    "Unavailable topology domains: [" * 2000,
)


@pytest.mark.regression
@pytest.mark.parametrize("text", MESSAGES, ids=lambda text: f"{text[:40]}...")
def test_message_of_any_length_is_read(text: str) -> None:
    assert isinstance(meaning(text), str)  # it took minutes, or was a traceback; tools.fuzz.growth measures it


def test_number_of_many_digits_has_no_meaning() -> None:
    assert meaning("9" * 400 + "/3 slice(s) fit on level rack") == ""
    assert meaning("19/38 slice(s) fit on level rack") == "level rack: room for 19 slices in the best domain, 38 needed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 Insufficient cpu, 2 Too many pods.", "1 have too little free cpu, 2 have reached their pod limit"),
        ("1 node(s) were unschedulable. no new claims to deallocate,", "1 are cordoned"),
        (
            "3 node(s) had untolerated taint {a: b, 4 c}, 2 node(s) were not ready.",
            "3 have taint a: b, 4 c, which the pod does not tolerate, 2 are not Ready",
        ),
        ("12345678901 Too many pods", ""),
        ("x Too many pods", ""),
    ],
)
def test_reasons_of_kube_scheduler_are_read(text: str, said: str) -> None:
    assert meaning(f"0/9 nodes are available: {text}") == (f"of 9 nodes, {said}" if said else "")


def test_long_message_of_a_condition_is_cut() -> None:
    (found,) = conditions({"status": {"conditions": [{"type": "A", "status": "False", "message": "x" * 100_000}]}})
    assert found.message.endswith("(cut after 32 KiB of 100,000 characters)")


@pytest.mark.parametrize("number", [1 << 63, 10**30, 10**4000])
def test_number_of_more_than_63_bits_is_refused(number: int) -> None:
    field = Field({"replicas": number}) / "replicas"
    assert field.number(1) == 1
    (finding,) = field.findings
    assert "a whole number of at most 63 bits" in finding.message


SAFE = ["^b[0-9]$", "rack-1-.*", "^(?:a|b)-[0-9]+$", "node-(1|2|3)-x", "[]a]", "^rack-1-.*-gpu-.*$", r"a\.b", "a{2}"]
REFUSED = [
    "(a+)+b", "(a|aa)*c", "a*b*c*d*", "(?=x)", "a?" * 30 + "a" * 30, "[[:alpha:]]+", r"\pN", "x{1,200}y{1,200}z",
    "(", "(a|ab)" * 40, "a\\", "x" * 257, r"(a)\1", "((a*)b)*c", "^a|b*c*d*", "(?i)a", "a{99999999999}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", SAFE)
def test_safe_pattern_of_a_hyper_node_is_applied(pattern: str) -> None:
    assert isinstance(compiled(pattern), re.Pattern)


@pytest.mark.parametrize("pattern", REFUSED)
def test_unsafe_pattern_of_a_hyper_node_is_not_applied(pattern: str) -> None:
    assert compiled(pattern) is None


def hyper_node(tier: int, *members: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"tier": tier, "members": [*members]}}


def node_like(pattern: str) -> dict[str, Any]:
    return {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}


def below(name: str) -> dict[str, Any]:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


def two_nodes() -> dict[str, NodeFacts]:
    return {name: gpu_node(name, {"rack": name}) for name in ("a1", "b1")}


def test_nodes_of_an_unsafe_pattern_are_unknown() -> None:
    documents = {"a": hyper_node(1, node_like("^a")), "b": hyper_node(1, node_like("(b+)+$")), "top": hyper_node(2)}
    documents["top"]["spec"]["members"] = [below("a"), below("b")]
    inside = nodes_inside(documents, two_nodes())
    assert inside == {"a": {"a1"}, "b": None, "top": None}
    specs = {name: Field(document) / "spec" for name, document in documents.items()}
    levels = (Level("rack", RACK),)
    assert levels_of_tiers(levels, Table(two_nodes().values()), specs, inside) == {1: None, 2: None}


@pytest.mark.regression
@pytest.mark.parametrize("circle", [False, True])
def test_hyper_nodes_inside_each_other_end_somewhere(circle: bool) -> None:
    count = 300 if circle else 3000
    documents = {f"h{n}": hyper_node(n, below(f"h{n + 1}")) for n in range(count)}
    documents[f"h{count}"] = hyper_node(count, node_like("^a"), *([below("h0")] if circle else []))
    assert set(nodes_inside(documents, two_nodes()).values()) == {frozenset({"a1"})}


def _in_rack(rack: str) -> list[NodeFacts]:
    """Two nodes of one zone in a rack of this name."""
    traits = Traits(keys=("z", "r"), values=("z1", rack), is_ready=True, is_schedulable=True, gpus=8)
    return [NodeFacts(name, name, traits) for name in ("n1", "n2")]


@pytest.mark.parametrize("value", ["z Nodes=evil", "a=b", "\u00fc", "-a", "x" * 64, "a,b", "a[1-2]"])
def test_value_that_is_no_label_is_no_name_for_slurm(value: str) -> None:
    with pytest.raises(ExportError, match="is not a valid label value, so it cannot name a switch or block"):
        tree([Level("zone", "z"), Level("rack", "r")], Table(_in_rack(value)))


def test_list_of_more_than_a_million_numbers_is_refused() -> None:
    assert len(parse_list("0-1048575")) == 1 << 20
    for text in ("0-1048575,0", ",".join(["0-1048575"] * 300), "0-1048575:1/1048576,0-1"):
        with pytest.raises(ValueError, match="spans more than 1,048,576 numbers"):
            parse_list(text)


def test_refusal_of_a_server_names_a_user_in_quotes() -> None:
    assert _RBAC.search('x is forbidden: User "a" cannot create resource "jobs"')
    assert not _RBAC.search('is forbidden: User "' * 5000)


LONG = "9" * 5000
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-19\nGPU1\tNV4\t X \t20-39\n"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("was", "becomes"),
    [("NV4", f"NV{LONG}"), ("GPU1", f"GPU{LONG}"), ("0-19", f"0-{LONG}"), ("0-19", ",".join(["0-1048575"] * 300))],
)
def test_number_of_many_digits_in_a_matrix_is_refused(was: str, becomes: str) -> None:
    with pytest.raises(CaptureError):
        machine_from_capture(MATRIX.replace(was, becomes))


@pytest.mark.parametrize(
    "line",
    [
        f"GPU 0: x (UUID: y)\n Link 0: {LONG} GB/s",
        f"GPU {LONG}: x (UUID: y)",
        f"{LONG}, 00000000:00:00.0",
        f"NUMA node{LONG} CPU(s): 0",
        f"Socket(s): {LONG}",
    ],
)
def test_number_of_many_digits_beside_a_matrix_is_ignored(line: str) -> None:
    assert len(machine_from_capture(f"{MATRIX}\n{line}\n").gpus) == 2


def test_index_of_many_digits_is_no_copy_of_a_scaling_group() -> None:
    labels = {"grove.io/podcliquescalinggroup": "a-0-g", "grove.io/podcliquescalinggroup-replica-index": LONG}
    assert not is_apart(labels, [("g", 1)])


@pytest.mark.parametrize("index", ["\u00b2", LONG])
def test_path_with_an_index_that_is_no_number_ends_at_its_list(index: str) -> None:
    text = b"labels:\n  a:\n  - x\n"
    assert locate(text, f"$.labels[a].[{index}]")[1] == 3
