"""Findings that differ are shown whole."""

from typing import Any

from tests.support.checking import Finding, difference


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Explain `answer.findings == [...]`."""
    if op != "==" or not isinstance(left, list) or not isinstance(right, list):
        return None
    if not all(isinstance(item, Finding) for item in [*left, *right]):
        return None
    return difference(left, right)
