"""What the controller remembers of unavailable levels: a field of the status, or its message in old ones."""

from typing import Any

import pytest
from toposcope.api.conditions import LEVELS_AVAILABLE, unavailable_levels, unavailable_message


def status(verdict: str, message: str, **fields: Any) -> dict[str, Any]:
    return {"conditions": [{"type": LEVELS_AVAILABLE, "status": verdict, "message": message}], **fields}


def test_field_counts_whatever_the_message_says() -> None:
    stored = status("False", "C042", unavailableLevels=[{"domain": "rack"}, {"domain": "zone"}])
    assert unavailable_levels(stored) == {"rack", "zone"}
    assert unavailable_levels(status("False", unavailable_message("host"), unavailableLevels=[])) == frozenset()


def test_status_of_an_older_version_has_levels_in_its_message() -> None:
    message = "; ".join([unavailable_message("rack"), unavailable_message("zone")])
    assert unavailable_levels(status("False", message)) == {"rack", "zone"}


@pytest.mark.parametrize("verdict", ["True", "Unknown"])
def test_no_level_is_unavailable_without_a_false_condition(verdict: str) -> None:
    assert unavailable_levels(status(verdict, unavailable_message("rack"))) == frozenset()
    assert unavailable_levels(status(verdict, "", unavailableLevels=[{"domain": "rack"}])) == frozenset()
    assert unavailable_levels({}) == frozenset()
