"""The subjects of fuzzing by name."""

from typing import Final

from tools.fuzz.subject import Subject
from tools.fuzz.subjects.agent import ANNOTATIONS, LABELS, MESSAGES, NVML, SYSFS
from tools.fuzz.subjects.answers import ANSWERS
from tools.fuzz.subjects.files import CAPTURES, CONFIGS, PACKED, PROFILES, SAVED
from tools.fuzz.subjects.objects import HOSTILE, NODES, SPECS
from tools.fuzz.subjects.switches import LLDP
from tools.fuzz.subjects.workloads import WORKLOADS

SUBJECTS: Final[dict[str, Subject]] = {
    subject.name: subject
    for subject in (
        LABELS, ANNOTATIONS, NODES, SPECS, CONFIGS, PROFILES, CAPTURES, WORKLOADS, SAVED, PACKED, ANSWERS, NVML, SYSFS,
        HOSTILE, MESSAGES, LLDP,
    )
}  # fmt: skip
