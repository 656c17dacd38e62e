"""Every status is one that the CRD's schema takes; one that is not says so, and the controller is not ready."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.api import APPLY, NODES, ApiUnderTest, wait_until
from tests.support.cluster import BLOCK, RACK, START, ZONE, fabric
from tests.support.controller import (
    condition,
    controller_of,
    make_node,
    make_topology,
    relabel,
    running,
    share_crd,
    status_of,
)
from tests.support.paths import CRD
from tests.support.publishing import Time
from toposcope.agent.labels import ALL
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, read
from toposcope.api.label_keys import CHASSIS, GPUS, HOSTNAME, NVLINK_DOMAIN, STATE
from toposcope.controller import status as status_module
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.loop import Controller
from toposcope.controller.memory import Memory
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.status_schema import LOOK_AGAIN_SECONDS, WRITTEN, StatusSchema
from toposcope.controller.wiring import Wiring
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.errors import ApiError

SPEC: Final = {"gracePeriod": "10s"}
NUMBERS: Final = st.one_of(
    st.sampled_from(["0", "8", "9999", "10000", "2147483640", str(2**31 - 1), str(2**31), str(2**63 - 1), "9" * 63]),
    st.integers(0, 2**70).map(str),
    st.sampled_from(["", "-1", "8.0", "1e9", "0x7fffffff", "08"]),
)
PLACES: Final = st.fixed_dictionaries(
    {HOSTNAME: st.sampled_from("abcd"), ZONE: st.just("z"), BLOCK: st.sampled_from("xy")},
    optional={
        RACK: st.sampled_from("rst"),
        NVLINK_DOMAIN: st.sampled_from([fabric(1), fabric(1, 2), fabric(2), "n0"]),
        CHASSIS: st.sampled_from("12"),
        STATE: st.sampled_from(["ok", "degraded", "unknown"]),
    },
)
LABELS: Final = st.tuples(
    PLACES, st.dictionaries(st.sampled_from(sorted(ALL - {NVLINK_DOMAIN, CHASSIS, STATE})), NUMBERS), NUMBERS
)


def node(number: int, labels: Mapping[str, str], offered: str) -> bytes:
    document = {
        "metadata": {"name": f"n{number}", "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": offered},
        },
    }
    return msgspec.json.encode(document)


@pytest.fixture(autouse=True)
def crd(api: ApiUnderTest) -> None:
    share_crd(api)


@pytest.mark.slow
@pytest.mark.regression
def test_whatever_numbers_nodes_claim_the_schema_takes_the_status(api: ApiUnderTest) -> None:
    made = read(make_topology(api, **SPEC))
    path = f"{PATH}/cluster/status?fieldManager=test&dryRun=All&fieldValidation=Strict"

    @settings(max_examples=60)
    @given(st.lists(LABELS, min_size=1, max_size=8))
    def taken(nodes: list[tuple[dict[str, str], dict[str, str], str]]) -> None:
        decode = NodeDecoder({ZONE, BLOCK, RACK, *ALL, HOSTNAME})
        facts = []
        for i, (places, labels, offered) in enumerate(nodes):
            of_node = {GPUS: "8", **places, **labels}
            _, _, kept = decode(node(i, of_node, offered))
            facts.append(kept)
        memory = Memory()
        assess(made, Evidence(facts), memory)
        found = assess(made, Evidence(facts, now=11.0), memory)
        conditions = status_module.conditions_of(made, found, [], is_any_served=True)
        status = status_module.status_of(made, found, [], START, conditions)
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "cluster"},
            "status": status,
        }
        code, answer = api.request("PATCH", path, body, content_type=APPLY)
        assert code == 200, answer

    taken()


@pytest.fixture
def controller(api: ApiUnderTest, time: Time) -> Iterator[Controller]:
    client = ApiClient(load(str(api.kubeconfig)))
    for name in ("n1", "n2"):
        make_node(api, name, {})
    make_topology(api)
    with running(controller_of(client, Reconciler(Wiring(client, runtime=time)))) as started:
        wait_until(lambda: status_of(api).get("gpus") == 16, "a status")
        yield started
    client.close()


def offer(api: ApiUnderTest, count: str) -> None:
    for name in ("n1", "n2"):
        relabel(api, name, {GPUS: "none"})
        allocatable = {"nvidia.com/gpu": count}
        api.patch(f"{NODES}/{name}/status", {"status": {"allocatable": allocatable}})


@pytest.mark.regression
def test_refused_status_when_reported_then_controller_is_not_ready(
    api: ApiUnderTest, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert controller.ready() == ""
    before = status_of(api)
    monkeypatch.setattr(status_module, "_MOST_INT32", 2**63)
    offer(api, "2147483640")
    wait_until(lambda: controller.ready() != "", "the controller is not ready")
    refusal = "the API server refuses the status of ClusterTopology cluster: ClusterTopology.gpu.topology"
    assert controller.ready().startswith(refusal), controller.ready()
    wait_until(lambda: condition(api, "Ready").get("reason") == "StatusRefused", "the status says so")
    ready = condition(api, "Ready")
    now = status_of(api)
    assert ready["status"] == "False"
    assert "must be of type integer with format int32 in " in ready["message"]
    assert ready["message"].endswith("gpus")
    assert {**now, "conditions": ()} == {**before, "conditions": ()}
    assert condition(api, "AgentsReporting")["reason"] == "ImplausibleLabels"
    monkeypatch.undo()
    controller.wake()
    wait_until(lambda: status_of(api)["gpus"] == 2**31 - 1, "a whole status")
    wait_until(lambda: controller.ready() == "", "the controller is ready")
    assert condition(api, "Ready")["reason"] == "ImplausibleLabels"


def crd_of_this_version() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return document


def status_schema(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    properties: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    return properties


def test_every_field_of_the_crd_is_one_that_the_controller_knows_to_write() -> None:
    class WithoutAnything:
        def call(self, _request: Request) -> Any:
            return crd_of_this_version()

    schema = StatusSchema(WithoutAnything(), Time())
    schema.look()
    assert schema.is_whole
    declared = _paths("status", {"properties": status_schema(crd_of_this_version())})
    written = set()
    for path, names in WRITTEN.items():
        for name in names:
            written.add(f"{path}.{name}")
    assert declared == written


def _paths(path: str, schema: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for name, inner in schema.get("properties", {}).items():
        found.add(f"{path}.{name}")
        found |= _paths(f"{path}.{name}", inner.get("items", inner))
    return found


@pytest.fixture
def older_crd(api: ApiUnderTest) -> Iterator[Callable[[], None]]:
    """Puts a CRD in place that has no `status.leftOutGpus`, and none of what a level says about faults."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd_of_this_version()['metadata']['name']}"

    def put(crd: dict[str, Any]) -> None:
        crd["metadata"]["resourceVersion"] = api.get(path)["metadata"]["resourceVersion"]
        code, answer = api.request("PUT", path, crd)
        assert code == 200, answer
        # The server takes a new schema into use a moment after it has answered.
        probe = {"leftOutGpus": 1}
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "probe"},
            "status": probe,
        }
        expected = 200 if "leftOutGpus" in status_schema(crd) else 500
        target = f"{PATH}/probe/status?fieldManager=test&dryRun=All&force=true"
        wait_until(lambda: api.request("PATCH", target, body, content_type=APPLY)[0] == expected, "the schema is used")

    def put_older() -> None:
        older = crd_of_this_version()
        del status_schema(older)["leftOutGpus"]
        level = status_schema(older)["levels"]["items"]["properties"]
        del level["degraded"], level["missing"]
        level_schema = status_schema(older)["levels"]["items"]
        level_schema["required"] = [name for name in level_schema["required"] if name != "missing"]
        put(older)

    make_topology(api, "probe", nodeSelector={"matchLabels": {"no": "nodes"}})
    yield put_older
    put(crd_of_this_version())


OLDER = "lacks status.leftOutGpus, status.levels.missing, status.levels.degraded; the status is written without them"


@pytest.mark.real_api
def test_older_crd_when_status_is_cut_then_controller_is_not_ready(
    api: ApiUnderTest, time: Time, older_crd: Callable[[], None]
) -> None:
    client = ApiClient(load(str(api.kubeconfig)))
    for name in ("n1", "n2"):
        make_node(api, name, {})
    make_topology(api)
    older_crd()
    with running(controller_of(client, Reconciler(Wiring(client, runtime=time)))) as started:
        wait_until(lambda: status_of(api).get("gpus") == 16, "a status")
        assert OLDER in started.ready()
        ready = condition(api, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "OldSchema")
        assert OLDER in ready["message"]
        assert "kubectl apply --server-side -k manifests/crds" in ready["message"]
        assert "leftOutGpus" not in status_of(api)
        assert "leftOutNodes" in status_of(api)
    client.close()


@pytest.mark.slow
@pytest.mark.real_api
def test_a_crd_that_is_set_back_is_noticed_when_it_refuses_a_status(
    api: ApiUnderTest, controller: Controller, older_crd: Callable[[], None]
) -> None:
    # Another topology selects by another label, for which nodes are listed again.
    wait_until(lambda: controller.ready() == "", "the controller is ready")
    older_crd()
    offer(api, "4")
    wait_until(lambda: condition(api, "Ready").get("reason") == "OldSchema", "the status says so")
    assert status_of(api)["gpus"] == 8
    assert OLDER in controller.ready()


def test_a_crd_is_read_again_each_minute_until_it_has_everything(time: Time) -> None:
    older = crd_of_this_version()
    del status_schema(older)["gpus"]
    served = [older]
    asked: list[Request] = []

    class Server:
        def call(self, request: Request) -> Any:
            asked.append(request)
            return served[-1]

    schema = StatusSchema(Server(), time)
    schema.look()
    assert schema.missing == ("status.gpus",)
    assert schema.declared_part({"gpus": 8, "nodes": 1}) == {"nodes": 1}
    served.append(crd_of_this_version())
    schema.look()
    assert schema.missing == ("status.gpus",)
    time.seconds += LOOK_AGAIN_SECONDS
    schema.look()
    assert schema.is_whole
    assert schema.problem == ""
    time.seconds += LOOK_AGAIN_SECONDS
    schema.look()
    assert len(asked) == 2


def test_a_crd_that_cannot_be_read_changes_nothing(time: Time) -> None:
    class Forbidding:
        def call(self, _request: Request) -> Any:
            raise ApiError(403, "Forbidden", "no")

    schema = StatusSchema(Forbidding(), time)
    schema.look()
    assert (schema.missing, schema.problem, schema.is_whole) == ((), "", False)
    assert schema.declared_part({"anything": [1]}) == {"anything": [1]}
