"""What the controller remembers of unavailable levels: a field of the status, or its message in old ones."""

from typing import Any

import pytest
from toposcope.api.conditions import LEVELS_AVAILABLE, unavailable_levels, unavailable_message


def status(verdict: str, message: str, **fields: Any) -> dict[str, Any]:
    condition = {
        "type": LEVELS_AVAILABLE,
        "status": verdict,
        "message": message,
    }
    return {"conditions": [condition], **fields}


def test_field_counts_whatever_the_message_says() -> None:
    rack_and_zone = [{"domain": "rack"}, {"domain": "zone"}]
    stored = status("False", "C042", unavailableLevels=rack_and_zone)
    assert unavailable_levels(stored) == {"rack", "zone"}

    about_the_host = unavailable_message("host")
    stored = status("False", about_the_host, unavailableLevels=[])
    assert unavailable_levels(stored) == frozenset()


def test_status_of_an_older_version_has_levels_in_its_message() -> None:
    about_rack = unavailable_message("rack")
    about_zone = unavailable_message("zone")
    stored = status("False", f"{about_rack}; {about_zone}")
    assert unavailable_levels(stored) == {"rack", "zone"}


@pytest.mark.parametrize("verdict", ["True", "Unknown"])
def test_no_level_is_unavailable_without_a_false_condition(verdict: str) -> None:
    about_the_rack = unavailable_message("rack")
    in_the_message = status(verdict, about_the_rack)
    assert unavailable_levels(in_the_message) == frozenset()
    in_the_field = status(verdict, "", unavailableLevels=[{"domain": "rack"}])
    assert unavailable_levels(in_the_field) == frozenset()


def test_no_level_is_unavailable_without_a_status() -> None:
    assert unavailable_levels({}) == frozenset()
