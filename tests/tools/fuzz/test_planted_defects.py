"""A defect is planted for every subject, and the subject has to find it."""

import dataclasses
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import toposcope.agent.baseline
import toposcope.hardware.matrix_annotation
import toposcope.hierarchy.controller_config
import toposcope.simulator.capture
from tools.fuzz.run import fuzz as run
from tools.fuzz.subjects import SUBJECTS
from tools.fuzz.subjects.files import _TABS
from tools.fuzz.subjects.objects import _alone
from toposcope.agent.labels import Labels, labels_for
from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import GPU_PRODUCT
from toposcope.hardware.topology import NodeTopology
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.controller_config import Config
from toposcope.hierarchy.effective_levels import EffectiveLevels, LevelTimers, effective_levels
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.document import Field
from toposcope.simulator.capture_text import CaptureError
from toposcope.simulator.machine import Machine

pytestmark = pytest.mark.slow

_ENCODE = toposcope.agent.baseline.encode


def _every_level_twice(*arguments: Any, **named: Any) -> EffectiveLevels:
    result = effective_levels(*arguments, **named)
    return dataclasses.replace(result, levels=result.levels * 2)


def _nothing_beside_a_problem(content: bytes, file: str) -> Config:
    result = toposcope.hierarchy.controller_config.read_config(content, file)
    if not result.problems:
        return result
    return Config(BUILT_IN, result.problems)


def _takes_anything(text: str) -> Machine:
    try:
        return toposcope.simulator.capture.machine_from_capture(text)
    except CaptureError:
        return toposcope.simulator.capture.machine_from_capture(_TABS)


def _product_as_it_is(machine: NodeTopology, name: str) -> Labels:
    result = labels_for(machine, name)
    return result._replace(by_key=result.by_key | {GPU_PRODUCT: "NVIDIA H200"})


class _Unchecked:
    """In the place of zlib: unpacks without a look at the checksum."""

    compress = staticmethod(zlib.compress)
    error = zlib.error

    class decompressobj:  # noqa: N801 - zlib's name
        def __init__(self, _form: int) -> None:
            self._inner = zlib.decompressobj(-15)
            self.unused_data = b""

        def decompress(self, content: bytes, most: int) -> bytes:
            return self._inner.decompress(content[10:-8], most)

        @property
        def eof(self) -> bool:
            return self._inner.eof


def _only_where_all_have_it(
    topology: Topology, nodes: Table, _timers: LevelTimers, now: float, *, catalogue: Catalogue, **_bindings: object
) -> EffectiveLevels:
    bare = dataclasses.replace(topology, status={})
    return effective_levels(bare, nodes, LevelTimers(), now, catalogue=catalogue)


DEFECTS: list[tuple[str, str, Any, str]] = [
    ("labels", "tools.fuzz.subjects.agent.label_safe", str.strip, "is no label value"),
    ("labels", "tools.fuzz.subjects.agent.short_name", lambda text: text[:63].rstrip("-."), "become one value"),
    (
        "annotations",
        "toposcope.agent.baseline.encode",
        lambda reference: _ENCODE(reference._replace(is_in_fabric=False)),
        "does not survive its own writing",
    ),
    (
        "annotations",
        "tools.fuzz.subjects.agent.parse",
        lambda text: dataclasses.replace(toposcope.hardware.matrix_annotation.parse(text), reasons=()),
        "reasons are not those",
    ),
    ("nodes", "toposcope.controller.status.fit_to_size", lambda status: status, "larger than it may be"),
    ("nodes", "toposcope.controller.assess.assessment.effective_levels", _every_level_twice, "schedulers refuse"),
    ("specs", "toposcope.api.cluster_topology.typed_spec", lambda given: (given or {}, []), "Error"),
    ("configs", "tools.fuzz.subjects.files.read_config", _nothing_beside_a_problem, "is lost beside a bad one"),
    ("configs", "toposcope.hierarchy.controller_config.printable", str, "control character"),
    ("profiles", "toposcope.simulator.document._in_words", lambda message: f"KeyError: {message}", "words of Python"),
    ("captures", "tools.fuzz.subjects.files.machine_from_capture", _takes_anything, "2 GPUs of []"),
    (
        "workloads",
        "toposcope.integrations.framework.document.Field.__truediv__",
        lambda field, name: Field(field.value and field.value.get(name), name, field.findings, field),
        "Error",
    ),
    ("saved", "toposcope.snapshot.documents.UNREADABLE", (), "Error"),
    ("packed", "toposcope.snapshot.packed.zlib", _Unchecked, "without a word"),
    (
        "answers",
        "toposcope.kube.client._body",
        lambda response, _largest: response.read(1 << 20),
        "half an answer is taken for a whole one",
    ),
    ("nvml", "toposcope.agent.describe.labels_for", _product_as_it_is, "is no label value"),
    (
        "sysfs",
        "toposcope.agent.sysfs.Files.text",
        lambda _files, path: Path(path).read_text(encoding="ascii").strip(),
        "Error",
    ),
    ("hostile", "toposcope.controller.assess.assessment.effective_levels", _only_where_all_have_it, "published were"),
    (
        "hostile",
        "toposcope.controller.segments.names_of",
        lambda listed, *_: {segment.levels: f"segment-{number}" for number, segment in enumerate(listed)},
        "segment",
    ),
    ("hostile", "toposcope.hierarchy.segments._Division._lacks", lambda *_: (), "segment"),
    (
        "messages",
        "toposcope.agent.nvml.channel.Channel.receive",
        lambda channel: (channel._socket.recv(1), ""),
        "of the unknown kind",
    ),
    ("messages", "toposcope.agent.annotation.LIMIT_BYTES", 1 << 20, "the annotation gpu.topology/matrix has"),
    ("messages", "toposcope.agent.raw.typed", lambda value, kind: kind(*value), "Error"),
    ("lldp", "toposcope.switches.lldp.plain", lambda text: text, "Error"),
]


BATCHES = 40
"""A defect that cases meet seldom is found in one of them: each is drawn from a seed of its own.

What Hypothesis draws from a seed changes with the constants of the modules that are loaded.
"""


@pytest.mark.parametrize(
    ("name", "target", "defect", "words"), DEFECTS, ids=["-".join(defect[:2]) for defect in DEFECTS]
)
def test_planted_defect_is_found(
    name: str, target: str, defect: Callable[..., Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, defect)
    _alone.cache_clear()
    result = run(
        SUBJECTS[name],
        float("inf"),
        1,
        BATCHES,
        shrink=False,
    )
    _alone.cache_clear()
    assert words in result.finding


def test_every_subject_has_a_planted_defect() -> None:
    planted = {subject for subject, *_ in DEFECTS}
    assert planted == set(SUBJECTS)
