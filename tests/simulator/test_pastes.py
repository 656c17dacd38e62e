"""Pastes of `nvidia-smi topo -m` as people post them: read as if they were whole, or refused with what to paste."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import zip_longest

import pytest
from tests.support.paths import FIXTURES
from toposcope.simulator.capture import CaptureError, machine_from_capture
from toposcope.simulator.machine import Ancestor, Machine, ancestor
from toposcope.simulator.paste import text_of

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
"""
NV_LEGEND = LEGEND + "  NV#  = Connection traversing a bonded set of # NVLinks\n"
NICS = "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"

ROWS = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \t{0}\tSYS\tSYS\tPIX\tSYS\t0-15,32-47\t0\t\tN/A
GPU1\t{0}\t X \tSYS\tSYS\tNODE\tSYS\t0-15,32-47\t0\t\tN/A
GPU2\tSYS\tSYS\t X \t{0}\tSYS\tPIX\t16-31,48-63\t1\t\tN/A
GPU3\tSYS\tSYS\t{0}\t X \tSYS\tNODE\t16-31,48-63\t1\t\tN/A
NIC0\tPIX\tNODE\tSYS\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tSYS\tPIX\tNODE\tSYS\t X \t\t\t\t
"""
PAIRS = ROWS.format("NV4") + NV_LEGEND + NICS
"""Four GPUs in two bridged pairs, a NIC beside the first of each."""
PCI = ROWS.format("NODE") + LEGEND + NICS
"""The same machine by `-mp`."""


def listing(product: str) -> str:
    """Four GPUs of a product as `nvidia-smi -L` lists them."""
    lines = []
    for index in range(4):
        lines.append(f"GPU {index}: {product} (UUID: GPU-00000000-0000-4000-8000-00000000000{index})\n")
    return "".join(lines)


NAMES = listing("NVIDIA RTX A6000")
WIRED = listing("NVIDIA H100 80GB HBM3")
P2P = """\
 \tGPU0\tGPU1\tGPU2\tGPU3\t
 GPU0\tX\tOK\tNS\tNS\t
 GPU1\tOK\tX\tNS\tNS\t
 GPU2\tNS\tNS\tX\tOK\t
 GPU3\tNS\tNS\tOK\tX\t

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
"""
OTHER = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPHB\t0-15\t0\t\tN/A
GPU1\tPHB\t X \t0-15\t0\t\tN/A
"""


def assert_is_the_pairs(machine: Machine) -> None:
    """Every fact of PAIRS."""
    assert len(machine.gpus) == 4
    first, second, third, _ = machine.gpus
    nic, other_nic = machine.nics
    assert nic.name == "mlx5_0"
    assert other_nic.name == "mlx5_1"

    assert len(first.links) == 4
    for link in first.links:
        assert link.address == second.function.address
    assert ancestor(first.slot, third.slot) is Ancestor.SYS
    assert ancestor(first.slot, nic.slot) is Ancestor.PIX
    assert ancestor(second.slot, nic.slot) is Ancestor.NODE
    near, far = machine.numa_nodes
    assert near.cpulist == "0-15,32-47"
    assert far.cpulist == "16-31,48-63"
    assert machine.has_known_nvlinks


def prefixed(text: str, prefix: str) -> str:
    lines = []
    for line in text.splitlines():
        lines.append(f"{prefix}{line}\n")
    return "".join(lines)


def wrapped(text: str, width: int) -> str:
    """As a terminal wraps it, in the middle of words."""
    pieces: list[str] = []
    for line in text.expandtabs(8).splitlines():
        if not line:
            pieces.append("")
        for start in range(0, len(line), width):
            pieces.append(line[start : start + width])
    return "\n".join(pieces) + "\n"


def softly_wrapped(text: str, width: int) -> str:
    """As a mail program wraps it, between words."""
    lines: list[str] = []
    for line in text.splitlines():
        row = ""
        words = line.replace("\t", " ")
        for word in words.split(" "):
            if len(row) + len(word) >= width:
                lines.append(row)
                row = ""
            row += f"{word} "
        lines.append(row)
    return "\n".join(lines) + "\n"


def markdown_table(text: str) -> str:
    """The matrix of PAIRS as a table, and what is below it in the text."""
    table = ""
    for line in ROWS.format("NV4").splitlines():
        row = line.replace("\t\tN/A", "\tN/A")
        cells = row.split("\t")
        is_header = not table
        table += f"| {' | '.join(cells)} |\n"
        if is_header:
            rule = "---|" * len(cells)
            table += f"|{rule}\n"
    _, _, below = text.partition("\nLegend:")
    return table + below


def without_trailing_blanks(text: str) -> str:
    """As pdsh prints it, without blanks at the end of a line."""
    lines = []
    for line in prefixed(text, "node1: ").split("\n"):
        lines.append(line.rstrip())
    return "\n".join(lines)


def json_of_docker(text: str) -> str:
    """A line of JSON for each line, as Docker logs it."""
    lines = []
    for line in text.splitlines(keepends=True):
        entry = {"log": line, "stream": "stdout"}
        lines.append(json.dumps(entry) + "\n")
    return "".join(lines)


def numbered(text: str, layout: str, first: int) -> str:
    """Each line with its number."""
    lines = []
    for number, line in enumerate(text.splitlines(), first):
        lines.append(layout.format(number, line))
    return "".join(lines)


def lines_of_code(text: str) -> str:
    """Each line in backticks of its own, but for empty ones."""
    lines = []
    for line in text.splitlines():
        lines.append(f"`{line}`\n" if line else "\n")
    return "".join(lines)


MANGLED: dict[str, Callable[[str], str]] = {
    "as-printed": lambda text: text,
    "tabs-expanded": lambda text: text.expandtabs(8),
    "carriage-returns": lambda text: text.replace("\n", "\r\n"),
    "carriage-returns-twice": lambda text: text.replace("\n", "\r\r\n"),
    "byte-order-mark": lambda text: "\ufeff" + text,
    "markdown-fence": lambda text: f"```\n{text}```\n",
    "markdown-fence-with-a-language-in-a-list": lambda text: f"1. my box:\n   ```text\n{text}   ```\n",
    "markdown-fence-of-tildes": lambda text: f"~~~console\n$ nvidia-smi topo -m\n{text}~~~\n",
    "markdown-table": markdown_table,
    "html": lambda text: f"<details><summary>topo</summary>\n<pre>{text}</pre>\n</details>\n",
    "html-entities": lambda text: text.replace("\t", "&nbsp;\t").replace("#", "&#35;"),
    "quoted-mail": lambda text: prefixed(text, "> "),
    "quoted-mail-without-blanks": lambda text: prefixed(text, ">"),
    "quoted-twice": lambda text: prefixed(text, "> > "),
    "quoted-twice-close": lambda text: prefixed(text, ">> "),
    "quoted-tabs-expanded": lambda text: prefixed(text.expandtabs(8), "> "),
    "quoted-fence": lambda text: prefixed(f"```\n{text}```\n", "> "),
    "pdsh": lambda text: prefixed(text, "node1: "),
    "pdsh-tabs-expanded": lambda text: prefixed(text.expandtabs(8), "node1: "),
    "pdsh-expanded-behind-the-prefix": lambda text: prefixed(text, "gpu-a100-07: ").expandtabs(8),
    "pdsh-without-trailing-blanks": without_trailing_blanks,
    "full-host-names": lambda text: prefixed(text, "gpu-7.cluster.example.com: "),
    "srun-label": lambda text: prefixed(text, "0: "),
    "kubectl-logs-prefix": lambda text: prefixed(text, "[pod/probe-x7k2p/main] "),
    "kubectl-logs-timestamps": lambda text: prefixed(text, "2025-01-31T10:20:30.123456789Z "),
    "kubectl-logs-prefix-timestamps": lambda text: prefixed(
        text, "[pod/probe-x7k2p/main] 2025-01-31T10:20:30.123456789Z "
    ),
    "stern": lambda text: prefixed(text, "probe-x7k2p main "),
    "docker-compose": lambda text: prefixed(text, "probe-1  | "),
    "ansible-a-line-each": lambda text: prefixed(text, "node1 | "),
    "ansible": lambda text: f"node1 | CHANGED | rc=0 >>\n{text}",
    "salt": lambda text: "node1:\n" + prefixed(text, "    "),
    "ray": lambda text: prefixed(text, "(probe pid=4242, ip=10.0.0.7) "),
    "mpirun-tag-output": lambda text: prefixed(text, "[1,0]<stdout>:"),
    "journal": lambda text: prefixed(text, "Jan 31 10:20:30 "),
    "json": lambda text: json.dumps({"host": "node1", "stdout": text}),
    "a-line-of-json-each-docker": json_of_docker,
    "ansible-one-line": lambda text: "node1 | CHANGED | rc=0 | (stdout) " + text.replace("\n", "\\n"),
    "cat-a": lambda text: "^[[4m" + text.replace("\t", "^I").replace("\n", "$\n").replace("$", "^[[0m$", 1),
    "rsyslog": lambda text: prefixed(text.replace("\t", "#011"), "Jan 31 10:20:30 node1 probe[77]: "),
    "cat-n": lambda text: numbered(text, "{:6}\t{}\n", 1),
    "grep-n": lambda text: numbered(text, "{}:{}\n", 4),
    "column-t": lambda text: re.sub(r"[ \t]+", "    ", text.replace("\t\tN/A", "\tN/A")),
    "a-line-of-code-each": lines_of_code,
    "a-table-of-org": lambda text: markdown_table(text).replace("---|", "---+", 3),
    "a-diff": lambda text: prefixed(text, "+"),
    "coloured-header": lambda text: "\x1b[4m" + text.replace("\n", "\x1b[0m\n", 1),
    "bold-header-carets": lambda text: "^[[1;4m" + text.replace("\n", "^[[0m\n", 1),
    "erased-lines-and-a-title": lambda text: "\x1b]0;me@node1: ~\x07" + text.replace("\n", "\x1b[K\n"),
    "blanks-that-do-not-break": lambda text: text.expandtabs(8).replace("  ", "\u00a0\u00a0"),
    "long-dashes": lambda text: text.replace("0-15", "0\u201315").replace("32-47", "32\u201347"),
    "blanks-without-width": lambda text: text.replace("GPU1", "\u200bGPU1"),
    "double-spaced": lambda text: text.replace("\n", "\n\n"),
    "title-above": lambda text: "Topology of dgx-01 (GPU0 is slow)\n\n" + text,
    "host-name-above": lambda text: "dgx-01\n" + text,
    "prompt-above": lambda text: "root@dgx-01:~# nvidia-smi topo -m\n" + text,
    "title-in-the-header-line": lambda text: "dgx-01" + text,
    "prose-below": lambda text: text + "\nGPU0 and GPU1 are bridged, GPU0 is hot.\n",
    "p2p-before": lambda text: f"$ nvidia-smi topo -p2p r\n{P2P}\n$ nvidia-smi topo -m\n{text}",
    "p2p-before-without-commands": lambda text: P2P + "\n" + text,
    "p2p-after": lambda text: text + "\n" + P2P,
    "mp-before": lambda text: f"{PCI}\n{text}",
    "mp-after-with-its-command": lambda text: f"{text}\n$ nvidia-smi topo -mp\n{PCI}",
    "twice": lambda text: text + "\n" + text,
    "of-two-equal-hosts": lambda text: prefixed(text, "node1: ") + prefixed(text, "node2: "),
    "wrapped-at-80": lambda text: wrapped(text, 80),
    "wrapped-at-61": lambda text: wrapped(text, 61),
    "wrapped-at-43-in-words": lambda text: wrapped(text, 43),
    "wrapped-by-a-mail-program": lambda text: softly_wrapped(text, 72),
    "wrapped-by-a-mail-program-narrow": lambda text: softly_wrapped(text, 50),
    "quoted-and-wrapped": lambda text: prefixed(softly_wrapped(text, 70), "> "),
}


@pytest.mark.regression
@pytest.mark.parametrize("mangle", MANGLED.values(), ids=MANGLED)
def test_paste_is_read_as_it_was_printed(mangle: Callable[[str], str]) -> None:
    assert_is_the_pairs(machine_from_capture(mangle(PAIRS)))


ENCODINGS = {
    "utf-8": PAIRS.encode(),
    "utf-8-with-a-mark": PAIRS.encode("utf-8-sig"),
    "utf-16-of-powershell": b"\xff\xfe" + PAIRS.replace("\n", "\r\n").encode("utf-16-le"),
    "utf-16-the-other-way-round": b"\xfe\xff" + PAIRS.encode("utf-16-be"),
    "utf-16-without-a-mark": PAIRS.encode("utf-16-le"),
    "utf-16-without-a-mark-the-other-way-round": PAIRS.encode("utf-16-be"),
    "utf-32": PAIRS.encode("utf-32"),
    "a-byte-that-is-not-utf-8": b"caf\xe9:\n" + PAIRS.encode(),
}


@pytest.mark.parametrize("content", ENCODINGS.values(), ids=ENCODINGS)
def test_paste_of_any_encoding_is_read(content: bytes) -> None:
    assert_is_the_pairs(machine_from_capture(text_of(content)))


LEGENDS = {
    "in-parentheses": "NIC0: mlx5_0 (ens1f0)",
    "an-arrow": "NIC0: mlx5_0 -> ens1f0",
    "as-ibdev2netdev": "NIC0: mlx5_0 port 1 ==> ens1f0 (Up)",
    "a-column": "NIC0: mlx5_0    ens1f0np0",
    "brackets": "NIC0: mlx5_0 [ib0, 400G]",
    "a-comma": "NIC0: mlx5_0, ens1f0",
    "no-blank": "NIC0:mlx5_0(ens1f0)",
    "the-interface-first": "NIC0: ens1f0 (mlx5_0)",
}


@pytest.mark.regression
@pytest.mark.parametrize("line", LEGENDS.values(), ids=LEGENDS)
def test_nic_legend_may_name_interfaces(line: str) -> None:
    assert_is_the_pairs(machine_from_capture(PAIRS.replace("NIC0: mlx5_0", line)))


@pytest.mark.parametrize(
    ("names", "layers", "note"),
    [
        pytest.param(
            ("mlx5_0", "mlx5_1"),
            ("InfiniBand", "InfiniBand"),
            "InfiniBand",
            id="mlx5",
        ),
        pytest.param(
            ("rocep1s0f0", "roceP2p1s0f0"),
            ("Ethernet", "Ethernet"),
            "Ethernet, by their names",
            id="roce",
        ),
        pytest.param(
            ("bnxt_re0", "bnxt_re1"),
            ("Ethernet", "Ethernet"),
            "Ethernet, by their names",
            id="bnxt",
        ),
        pytest.param(
            ("mlx5_0", "mlx5_bond_0"),
            ("InfiniBand", "Ethernet"),
            "InfiniBand and Ethernet, by their names",
            id="bond",
        ),
    ],
)
def test_nic_is_what_its_name_says(names: tuple[str, str], layers: tuple[str, str], note: str) -> None:
    first_name, second_name = names
    text = PAIRS.replace("mlx5_0", first_name)
    machine = machine_from_capture(text.replace("mlx5_1", second_name))
    first, second = machine.nics
    assert (first.link_layer, second.link_layer) == layers
    assert f"NIC ports assumed to be active {note}: a matrix does not say" in machine.notes


def test_other_commands_before_the_matrix_count_too() -> None:
    text = f"$ nvidia-smi -L\n{NAMES}\n{P2P}\n{PAIRS}"
    machine = machine_from_capture(text)
    assert_is_the_pairs(machine)
    assert machine.gpus[0].name == "NVIDIA RTX A6000"


# Several hosts


def interleaved(*texts: str) -> str:
    """Their lines in turn; an empty one for each line that a shorter text lacks."""
    columns = [text.splitlines() for text in texts]
    lines: list[str] = []
    for row in zip_longest(*columns, fillvalue=""):
        lines.extend(row)
    return "\n".join(lines) + "\n"


TWO_HOSTS = {
    "pdsh": prefixed(PAIRS, "node1: ") + prefixed(OTHER, "node2: "),
    "pdsh-as-lines-arrive": interleaved(prefixed(PAIRS, "node1: "), prefixed(OTHER, "node2: ")),
    "names-that-begin-alike": prefixed(OTHER, "node11: ").replace("node11", "node2") + prefixed(PAIRS, "node1: "),
    "kubectl": prefixed(PAIRS, "[node1] ") + prefixed(OTHER, "[node2] "),
    "ansible": f"node1 | CHANGED | rc=0 >>\n{PAIRS}\nnode2 | CHANGED | rc=0 >>\n{OTHER}",
    "clush-b": f"---------------\nnode1\n---------------\n{PAIRS}---------------\nnode2\n---------------\n{OTHER}",
    "prompts": f"me@node1:~$ nvidia-smi topo -m\n{PAIRS}me@node2:~$ nvidia-smi topo -m\n{OTHER}",
    "prompts-of-red-hat": f"[me@node1 ~]$ nvidia-smi topo -m\n{PAIRS}[me@node2 ~]$ nvidia-smi topo -m\n{OTHER}",
    "ssh": f"$ ssh node1 nvidia-smi topo -m\n{PAIRS}$ ssh node2 nvidia-smi topo -m\n{OTHER}",
    "headings": f"node1:\n{PAIRS}\nnode2:\n{OTHER}",
    "markdown-headings": f"### node1\n```\n{PAIRS}```\n### node2\n```\n{OTHER}```\n",
    "rules": f"=== node1 ===\n{PAIRS}\n=== node2 ===\n{OTHER}",
    "bold": f"**node1**\n{PAIRS}\n**node2**\n{OTHER}",
    "hostname": f"Host: node1\n{PAIRS}\nHost: node2\n{OTHER}",
    "quoted": prefixed(f"node1:\n{PAIRS}\nnode2:\n{OTHER}", "> "),
}


@pytest.mark.parametrize("text", TWO_HOSTS.values(), ids=TWO_HOSTS)
def test_one_of_several_hosts_is_chosen_by_name(text: str) -> None:
    with pytest.raises(CaptureError) as refused:
        machine_from_capture(text)
    message = str(refused.value)
    assert "2 different matrices in the text" in message
    assert "node1 (line " in message
    assert "node2 (line " in message
    assert "--capture-host" in message

    assert_is_the_pairs(machine_from_capture(text, host="node1"))
    other = machine_from_capture(text, host="node2")
    assert len(other.gpus) == 2
    assert other.nics == ()


def test_hosts_without_a_name_are_numbered() -> None:
    text = f"{PAIRS}\n{OTHER}"
    with pytest.raises(CaptureError, match=r"matrix 1 \(line 1\), matrix 2 \(line 24\)"):
        machine_from_capture(text)
    second = machine_from_capture(text, host="matrix 2")
    assert len(second.gpus) == 2


def test_host_missing_in_the_text_is_refused() -> None:
    with pytest.raises(CaptureError, match="no matrix of 'node3' in the text, which has: node1"):
        machine_from_capture(TWO_HOSTS["pdsh"], host="node3")


def test_legend_and_names_are_those_of_the_chosen_host() -> None:
    bonds = PAIRS.replace("mlx5_", "mlx5_bond_")
    two_links = bonds.replace("NV4", "NV2")
    text = f"me@node1:~$ nvidia-smi topo -m\n{PAIRS}{NAMES}me@node2:~$ nvidia-smi topo -m\n{two_links}"
    first = machine_from_capture(text, host="node1")
    assert first.gpus[0].name == "NVIDIA RTX A6000"

    second = machine_from_capture(text, host="node2")
    assert second.gpus[0].name is None
    nic, other_nic = second.nics
    assert nic.name == "mlx5_bond_0"
    assert other_nic.name == "mlx5_bond_1"


def test_equal_matrices_are_one_and_it_says_so() -> None:
    text = prefixed(PAIRS, "node1: ") + prefixed(PAIRS, "node2: ")
    machine = machine_from_capture(text)
    notes = "\n".join(machine.notes)
    assert "2 matrices in the text, which agree: node1 (line 1), node2 (line 23)" in notes


# NVLinks that the text does not show


def with_links(names: str) -> str:
    """What `nvidia-smi nvlink -s` says of these GPUs when all their links are up."""
    lines = []
    for line in names.splitlines():
        lines.append(f"{line}\n")
        for link in range(18):
            lines.append(f"\t Link {link}: 26.562 GB/s\n")
    return "".join(lines)


def with_inactive_links(names: str) -> str:
    """What it says when none of their links is up."""
    lines = []
    for line in names.splitlines():
        lines.append(f"{line}\n\t Link 0: <inactive>\n\t Link 1: <inactive>\n")
    return "".join(lines)


UNREAD = {
    "mp-by-its-legend": PCI,
    "mp-and-l": PCI + WIRED,
    "mp-by-its-command": f"$ nvidia-smi topo -mp\n{ROWS.format('NODE')}",
    "mp-by-its-long-option": f"# nvidia-smi topo --matrix_pci\n{ROWS.format('NODE')}",
    "mp-by-a-command-above-a-prefix": "$ pdsh -w n1 nvidia-smi topo -mp\n" + prefixed(ROWS.format("NODE"), "n1: "),
    "mp-quoted": prefixed(PCI + WIRED, "> "),
    "mp-of-a-host": prefixed(PCI + WIRED, "node1: "),
    "no-legend-and-a-board-that-wires-all-links": ROWS.format("NODE") + WIRED,
    "a-legend-that-was-cut-off": PCI.partition("  PXB")[0] + WIRED,
    "mp-and-links": PCI + with_links(WIRED),
    "one-gpu-of-such-a-board": "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n" + WIRED.splitlines()[0],
}


@pytest.mark.parametrize("text", UNREAD.values(), ids=UNREAD)
def test_nvlinks_that_are_not_in_the_text_are_unknown(text: str) -> None:
    machine = machine_from_capture(text)
    assert not machine.has_known_nvlinks
    for gpu in machine.gpus:
        assert gpu.links == ()
    assert any(note.startswith("NVLinks unknown: ") for note in machine.notes)


INACTIVE = with_inactive_links(WIRED)
READ = {
    "the-legend-has-nv": ROWS.format("NODE") + NV_LEGEND + WIRED,
    "by-its-command": f"$ nvidia-smi topo -m\n{ROWS.format('NODE')}{WIRED}",
    "a-product-without-a-full-set-of-links": ROWS.format("NODE") + NAMES,
    "nothing-is-known-of-it": ROWS.format("NODE"),
    "every-link-is-inactive": PCI + INACTIVE,
    "nvml-says-that-all-are": PCI + "NVML: Unable to retrieve NVLink information as all links are inActive\n",
    "a-legend-from-before-nvlink": OTHER.replace("PHB", "SOC") + LEGEND.replace("SYS", "SOC"),
}


P2P_FIRST = f"$ nvidia-smi topo -p2p r\n{P2P}\n{ROWS.format('NODE')}"


def test_command_above_another_matrix_says_nothing_of_this_one() -> None:
    machine = machine_from_capture(P2P_FIRST)
    assert len(machine.gpus) == 4
    assert machine.has_known_nvlinks

    wired = machine_from_capture(P2P_FIRST + WIRED)
    assert not wired.has_known_nvlinks


def test_one_gpu_by_p2p_is_no_matrix() -> None:
    with pytest.raises(CaptureError, match="this is `-p2p`"):
        machine_from_capture(
            "$ nvidia-smi topo -p2p r\n \tGPU0\n GPU0\tX\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
        )


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_nvlinks_that_the_text_would_show_are_none(text: str) -> None:
    assert machine_from_capture(text).has_known_nvlinks


# NUMA nodes


def on_nodes(places: Sequence[tuple[str, str]]) -> str:
    """GPUs far from each other, each with its CPUs and NUMA node."""
    count = len(places)
    header = [""]
    for index in range(count):
        header.append(f"GPU{index}")
    header += ["CPU Affinity", "NUMA Affinity"]
    text = "\t".join(header) + "\n"
    for index, (cpus, node) in enumerate(places):
        cells = ["SYS"] * count
        cells[index] = " X "
        row = [f"GPU{index}", *cells, cpus, node]
        text += "\t".join(row) + "\n"
    return text


NODES = {
    "one-gpu-on-the-last-of-four": ([("48-63", "3")], {0: "0-15", 1: "16-31", 2: "32-47", 3: "48-63"}),
    "the-same-with-two-threads-a-core": (
        [("24-31,56-63", "3")],
        {0: "0-7,32-39", 1: "8-15,40-47", 2: "16-23,48-55", 3: "24-31,56-63"},
    ),
    "every-other-node": (
        [("16-31,144-159", "1"), ("48-63,176-191", "3")],
        {0: "0-15,128-143", 1: "16-31,144-159", 2: "32-47,160-175", 3: "48-63,176-191"},
    ),
    "the-second-socket": ([("32-63", "1")], {0: "0-31", 1: "32-63"}),
    "nothing-is-left-for-others-power9": ([("0-79", "0"), ("80-159", "8")], {0: "0-79", 8: "80-159"}),
    "the-first-node": ([("0-15", "0")], {0: "0-15"}),
    "no-cpus-in-the-text": ([("N/A", "2")], {0: "", 1: "", 2: ""}),
}


@pytest.mark.parametrize(("places", "cpus"), NODES.values(), ids=NODES)
def test_number_of_a_numa_node_implies_the_smaller_ones(places: list[tuple[str, str]], cpus: dict[int, str]) -> None:
    text = on_nodes(places)
    machine = machine_from_capture(text)
    cpus_by_node = {node.id: node.cpulist for node in machine.numa_nodes}
    assert cpus_by_node == cpus
    for gpu, place in zip(machine.gpus, places, strict=True):
        _cpus, node = place
        assert gpu.slot.numa_node == int(node)


def test_lscpu_says_which_nodes_there_are() -> None:
    lscpu = "NUMA node2 CPU(s): 0-47\nNUMA node3 CPU(s): 48-63\n"
    text = on_nodes([("48-63", "3")])
    machine = machine_from_capture(text + lscpu)
    assert [node.id for node in machine.numa_nodes] == [2, 3]


# Refused


def cut(text: str, width: int, *, header: bool = True) -> str:
    """A text that is cut off at the right; `header`: its header line, too."""
    lines = []
    for line in text.expandtabs(8).splitlines():
        is_header = "GPU1    GPU2" in line
        if is_header and not header:
            lines.append(line)
        else:
            lines.append(line[:width])
    return "\n".join(lines)


REFUSED = {
    "p2p-alone": (P2P, "no matrix: paste the text of `nvidia-smi topo -m`", "this is `-p2p`"),
    "p2p-of-a-host": (prefixed(P2P, "node1: "), "this is `-p2p`", "nvidia-smi topo -m"),
    "l-alone": (NAMES, "no matrix", "this is the text of `nvidia-smi -L`"),
    "nvlink-s-alone": (INACTIVE, "no matrix", "this is the text of `nvidia-smi nvlink -s`"),
    "nvidia-smi-alone": ("| NVIDIA-SMI 550.54 Driver Version: 550.54 |\n", "no matrix", "`nvidia-smi` without"),
    "amd": (
        "====== ROCm System Management Interface ======\n       GPU0         GPU1\nGPU0   0            XGMI\n",
        "no matrix",
        "AMD's rocm-smi",
    ),
    "lspci": ("01:00.0 3D controller: NVIDIA Corporation\n", "no matrix", "the text of lspci"),
    "nothing": ("", "no matrix", "nvidia-smi topo -m"),
    "cut-at-the-right": (
        cut(PAIRS, 36, header=False),
        "it is cut off",
        "nvidia-smi topo -m | cat",
    ),
    "cut-at-the-right-the-header-too": (
        cut(PAIRS, 40),
        "the NIC legend names NIC0, NIC1, and the header does not: its lines are cut off",
        "nvidia-smi topo -m | cat",
    ),
    "cut-at-the-bottom": ("".join(PAIRS.splitlines(keepends=True)[:2]), "rows missing", "paste the whole matrix"),
    "the-header-is-missing": (PAIRS.partition("\n")[2], "no matrix", "with its header line"),
}


@pytest.mark.parametrize("width", [57, 58, 59, 62, 66])
def test_header_cut_off_in_the_affinity_column_has_all_devices(width: int) -> None:
    machine = machine_from_capture(cut(PAIRS, width))
    assert [nic.name for nic in machine.nics] == ["mlx5_0", "mlx5_1"]
    for gpu in machine.gpus:
        assert len(gpu.links) == 4
    assert len(machine.gpus) == 4


@pytest.mark.parametrize(("text", "why", "what"), REFUSED.values(), ids=REFUSED)
def test_text_without_a_matrix_is_refused_with_what_to_paste(text: str, why: str, what: str) -> None:
    with pytest.raises(CaptureError) as refused:
        machine_from_capture(text)
    message = str(refused.value)
    assert why in message
    assert what in message


def test_paste_of_junk_is_refused() -> None:
    topo = (FIXTURES / "topo.txt").read_text(encoding="utf-8")
    junk = (
        "|||",
        ">>>>",
        "node1: ",
        "```",
        "GPU0 GPU1",
        "GPU0 X",
        "\tGPU0\tGPU1\nGPU0: X",
        "[" * 50,
        topo[:60],
    )
    for text in junk:
        with pytest.raises(CaptureError):
            machine_from_capture(f"{text}\n")
