"""Quotas and requests in words, with the resource names that a ClusterQueue uses."""

from toposcope.integrations.framework.amounts import amount, is_bytes, number_of


def quota_in_words(resource: str, quota: int) -> str:
    """A quota with its unit, rounded down, so that too little never looks like enough."""
    return _in_words(resource, quota, needs=quota)


def request_in_words(resource: str, requested: int) -> str:
    """A request with its unit, rounded up."""
    return _in_words(resource, requested, needs=0)


def _in_words(resource: str, count: int, needs: int) -> str:
    if is_bytes(resource):
        return amount(resource, count, needs)
    number = number_of(resource, count, needs)
    return f"{number} {resource}"
