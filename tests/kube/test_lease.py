"""Leases over real connections and as data."""

import json
from typing import Any

import pytest
from tests.kube.scripted import ScriptedServer, answer
from tests.support.api import ApiUnderTest, Clients
from tests.support.cluster import START
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError, UnreachableError
from toposcope.kube.lease import Lease, new_lease, read, write, write_request

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader"


@pytest.fixture
def client(clients: Clients) -> ApiClient:
    return clients()


def fresh() -> Lease:
    return new_lease("default", "leader").claimed("a", 15, START)


def lease(**spec: Any) -> Lease:
    metadata = {
        "name": "leader",
        "namespace": "default",
        "resourceVersion": "1",
    }
    return Lease(metadata, spec)


def claimed_by(holder: str, made: Lease) -> Lease:
    return made.claimed(holder, 15, START)


def test_of_two_writers_one_gets_a_conflict(client: ApiClient) -> None:
    made = write(client, fresh())
    write(client, claimed_by("a", made))
    for late in (claimed_by("b", made), fresh()):
        with pytest.raises(ApiError, match=r"^409"):
            write(client, late)


def test_a_deleted_lease_does_not_come_back_by_a_renewal(client: ApiClient, api: ApiUnderTest) -> None:
    made = write(client, fresh())
    api.request("DELETE", LEASE)
    renewal = claimed_by("a", made)
    with pytest.raises(ApiError, match=r"^(409|404)"):
        write(client, renewal)
    assert read(client, "default", "leader") is None


def test_what_others_wrote_on_a_lease_stays(client: ApiClient, api: ApiUnderTest) -> None:
    write(client, fresh())
    api.patch(LEASE, {"metadata": {"labels": {"team": "x"}}})
    found = read(client, "default", "leader")
    assert found is not None
    renewed = write(client, claimed_by("a", found))
    assert renewed.metadata["labels"] == {"team": "x"}


def test_a_renewal_with_the_clock_standing_still_is_a_change_all_the_same(client: ApiClient) -> None:
    made = write(client, fresh())
    renewed = write(client, claimed_by("a", made))
    before = made.metadata["resourceVersion"]
    assert renewed.metadata["resourceVersion"] != before


@pytest.mark.parametrize(
    ("spec", "holder", "seconds"),
    [
        pytest.param({}, "", 0, id="empty"),
        pytest.param({"holderIdentity": None, "leaseDurationSeconds": None}, "", 0, id="null"),
        pytest.param({"holderIdentity": 7, "leaseDurationSeconds": "15"}, "", 0, id="number-holder"),
        pytest.param({"holderIdentity": ["a"], "leaseDurationSeconds": -3}, "", 0, id="list-holder"),
        pytest.param({"holderIdentity": "a", "leaseDurationSeconds": 3600}, "a", 3600, id="well-formed"),
    ],
)
def test_a_malformed_lease_says_nothing_and_can_be_taken(spec: dict[str, Any], holder: str, seconds: int) -> None:
    found = lease(
        **spec,
        leaseTransitions=2**31 - 1,
        acquireTime=3,
        renewTime={},
    )
    assert found.holder == holder
    assert found.seconds == seconds
    assert found.is_released is False
    now = "2026-01-02T03:04:05.000000Z"
    assert claimed_by("a", found).spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 2**31 - 1,
        "acquireTime": now,
        "renewTime": now,
    }


def test_a_write_is_a_post_once_and_a_put_ever_after() -> None:
    first = write_request(fresh())
    assert first.method == "POST"
    assert first.path == LEASE.removesuffix("/leader")
    later = write_request(lease())
    assert later.method == "PUT"
    assert later.path == LEASE


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[]", id="list"),
        pytest.param(b"7", id="number"),
        pytest.param(b"{}", id="empty"),
        pytest.param(b'{"metadata":{"name":"leader"}}', id="name-only"),
        pytest.param(b'{"metadata":[]}', id="metadata-list"),
        pytest.param(b"<html>", id="html"),
    ],
)
def test_an_answer_that_is_no_lease_is_no_answer(body: bytes) -> None:
    with ScriptedServer([answer(body)]) as server, pytest.raises(UnreachableError):
        read(server.client(), "default", "leader")


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "resourceVersion"])
def test_an_object_without_what_every_lease_has_is_no_lease(field: str) -> None:
    metadata = {"name": "leader", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    metadata[field] = ""
    body = json.dumps({"metadata": metadata, "spec": {"holderIdentity": "a"}})
    with (
        ScriptedServer([answer(body.encode())]) as server,
        pytest.raises(UnreachableError, match="the answer to a request for a Lease is not a Lease: "),
    ):
        read(server.client(), "default", "leader")


def test_a_lease_without_a_spec_is_empty() -> None:
    body = b'{"metadata":{"name":"leader","namespace":"default","uid":"u","resourceVersion":"1"},"spec":null}'
    with ScriptedServer([answer(body)]) as server:
        found = read(server.client(), "default", "leader")
    assert found is not None
    assert found.spec == {}
