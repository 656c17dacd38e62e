"""Asking about a workload."""

from functools import partial
from pathlib import Path

import pytest
from tests.explain.explained import Explain, explain_in


@pytest.fixture
def explain(tmp_path: Path) -> Explain:
    """`toposcope explain` on a saved cluster: `explain(cluster, "job/train")`."""
    return partial(explain_in, tmp_path)
