"""Snapshots that `toposcope save` wrote, damaged on their way."""

import io
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from fuzz.subject import Outcome, Subject, held, refusal
from fuzz.subjects.workloads import cluster
from survey.decode import every
from survey.files import load_files
from survey.packed import MAGIC, read_packed, write_packed
from survey.problems import BadInput
from survey.scope import scope
from survey.tree import tree


@cache
def _whole() -> bytes:
    out = io.BytesIO()
    write_packed(load_files(["-"], io.BytesIO(cluster())), out)
    return out.getvalue()


def attempt(case: Any) -> Outcome:
    """The whole cluster, or a sentence; never part of one as if it were all."""
    whole = _whole()
    damaged = bytearray(whole)
    cut, changes = case
    for at, value in changes:
        damaged[len(MAGIC) + at % (len(whole) - len(MAGIC))] = value
    path = Path(tempfile.gettempdir()) / "cluster.snapshot"
    path.write_bytes(bytes(damaged[: len(damaged) - cut % len(whole)]))
    try:
        snapshot = read_packed(path, every)
    except BadInput as error:
        for problem in error.problems:
            refusal(problem)
        return "refused"
    held(len(snapshot.nodes) in {0, 8} or bytes(damaged) != whole, "nodes are missing from a whole snapshot")
    tree(snapshot, scope(snapshot))
    return "taken"


PACKED: Final = Subject(
    "packed",
    "a damaged snapshot is told and never read by halves",
    st.tuples(
        st.one_of(st.just(0), st.just(0), st.integers(0, 5000)),
        st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4),
    ),
    attempt,
)
