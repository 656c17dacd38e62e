"""What the annotation says is wrong with single GPUs."""

import json
from typing import Any

import pytest
from toposcope.hardware.matrix_annotation import GpuFault, gpu_faults

WEAK = "GPU 3: 17 of 18 NVLinks active"
NOTE = "GPU 5: NVML does not say which NVLinks are up"
WHOLE = "the node was in a fabric"


def annotation(**fields: Any) -> str:
    document = {
        "version": 1,
        "reasons": [WEAK, WHOLE, NOTE],
        **fields,
    }
    return json.dumps(document)


def test_faults_are_told_by_their_field() -> None:
    faults = [
        {"kind": "links-down", "gpu": 3},
        {"kind": "fabric-left"},
    ]
    found = gpu_faults(annotation(faults=faults))
    assert found == (GpuFault("GPU3", "links-down", WEAK),)


def test_no_faults_in_their_field_are_none() -> None:
    healthy = annotation(faults=[])
    assert gpu_faults(healthy) == ()


def test_faults_of_an_earlier_agent_are_told_by_its_words() -> None:
    first, second = gpu_faults(annotation())
    assert first == GpuFault("GPU3", "", WEAK)
    assert second == GpuFault("GPU5", "", NOTE)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param("no JSON", id="no-json"),
        pytest.param('{"version": 2}', id="another-version"),
        pytest.param(annotation(faults=[{"gpu": 3}]), id="fault-without-kind"),
    ],
)
def test_what_cannot_be_read_tells_no_fault(text: str | None) -> None:
    assert gpu_faults(text) == ()
