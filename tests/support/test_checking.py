"""What a failed comparison of findings shows."""

from tests.support.checking import difference, error, warning

UNKNOWN = error("kai/level-exists", "spec.level", "there is no level rak", fix="did you mean 'rack'?")
BROADER = warning("kai/broader-than-parent", "spec.level", "is broader", fix="name a narrower level")


def test_difference_names_what_is_missing_and_what_is_too_many() -> None:
    assert difference([BROADER], [UNKNOWN]) == [
        "findings differ",
        "expected error kai/level-exists spec.level",
        "  message: there is no level rak",
        "  fix: did you mean 'rack'?",
        "got warning kai/broader-than-parent spec.level",
        "  message: is broader",
        "  fix: name a narrower level",
    ]


def test_difference_of_the_same_findings_is_their_order() -> None:
    assert difference([BROADER, UNKNOWN], [UNKNOWN, BROADER]) == ["the same findings, in another order or number"]
