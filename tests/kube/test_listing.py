"""A list that outlives the server's history begins again, and not for ever."""

import pytest
from toposcope.kube.errors import ApiError, ResourceExpiredError
from toposcope.kube.listing import once_more

EXPIRED = ResourceExpiredError(410, "Expired", "The provided continue parameter is too old")


class Reads:
    """A collection whose reading fails with these errors before it succeeds."""

    def __init__(self, *errors: ApiError) -> None:
        self.errors = list(errors)
        self.count = 0

    def read(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "everything"


@pytest.mark.parametrize("expired", [0, 1, 2])
def test_list_that_expires_begins_again(expired: int) -> None:
    reads = Reads(*[EXPIRED] * expired)
    assert once_more(reads.read) == "everything"
    assert reads.count == expired + 1


def test_list_that_expires_each_time_is_an_error() -> None:
    reads = Reads(*[EXPIRED] * 9)
    with pytest.raises(ResourceExpiredError):
        once_more(reads.read)
    assert reads.count == 3


def test_other_errors_are_not_tried_again() -> None:
    reads = Reads(ApiError(403, "Forbidden", "no"))
    with pytest.raises(ApiError, match="no"):
        once_more(reads.read)
    assert reads.count == 1
