"""Every reader of foreign text, as a function of one text: what `tools.fuzz.growth` measures.

A refusal is as good as a result. A reader that another one always calls is not named again.
"""

import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from tools.fuzz.subject import sample
from tools.fuzz.subjects.workloads import cluster
from toposcope import text
from toposcope.agent import baseline
from toposcope.api import cluster_topology, conditions, label_values, yaml_text
from toposcope.api.label_keys import MATRIX
from toposcope.cli.terminal import fitted
from toposcope.explain.meanings import meaning
from toposcope.hardware import matrix_annotation, neighbours, pci, ranges
from toposcope.hierarchy.controller_config import read_config
from toposcope.integrations.documents import read_topology
from toposcope.integrations.dra import selectors
from toposcope.integrations.framework.foreign_patterns import MAX_CHARACTERS, compiled
from toposcope.integrations.slurm import hostlist
from toposcope.kube import kubeconfig
from toposcope.kube.pod_resources import amount, is_gpu_part
from toposcope.placement.check import Checker
from toposcope.simulator import recording
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.profile import load_profile
from toposcope.snapshot import filters
from toposcope.snapshot.documents import documents
from toposcope.snapshot.files import load_files
from toposcope.switches import lldp

_PUMPS: Final = (
    *(
        " ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "a",
        "0",
        "9",
        "-",
        "_",
        ".",
        ",",
        ":",
        "/",
        "#",
        "=",
        "!",
        "|",
        "\\",
        "'",
        '"',
    ),
    *("(", "[", "{", "<", "()", "[]", "{}", "],", "\u00e9", "\u2028", "\x1b[0m", "\x00"),
    *(
        "#\r\n",
        "# a\n",
        " #\n",
        "---\n",
        "---\r\n",
        "--- #\n",
        "- ",
        "-\n",
        "- a\n",
        "a: ",
        "a:\n",
        "? ",
        "a: 1\n",
    ),
    *(
        "&a ",
        "*a ",
        "!!a ",
        "<<: ",
        "{a: ",
        '{"a":',
        '{"a":1}',
        '{"kind":"A"}\n',
        "[1,",
        "1,",
        "1, ",
        "0-9,",
        "0-1048575,",
    ),
    *(
        "a=b,",
        "a in (",
        "a b",
        "a. ",
        "9 a, ",
        "a || ",
        "a && ",
        "!(",
        "a.b",
        "a/b.c/",
        '"a"',
        "a\n b",
        " a\n",
    ),
    *(
        "GPU0 ",
        "GPU0\t",
        "NIC0: a\n",
        "GPU 0: ",
        "X ",
        "NV18\t",
        "NUMA node0 CPU(s): ",
        "Link 0: ",
        "mlx5_0 ",
    ),
)


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader. Its texts are each head, many of each pump, and each tail."""

    name: str
    read: Callable[[str], object]
    heads: tuple[str, ...] = ("",)
    tails: tuple[str, ...] = ("\x01",)
    pumps: tuple[str, ...] = ()
    """Besides those that all readers get."""

    def units(self) -> list[tuple[str, str, str]]:
        """Head, pump and tail of each text."""
        pumps = dict.fromkeys((*_PUMPS, *self.pumps))
        return list(product(self.heads, pumps, self.tails))


def _objects(content: str) -> None:
    problems: list[Any] = []
    for document in documents(
        ["-"], problems.append, io.BytesIO(content.encode()), can_lack_kind=True
    ):
        document.read(dict)


@cache
def _checker() -> Checker:
    return Checker(load_files(["-"], io.BytesIO(cluster())))


def _workload(content: str) -> None:
    """A manifest with this text wherever a text may be."""
    limits = {"nvidia.com/gpu": content}
    pod = {
        "nodeSelector": {content: content},
        "containers": [{"name": content, "resources": {"limits": limits}}],
    }
    annotations = {"kueue.x-k8s.io/podset-required-topology": content, content: content}
    template = {
        "metadata": {"annotations": annotations, "labels": {"kueue.x-k8s.io/queue-name": content}},
        "spec": pod,
    }
    spec = {"parallelism": 2, "template": template}
    _checker().check(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": content}, "spec": spec}
    )


def _file(read: Callable[[Path], object], content: str) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content.encode())
        file.flush()
        read(Path(file.name))


def _annotated(content: str) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n",
            "annotations": {MATRIX: content},
            "labels": {},
        },
    }
    load_files(["-"], io.BytesIO(msgspec.json.encode(node)))


def _labels(content: str) -> None:
    label_values.label_safe(content)
    label_values.short_name(content)
    label_values.is_name(content)
    label_values.is_label_value(content)
    label_values.is_harmless_value(content)
    label_values.count_of(content)


def _terminal(content: str) -> None:
    list(fitted(text.escaped(content), 80))
    text.printable(content)
    text.by_numbers(content)


def _matched(pattern: str) -> None:
    """A pattern as long as the text, which is refused, and the longest that is not."""
    compiled(pattern)
    regex = compiled(pattern[:MAX_CHARACTERS])
    if regex:
        for name in ("a" * 253, "0" * 253, "-" * 253, "a-" * 126):
            regex.search(name)


def _hosts(content: str) -> None:
    name = content[:253]
    count = len(content) // 253 + 1
    names = [name + str(number) for number in range(count)]
    hostlist.hostlist(names)
    text.by_numbers(name)


def _decoded(content: str) -> None:
    lldp.decode(bytes.fromhex("0180c200000e020304050607") + b"\x88\xcc" + content.encode())


def _device(expression: str) -> None:
    # What a selector asks of a device.
    device: Any = SimpleNamespace(driver="d", attributes={}, attribute=lambda _: None)
    selectors.matches(expression, device)


def _status(content: str) -> None:
    condition = {
        "type": conditions.LEVELS_AVAILABLE,
        "status": "False",
        "message": content,
    }
    conditions.unavailable_levels({"conditions": [condition]})
    cluster_topology.typed_status(
        {"conditions": [{"type": content, "status": content, "message": content}]}
    )


_LIST: Final = '{\n    "apiVersion": "v1",\n    "items": [\n        {\n'
_NODE: Final = "apiVersion: v1\nkind: Node\nmetadata:\n  managedFields:\n"
_MESSAGE: Final = (
    "0/5 nodes are available: ",
    "0/5 nodes are available: 3 node(s) had untolerated taint {",
    "topology t, requirement r couldn't be satisfied for job <",
    "Job is not ready for scheduling.Waiting for 1 pods for SubGroup ",
    "podset-slice",
    "Unavailable topology domains: [",
)
_SAID: Final = (
    *(
        "9 a, ",
        "9 ",
        "1/1 ",
        "topology a, requirement ",
        "no nodes with enough resources were found: ",
        "9/9 slice",
    ),
    *(
        "Job is not ready for scheduling.",
        "untolerated taint {",
        "[",
        "insufficient quota for a in flavor a, ",
        "<",
    ),
)
READERS: Final = (
    Reader(
        "objects of a file",
        _objects,
        ("", "apiVersion: v1\nitems:\n- a\n", _LIST, '{"kind":"List","items":[', "\ufeff"),
    ),
    Reader(
        "a saved cluster",
        lambda given: load_files(["-"], io.BytesIO(given.encode())),
        ("", _NODE, '{"kind":"Node"}\n'),
    ),
    Reader(
        "a YAML document",
        lambda given: yaml_text.load(given.encode()),
        ("", "a: ", "- ", "a: 0x", "a: 1", "{", "a: &a b\n"),
    ),
    Reader(
        "a field's line",
        lambda given: yaml_text.locate(given.encode(), "$.a[b].c[0]"),
        ("", "a:\n  b: "),
    ),
    Reader("a path of an error", lambda given: yaml_text.locate(b"a: 1", f"$.{given}"), ("", "a[")),
    Reader(
        "lists that nobody reads",
        lambda given: yaml_text.without_unread(given.encode()),
        (_NODE, "", "kind: Pod\n"),
        pumps=(
            " managedFields:\n",
            "  managedFields:\n  - a\n",
            "  - a\n",
            "   a\n",
            "  images:\n",
        ),
    ),
    Reader("a manifest", _workload),
    Reader(
        "the controller's configuration",
        lambda given: read_config(given.encode(), "c"),
        ("", "apiVersion: "),
    ),
    Reader(
        "a kubeconfig",
        lambda given: _file(lambda path: kubeconfig.read(str(path)), given),
        ("", "clusters:\n- "),
    ),
    Reader(
        "a topology to convert",
        lambda given: read_topology(yaml_text.load(given.encode())),
        ("", "spec:\n  levels:\n"),
    ),
    Reader(
        "a pasted matrix",
        machine_from_capture,
        ("", sample("matrix-tabs.txt"), "\tGPU0\tGPU1\nGPU0\tX\t"),
    ),
    Reader(
        "a profile", lambda given: _file(load_profile, given), ("", "gpus: ", "name: a\ngpus:\n")
    ),
    Reader(
        "a recording",
        lambda given: recording.decode(given.encode(), "r"),
        ("", '{"schema":"', '{"files":['),
    ),
    Reader(
        "a matrix annotation",
        matrix_annotation.parse,
        ("", '{"version":1,"gpus":[', '{"version":1,"links":"'),
    ),
    Reader("a reference annotation", baseline.decode, ("", '{"version":1,"gpus":[')),
    Reader("a switches annotation", neighbours.parse_neighbours, ("", '{"a":{"switch":"')),
    Reader("an annotated Node", _annotated, ("", '{"version":1,"reasons":["')),
    Reader("a selector of labels", filters.parse, ("", "a in (", "a", "!")),
    Reader(
        "a selector of devices",
        _device,
        ("", "device.", 'device.attributes["', "!"),
        pumps=("!", "a == ", "has("),
    ),
    Reader(
        "a HyperNode's pattern",
        _matched,
        ("", "^", "(", "["),
        pumps=("a?", "a*", "a+", "(a|b)", "(a|ab)", "a{1,9}", "[a-z]*"),
    ),
    Reader("a scheduler's message", meaning, ("", *_MESSAGE), pumps=_SAID),
    Reader("a quantity", lambda given: amount("cpu", given), ("", "1e", "0.", "-")),
    Reader("a duration", cluster_topology.seconds, ("", "1", "1h")),
    Reader("a status", _status, ("", "Topology level '"), pumps=("Topology level '",)),
    Reader("a kernel's list", ranges.parse_list, ("", "0-", "0-1:")),
    Reader("a PCI address", pci.normal_address, ("", "0000:", "00000000:00:00.")),
    Reader("a resource's name", is_gpu_part, ("", "nvidia.com/mig-", "amd.com/")),
    Reader("labels and names", _labels),
    Reader("Slurm's lists of hosts", _hosts),
    Reader("an LLDP frame", _decoded, ("", "\x02\x07\x04\x00\x00\x00\x00\x00\x01")),
    Reader("text for a terminal", _terminal),
)
