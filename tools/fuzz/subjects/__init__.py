"""The subjects of fuzzing, one a file, by name."""

from typing import Final

from tools.fuzz.subject import Subject
from tools.fuzz.subjects.annotations import ANNOTATIONS
from tools.fuzz.subjects.answers import ANSWERS
from tools.fuzz.subjects.captures import CAPTURES
from tools.fuzz.subjects.configs import CONFIGS
from tools.fuzz.subjects.hostile import HOSTILE
from tools.fuzz.subjects.labels import LABELS
from tools.fuzz.subjects.messages import MESSAGES
from tools.fuzz.subjects.nodes import NODES
from tools.fuzz.subjects.nvml import NVML
from tools.fuzz.subjects.packed import PACKED
from tools.fuzz.subjects.profiles import PROFILES
from tools.fuzz.subjects.saved import SAVED
from tools.fuzz.subjects.specs import SPECS
from tools.fuzz.subjects.sysfs import SYSFS
from tools.fuzz.subjects.workloads import WORKLOADS

SUBJECTS: Final[dict[str, Subject]] = {
    subject.name: subject
    for subject in (
        LABELS,
        ANNOTATIONS,
        NODES,
        SPECS,
        CONFIGS,
        PROFILES,
        CAPTURES,
        WORKLOADS,
        SAVED,
        PACKED,
        ANSWERS,
        NVML,
        SYSFS,
        HOSTILE,
        MESSAGES,
    )
}
