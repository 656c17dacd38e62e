"""A write that is refused: when it is tried again, what is logged, what the condition says."""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest
from tests.support import publishing
from tests.support.api import ApiUnderTest, Clients, error_of, wait_until
from tests.support.cluster import BLOCK, RACK, START, ZONE, topology
from tests.support.controller import (
    condition,
    controller_of,
    edit_topology,
    make_node,
    make_topology,
    share_crd,
    status_of,
)
from toposcope.api.levels import Level
from toposcope.controller.loop import Controller
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.integrations.framework.publishing.immutable_topology import ImmutableTopologyPublisher
from toposcope.integrations.kai.api import TOPOLOGIES
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, RefusedError, UnreachableError

DENIED = ApiError(403, "Forbidden", 'admission webhook "w" denied the request: no')
WRITE = Request("PATCH", f"{publishing.KAI}/cluster", {}, b"this")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class Refusing:
    """An API server that gives one answer, and notes when it was asked."""

    def __init__(self, time: publishing.Time, answer: Exception | None) -> None:
        self.time = time
        self.answer = answer
        self.asked: list[float] = []

    def call(self, request: Request) -> Any:
        self.asked.append(self.time.seconds)
        if self.answer:
            raise self.answer
        return {"path": request.path}


def send_until(
    backoff: WriteBackoff, time: publishing.Time, until: float, request: Request = WRITE
) -> Exception | None:
    """Send a request every second; the last error."""
    last: Exception | None = None
    while time.seconds < until:
        try:
            backoff.call(request)
            last = None
        except (ApiError, UnreachableError) as error:
            last = error
        time.seconds += 1
    return last


@pytest.mark.regression
@pytest.mark.parametrize(
    ("said", "until", "asked"),
    [
        pytest.param(
            [403, "Forbidden", 'admission webhook "w" denied the request: no'],
            2200,
            [0, 30, 90, 210, 450, 930, 1530, 2130],
            id="denied-up-to-10-minutes",
        ),
        pytest.param(
            [500, "InternalError", 'failed calling webhook "w": connection refused'],
            260,
            [0, 5, 15, 35, 75, 135, 195, 255],
            id="unavailable-up-to-a-minute",
        ),
        pytest.param([409, "Conflict", "the object has been modified"], 40, [0, 5, 15, 35], id="conflict"),
        pytest.param(
            [429, "TooManyRequests", "later", 7.0], 50, [0, 7, 21, 49], id="never-sooner-than-the-server-asks"
        ),
        pytest.param([429, "", "", 900.0], 1801, [0, 900, 1800], id="not-even-at-the-limit"),
        pytest.param([404, "NotFound", "no such kind"], 3, [0, 1, 2], id="a-kind-that-is-gone-may-be-back"),
        pytest.param("refused", 3, [0, 1, 2], id="without-an-answer-the-loop-paces-it"),
        pytest.param(None, 3, [0, 1, 2], id="what-is-accepted-is-not-held-up"),
    ],
)
def test_when_a_write_is_tried_again(time: publishing.Time, said: Any, until: float, asked: list[float]) -> None:
    answer = None if said is None else error_of(said)
    server = Refusing(time, answer)
    last = send_until(publishing.backoff_on(server, time), time, until)
    assert server.asked == asked
    if isinstance(last, RefusedError) and isinstance(answer, ApiError):
        assert (last.status, last.message) == (answer.status, answer.message)
        due = time.seconds - 1 + (last.retry_after or 0)
        assert last.retry_at == START + timedelta(seconds=due)


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        pytest.param({"body": "that"}, None, id="another-document"),
        pytest.param({"method": "DELETE"}, None, id="another-method"),
        pytest.param({"path": "/apis/kai.scheduler/v1alpha1/topologies/other"}, None, id="another-target"),
        pytest.param({}, "edited", id="an-edit-of-the-spec-or-of-a-crd"),
        pytest.param({"method": "GET"}, None, id="reads-are-not-held-up"),
    ],
)
def test_what_is_tried_at_once(time: publishing.Time, change: dict[str, Any], subject: str | None) -> None:
    server = Refusing(time, DENIED)
    backoff = publishing.backoff_on(server, time)
    send_until(backoff, time, 10)
    backoff.subject = subject
    send_until(backoff, time, 11, WRITE._replace(**change))
    assert server.asked == [0, 10]


def test_acceptance_begins_anew_and_old_refusals_are_forgotten(time: publishing.Time) -> None:
    server = Refusing(time, DENIED)
    backoff = publishing.backoff_on(server, time)
    send_until(backoff, time, 90)
    server.answer = None
    send_until(backoff, time, 91)
    server.answer = DENIED
    send_until(backoff, time, 122)
    assert server.asked == [0, 30, 90, 91, 121]
    for number in range(50):
        time.seconds += 100
        send_until(backoff, time, time.seconds + 1, WRITE._replace(body=b"%d" % number))
    assert len(backoff._refusals) < 10


def test_pauses_differ_by_up_to_a_tenth(time: publishing.Time) -> None:
    server = Refusing(time, error_of([500, "InternalError", "failed calling webhook"]))
    backoff = publishing.backoff_on(server, time, random.Random(7))
    for step in range(20_000):
        time.seconds = step / 100
        with pytest.raises(RefusedError):
            backoff.call(WRITE)
    steps = [5, 10, 20, 40, 60]
    pauses = []
    for before, after in pairwise(server.asked):
        pauses.append(after - before)
    for pause, step in zip(pauses, steps, strict=False):
        assert step <= pause <= step * 1.1 + 0.01
    assert pauses != steps


@pytest.mark.regression
@pytest.mark.parametrize(
    ("prepare", "attempts"),
    [
        pytest.param("deny a deletion", [0, 30, 90, 210], id="retract"),
        pytest.param("deny a dry run", [0, 30, 90, 210], id="levels-that-are-refused"),
    ],
)
def test_a_replacement_backs_off(
    api: ApiUnderTest, clients: Clients, time: publishing.Time, prepare: str, attempts: list[float]
) -> None:
    publishing.install(api, "kai-topologies-v0.17")
    denied = "DELETE" if prepare == "deny a deletion" else "POST"
    tried: list[float] = []

    def before(request: Request) -> None:
        if request.method == "PATCH" and publishing.found(api, request.path):
            raise ApiError(422, "Invalid", "field is immutable")
        if request.method == denied:
            tried.append(time.seconds)
            raise DENIED

    client = publishing.WatchedClient(clients(), before)
    backoff = publishing.backoff_on(client, time)
    publisher = ImmutableTopologyPublisher(backoff, time, 0.0)
    target = TOPOLOGIES.target("cluster")
    zone = Level("zone", ZONE)
    rack = Level("rack", RACK)
    published = publisher.publish(target, topology(), [zone, rack])
    assert published.is_in_sync
    for time.seconds in range(0, 300, 10):
        refused = publisher.publish(target, topology(), [zone])
        assert refused.reason == "Rejected"
        assert refused.message == DENIED.message
        if time.seconds >= 210:
            assert refused.text.endswith("; next try at 03:11:35 UTC")
    assert tried == attempts
    assert publishing.node_labels(api, f"{publishing.KAI}/cluster") == (ZONE, RACK)


@contextmanager
def admission(api: ApiUnderTest, documents: dict[str, Any]) -> Iterator[None]:
    """Have topologies of KAI refused."""
    trial = publishing.kai_topology(RACK)
    trial["metadata"] = {"name": "trial"}

    def is_refused() -> bool:
        status, _ = api.request("POST", f"{publishing.KAI}?dryRun=All", trial)
        return status >= 400

    try:
        for plural, document in documents.items():
            whole = {
                "apiVersion": ADMISSION.removeprefix("/apis/"),
                "metadata": {"name": "dead"},
                **document,
            }
            api.create(f"{ADMISSION}/{plural}", whole)
        wait_until(is_refused, "admission refuses")
        yield
    finally:
        for plural in documents:
            api.request("DELETE", f"{ADMISSION}/{plural}/dead")
    wait_until(lambda: not is_refused(), "admission lets it pass")


TOPOLOGIES_OF_KAI = {"apiGroups": ["kai.scheduler"], "apiVersions": ["*"], "resources": ["topologies"]}
WEBHOOK_THAT_IS_DOWN = {
    "validatingwebhookconfigurations": {
        "kind": "ValidatingWebhookConfiguration",
        "webhooks": [
            {
                "name": "dead.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/validate"},
                "rules": [{**TOPOLOGIES_OF_KAI, "operations": ["*"]}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }
}
POLICY_THAT_DENIES = {
    "validatingadmissionpolicies": {
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        **TOPOLOGIES_OF_KAI,
                        "operations": [
                            "CREATE",
                            "UPDATE",
                        ],
                    }
                ]
            },
            "validations": [{"expression": "false", "message": "no topologies today"}],
        },
    },
    "validatingadmissionpolicybindings": {
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "dead", "validationActions": ["Deny"]},
    },
}


@dataclass(frozen=True)
class Refusals:
    """What is made of refusals: the reason, words of the server, and when it is tried again."""

    reason: str
    words: str
    next_try: str
    """After the first, by the clock."""
    attempts: list[float]
    seconds_left: float


BY_WEBHOOK = Refusals(
    reason="Waiting", words="failed calling webhook", next_try="03:04:10", attempts=[0, 5, 15, 35, 75], seconds_left=40
)
BY_POLICY = Refusals(
    reason="Rejected", words="no topologies today", next_try="03:04:35", attempts=[0, 30, 90], seconds_left=115
)


def check_published(api: ApiUnderTest, refusals: Refusals) -> None:
    """The status says what was refused, and when it is tried again."""
    published = condition(api, "Published")
    assert published["status"] == "False"
    assert published["reason"] == refusals.reason
    assert refusals.words in published["message"]
    first = status_of(api)["published"][0]
    assert published["message"] == f"topology.kai.scheduler/cluster: {first['message']}"
    assert "; next try at 03:0" in published["message"]


def logged_once(caplog: pytest.LogCaptureFixture) -> str:
    """The only message about KAI's Topology."""
    messages = []
    for record in caplog.records:
        if "topology.kai.scheduler/cluster" in record.message:
            messages.append(record.message)
    (message,) = messages
    return message


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.real_api("admission")
@pytest.mark.parametrize(
    ("obstacle", "refusals"),
    [
        pytest.param(WEBHOOK_THAT_IS_DOWN, BY_WEBHOOK, id="webhook-is-down"),
        pytest.param(POLICY_THAT_DENIES, BY_POLICY, id="policy-denies"),
    ],
)
def test_what_admission_refuses_is_tried_ever_more_rarely_over_passes(
    api: ApiUnderTest,
    clients: Clients,
    time: publishing.Time,
    caplog: pytest.LogCaptureFixture,
    *,
    obstacle: dict[str, Any],
    refusals: Refusals,
) -> None:
    share_crd(api)
    publishing.install(api, "kai-topologies-v0.17")
    make_node(api, "n0", {ZONE: "z", BLOCK: "b", RACK: "r"})
    make_topology(api, levels=publishing.spec_levels(*publishing.FOUR))
    tries: list[float] = []
    statuses: list[float] = []

    def before(request: Request) -> None:
        if request.method == "GET":
            return
        if request.path.startswith(publishing.KAI):
            tries.append(time.seconds)
        else:
            statuses.append(time.seconds)

    client = publishing.WatchedClient(clients(), before)

    reconcilers: list[Reconciler] = []

    def new_controller() -> Controller:
        backoff = publishing.backoff_on(client, time)
        caller = cast("ApiClient", client)
        publishers = publishing.make_publishers(time)(backoff)
        reconciler = Reconciler(Wiring(caller, publishers, time, backoff=backoff))
        reconcilers.append(reconciler)
        return controller_of(clients(), reconciler)

    controller = new_controller()
    with admission(api, obstacle), caplog.at_level(logging.INFO, "toposcope.controller.writers.published"):
        for time.seconds in range(0, 100, 5):
            controller.once()
        assert tries == refusals.attempts
        assert statuses == refusals.attempts  # each try renews the time of the next
        topologies = controller.watches.topologies.items()
        assert reconcilers[0].next_deadline(topologies) == refusals.seconds_left
        line = logged_once(caplog)
        assert refusals.words in line
        assert f"next try at {refusals.next_try} UTC" in line
        check_published(api, refusals)
        # An edit of the spec is a try at once; a new leader tries once too, and goes on more slowly.
        edit_topology(api, gracePeriod="11m")
        controller.once()
        new_controller().once()
        assert tries == [*refusals.attempts, 95, 95]
    controller.once()
    assert len(tries) == len(refusals.attempts) + 2
    time.seconds += 31
    caplog.clear()
    with caplog.at_level(logging.INFO, "toposcope.controller.writers.published"):
        controller.once()
    assert condition(api, "Published")["reason"] == "InSync"
    (record,) = caplog.records
    assert "is in sync" in record.message
