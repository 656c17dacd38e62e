"""What the annotation says is wrong with single GPUs."""

import json
from typing import Any

import pytest
from toposcope.hardware.matrix_annotation import GpuFault, gpu_faults

WEAK = "GPU 3: 17 of 18 NVLinks active"
NOTE = "GPU 5: NVML does not say which NVLinks are up"
WHOLE = "the node was in a fabric"


def annotation(**fields: Any) -> str:
    return json.dumps({"version": 1, "reasons": [WEAK, WHOLE, NOTE], **fields})


def test_faults_are_told_by_their_field() -> None:
    faults = [{"kind": "links-down", "gpu": 3}, {"kind": "fabric-left"}]
    assert gpu_faults(annotation(faults=faults)) == (GpuFault("GPU3", "links-down", WEAK),)
    assert gpu_faults(annotation(faults=[])) == ()


def test_faults_of_an_earlier_agent_are_told_by_its_words() -> None:
    assert gpu_faults(annotation()) == (GpuFault("GPU3", "", WEAK), GpuFault("GPU5", "", NOTE))


@pytest.mark.parametrize("text", [None, "", "no JSON", '{"version": 2}', annotation(faults=[{"gpu": 3}])])
def test_what_cannot_be_read_tells_no_fault(text: str | None) -> None:
    assert gpu_faults(text) == ()
