"""The subjects of fuzzing by name: whoever asks for them loads them all."""

from tools.fuzz.subject import SUBJECTS
from tools.fuzz.subjects import agent, answers, files, objects, switches, workloads  # noqa: F401 - each adds its own

__all__ = ["SUBJECTS"]
