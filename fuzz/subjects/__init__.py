"""The subjects of fuzzing, one a file, by name."""

from typing import Final

from fuzz.subject import Subject
from fuzz.subjects.annotations import ANNOTATIONS
from fuzz.subjects.answers import ANSWERS
from fuzz.subjects.captures import CAPTURES
from fuzz.subjects.configs import CONFIGS
from fuzz.subjects.frames import FRAMES
from fuzz.subjects.hostile import HOSTILE
from fuzz.subjects.labels import LABELS
from fuzz.subjects.nodes import NODES
from fuzz.subjects.nvml import NVML
from fuzz.subjects.packed import PACKED
from fuzz.subjects.profiles import PROFILES
from fuzz.subjects.saved import SAVED
from fuzz.subjects.specs import SPECS
from fuzz.subjects.sysfs import SYSFS
from fuzz.subjects.workloads import WORKLOADS

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
        FRAMES,
    )
}
