"""Quotas and requests in the messages about a ClusterQueue."""

import pytest
from toposcope.integrations.kueue.quantities import quota_in_words, request_in_words

pytestmark = pytest.mark.regression


@pytest.mark.parametrize(
    ("resource", "quota", "words"),
    [
        ("memory", 4, "4 bytes of memory"),
        ("memory", 64 << 30, "64 GiB of memory"),
        ("memory", (64 << 30) - 1, "63.9 GiB of memory"),
        ("memory", 0, "0 bytes of memory"),
        ("ephemeral-storage", 512 << 20, "512 MiB of ephemeral-storage"),
        ("cpu", 5500, "5.5 cpu"),
        ("cpu", 1_234_567_000, "1234567 cpu"),
        ("nvidia.com/gpu", 8, "8 nvidia.com/gpu"),
    ],
)
def test_quota_has_a_unit_of_its_size(resource: str, quota: int, words: str) -> None:
    assert quota_in_words(resource, quota) == words


def test_request_that_is_too_large_never_looks_like_the_quota() -> None:
    assert request_in_words("memory", (64 << 30) + 1) == "64.1 GiB of memory"
    assert quota_in_words("memory", 64 << 30) == "64 GiB of memory"
