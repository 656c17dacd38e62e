"""Machine profiles and recordings: written by hand, or sent by users."""

import tempfile
from pathlib import Path
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from tools.fuzz.material import encoded, spoiled, text_of
from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.simulator.document import DocumentError
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.recording import RecordingError, decode

_FOLDER: Final = Path(load_profile.__code__.co_filename).parent / "profiles"
_TEXTS: Final = tuple((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in profile_names())
_WORDS: Final = (
    "gpus",
    "nics",
    "numa",
    "nvlink",
    "switched:",
    "18",
    "-1",
    "999999999",
    "0-3",
    "{",
    "[",
    "&a",
    "*a",
    "mlx5_0",
)


def attempt(case: Any) -> Outcome:
    """A machine, or a sentence; a recording as well."""
    content = case if isinstance(case, bytes) else yaml.safe_dump(case, allow_unicode=True).encode("utf-8", "replace")
    try:
        decode(content, "sent.json")
    except RecordingError as error:
        refusal(error)
    path = Path(tempfile.gettempdir()) / "profile.yaml"
    path.write_bytes(content)
    try:
        machine = load_profile(path)
    except DocumentError as error:
        return refusal(error)
    held(machine.numa_nodes, "a machine without memory")
    nvml = SimulatedNvml(machine)
    nvml.nvmlInit()
    count = nvml.nvmlDeviceGetCount()
    held(count == len(machine.gpus), f"a machine of {len(machine.gpus)} GPUs shows {count}")
    return "taken"


PROFILES: Final = Subject(
    "profiles",
    "a profile or recording becomes a machine or a sentence",
    st.one_of(encoded(text_of(_TEXTS, _WORDS)), spoiled([yaml.safe_load(text) for text in _TEXTS], *_WORDS)),
    attempt,
)
