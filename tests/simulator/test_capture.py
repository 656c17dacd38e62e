"""Pasted matrices: every way they are mangled on the way, and the ways in which they cannot be true."""

import re
from typing import Any

import pytest
from tests.support.paths import FIXTURES
from tests.support.tables import each_case
from toposcope.simulator.capture import CaptureError, machine_from_capture
from toposcope.simulator.machine import Ancestor, ancestor

TABS = (FIXTURES / "topo.txt").read_text(encoding="utf-8")
BARE = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \t{}\t{}\nGPU1\t{}\t X \t{}\nGPU2\t{}\t{}\t X \n"


def three(a_b: str, a_c: str, b_c: str) -> str:
    return BARE.format(a_b, a_c, a_b, b_c, a_c, b_c)


@pytest.mark.parametrize(
    "mangle",
    [
        pytest.param(lambda text: text, id="as printed"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="carriage returns"),
        pytest.param(lambda text: text.expandtabs(8), id="tabs expanded"),
        pytest.param(lambda text: "".join(f"    {line}\n" for line in text.expandtabs(8).splitlines()), id="indented"),
        pytest.param(lambda text: re.sub(r"[ \t]+", " ", text.replace("\t\tN/A", "\tN/A")), id="blanks collapsed"),
        pytest.param(lambda text: text.replace("\x1b[", "["), id="escapes cut"),
        pytest.param(
            lambda text: text.replace("NIC1\tNIC2\tC", "NIC1NIC2\tC").replace("NODE\tNODE", "NODENODE"), id="glue"
        ),
        pytest.param(lambda text: "# source: a friend\n$ nvidia-smi topo -m\n" + text, id="comment and prompt"),
        pytest.param(
            lambda text: "".join(text.splitlines(keepends=True)[:3]) + text[text.index("NIC1\tNODE") :], id="gap"
        ),
    ],
)
def test_a_capture_survives_the_ways_it_is_pasted(mangle) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001 - lambdas above
    machine = machine_from_capture(mangle(TABS))
    first, second = machine.gpus
    bond, storage = machine.nics[1:]
    assert [nic.name for nic in machine.nics] == ["mlx5_2", "mlx5_bond_0", "storage"]
    assert [node.cpulist for node in machine.numa_nodes] == ["0-7,16-23", "8-15,24-31"]
    assert ancestor(first.slot, machine.nics[0].slot) is Ancestor.PIX
    assert ancestor(first.slot, bond.slot) is Ancestor.NODE
    assert ancestor(second.slot, bond.slot) is Ancestor.SYS
    assert bond.slot.card == storage.slot.card
    assert [link.address for link in first.links] == [second.function.address] * 2


def whole_of(text: str, replaced: dict[str, str], added: str) -> str:
    """The text of a row: TABS, three GPUs by their cells, or as it stands; with other words in some places."""
    cells = [] if "\n" in text else text.split()
    whole = TABS if text == "TABS" else BARE.format(*cells) if cells[3:] else three(*cells) if cells else text
    for part, other in replaced.items():
        assert part in whole
        whole = whole.replace(part, other)
    return whole + added


def at(value: Any, path: str) -> Any:
    """What is at a path of attributes and positions; `*`: of each."""
    part, _, rest = path.partition(".")
    if part == "*":
        return [at(item, rest) for item in value]
    value = value[int(part)] if part.isdecimal() else getattr(value, part)
    return at(value, rest) if rest else value


@each_case("simulator.yaml")
def test_what_a_capture_becomes(
    text: str, replaced: dict[str, str], added: str, facts: dict[str, Any], noted: list[str]
) -> None:
    pasted = whole_of(text, replaced, added)
    for whole in (pasted, pasted.expandtabs(8)):
        machine = machine_from_capture(whole)
        assert {path: at(machine, path) for path in facts} == facts
        assert all(any(words in note for note in machine.notes) for words in noted)


@each_case("simulator.yaml")
def test_a_capture_that_cannot_be_true_is_refused(text: str, replaced: dict[str, str], added: str, says: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(says)):
        machine_from_capture(whole_of(text, replaced, added))
