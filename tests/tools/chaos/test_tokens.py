"""Tokens of the programs are given as a kubelet gives them: bound to the pod that the API server has now."""

from typing import Any

import pytest
from tests.support.api import ApiUnderTest
from tools.apiserver.client import pod_token
from tools.chaos.cluster import NODES, PODS, pod, present_pod

NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


@pytest.fixture(scope="module")
def wanted(real_api: ApiUnderTest) -> dict[str, Any]:
    """The pod of a program, whose namespace, account and Node are there."""
    namespaces = "/api/v1/namespaces"
    for path, name in (
        (namespaces, "toposcope-system"),
        (f"{namespaces}/toposcope-system/serviceaccounts", "toposcope-agent"),
        (NODES, "machine-0"),
    ):
        real_api.create(path, {"metadata": {"name": name}})
    return pod("agent-0", "toposcope-agent", "machine-0")


def test_pod_that_is_not_there_is_created(real_api: ApiUnderTest, wanted: dict[str, Any]) -> None:
    real_api.request("DELETE", f"{PODS}/agent-0", NOW)
    made = present_pod(real_api, wanted)
    there = real_api.get(f"{PODS}/agent-0")
    assert uid(there) == uid(made)


def uid(found: dict[str, Any]) -> str:
    """The uid of an object."""
    metadata = found["metadata"]
    value: str = metadata["uid"]
    return value


def test_token_after_a_restore_is_of_the_pod_that_came_back(real_api: ApiUnderTest, wanted: dict[str, Any]) -> None:
    lost = present_pod(real_api, wanted)
    # To the server a restored etcd looks like this: a pod of the same name that is another one.
    real_api.request("DELETE", f"{PODS}/agent-0", NOW)
    restored = real_api.create(PODS, wanted)
    with pytest.raises(AssertionError, match="UID"):
        pod_token(real_api, lost)
    present = present_pod(real_api, wanted)
    assert uid(present) == uid(restored)
    assert pod_token(real_api, present)
