"""Watched kinds as API servers serve them, come and go; and the ClusterTopologies that requests concern."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from tests.support.api import CRDS, ApiUnderTest, Clients, create_namespace, wait_until
from tests.support.cluster import BLOCK, ZONE
from tests.support.cluster import RACK as CLOUD_RACK
from tests.support.threads import PATIENCE_SECONDS, still_running
from tests.support.upstream_crds import stand_in, upstream_crd
from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.controller.informer import InformerFactory
from toposcope.controller.requirements import Requirements, resolve
from toposcope.integrations.framework.level_requests import LevelRequest, WorkloadRef
from toposcope.integrations.registry import WATCHED
from toposcope.kube.errors import KubeError
from toposcope.simulator.apiserver.server import ServerFaults

RACK = "cloud.provider.com/topology-rack"
ASKS_RACK = {"topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": RACK}}
NEEDS_RACK = (LevelRequest(RACK, is_required=True, topology="cluster"),)
GROUPS = "/apis/scheduling.run.ai/v2alpha2"
FAULTS = pytest.mark.embedded_api("fails on demand")


class Changes:
    """Hears of changes, and waits for what they must lead to."""

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def __call__(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def until(self, done: Callable[[], bool]) -> None:
        with self._condition:
            assert self._condition.wait_for(done, PATIENCE_SECONDS)


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def requirements(clients: Clients, changes: Changes) -> Iterator[Requirements]:
    found = Requirements(InformerFactory(clients(), threading.Event()), changes)
    yield found
    found.close()
    assert not still_running(threads())


def threads() -> list[threading.Thread]:
    names = {source.name for source in WATCHED}
    of_sources = []
    for thread in threading.enumerate():
        if thread.name in names:
            of_sources.append(thread)
    return of_sources


DYNAMO_KIND = ("DynamoGraphDeployment", "dynamographdeployments")
POD_GROUPS = stand_in("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups")


def make(api: ApiUnderTest, path: str, kind: str, namespace: str, name: str, **body: Any) -> dict[str, Any]:
    group_version, plural = path.removeprefix("/apis/").rsplit("/", 1)
    annotations = body.pop("annotations", {})
    metadata = {
        "name": name,
        "namespace": namespace,
        "annotations": annotations,
    }
    document = {
        "apiVersion": group_version,
        "kind": kind,
        "metadata": metadata,
        **body,
    }
    return api.create(f"/apis/{group_version}/namespaces/{namespace}/{plural}", document)


def make_group(api: ApiUnderTest, namespace: str, name: str, **body: Any) -> dict[str, Any]:
    of_group = {"spec": ASKS_RACK, **body}
    return make(api, f"{GROUPS}/podgroups", "PodGroup", namespace, name, **of_group)


def serve_group(api: ApiUnderTest) -> None:
    """Serve PodGroups, of which `team/train` asks for a rack."""
    create_namespace(api, "team")
    api.install_crd(POD_GROUPS)
    make_group(api, "team", "train")


def follow_group(api: ApiUnderTest, requirements: Requirements, changes: Changes) -> None:
    """Serve that PodGroup and wait until it is known."""
    serve_group(api)
    requirements.refresh()
    changes.until(lambda: requirements.is_synced)


def workloads(requirements: Requirements) -> set[str]:
    names = set()
    for workload in requirements.level_requests():
        names.add(f"{workload.namespace}/{workload.name}")
    return names


def versions(requirements: Requirements) -> set[str]:
    return {workload.api_version for workload in requirements.level_requests()}


def finds_something(requirements: Requirements) -> bool:
    requirements.refresh()
    return bool(requirements._informers)


def failing(requirements: Requirements) -> dict[str, str]:
    """The kinds that cannot be read at the moment, and why."""
    errors = {}
    for kind, informer in requirements._informers.items():
        if informer.error:
            errors[kind.name] = str(informer.error)
    return errors


def needs(requirements: Requirements, name: str) -> set[LevelRequest]:
    requests: set[LevelRequest] = set()
    for workload, asked in requirements.level_requests().items():
        if workload.name == name:
            requests.update(asked)
    return requests


def check_asks_nothing(requirements: Requirements) -> None:
    """All is known: nobody asks for a level, and every kind can be read."""
    assert requirements.is_synced
    assert requirements.level_requests() == {}
    assert failing(requirements) == {}


def logged_with(caplog: pytest.LogCaptureFixture, words: str) -> str:
    """The only message of the log with these words."""
    messages = []
    for record in caplog.records:
        if words in record.getMessage():
            messages.append(record.getMessage())
    (message,) = messages
    return message


def test_a_cluster_without_any_source(requirements: Requirements) -> None:
    assert not requirements.is_synced
    requirements.refresh()
    check_asks_nothing(requirements)
    assert not requirements.is_outdated


def test_who_goes_by_the_value_of_a_label(api: ApiUnderTest, requirements: Requirements, changes: Changes) -> None:
    api.install_crd(stand_in("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"))
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}
    for name in ("b", "a"):
        make(
            api,
            "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
            "JobSet",
            "default",
            name,
            annotations=exclusive,
        )
    requirements.refresh()
    changes.until(lambda: requirements.is_synced)
    assert requirements.by_value() == {"example.com/rack": "JobSet default/a"}


def test_objects_of_one_name_in_two_namespaces(api: ApiUnderTest, requirements: Requirements, changes: Changes) -> None:
    api.install_crd(POD_GROUPS)
    for namespace in ("blue", "green"):
        create_namespace(api, namespace)
        make_group(api, namespace, "train")
    requirements.refresh()
    changes.until(lambda: requirements.is_synced)
    assert workloads(requirements) == {"blue/train", "green/train"}
    assert set(requirements.level_requests().values()) == {NEEDS_RACK}
    api.request("DELETE", f"{GROUPS}/namespaces/blue/podgroups/train")
    changes.until(lambda: workloads(requirements) == {"green/train"})
    make_group(api, "blue", "other", spec={"minMember": 1})
    make_group(api, "blue", "train")
    changes.until(lambda: workloads(requirements) == {"blue/train", "green/train"})
    unconstrained = {"topologyConstraint": {"requiredTopologyLevel": None}}
    api.patch(f"{GROUPS}/namespaces/green/podgroups/train", {"spec": unconstrained})
    changes.until(lambda: workloads(requirements) == {"blue/train"})


@pytest.mark.slow
def test_sources_come_and_go(api: ApiUnderTest, requirements: Requirements, changes: Changes) -> None:
    create_namespace(api, "team")
    requirements.refresh()
    for _ in range(2):
        api.install_crd(POD_GROUPS)
        make_group(api, "team", "train")
        wait_until(lambda: finds_something(requirements), "found")
        changes.until(lambda: workloads(requirements) == {"team/train"})
        api.remove_crd("podgroups.scheduling.run.ai")
        if api.is_real:  # the embedded server leaves watches open: only asking helps, as where the network is silent
            changes.until(lambda: requirements.is_outdated)
            assert "404" in failing(requirements)["podgroups.scheduling.run.ai"]
        wait_until(lambda: not finds_something(requirements), "lost")
        check_asks_nothing(requirements)


@pytest.mark.slow
def test_a_preferred_version_is_followed_soon(api: ApiUnderTest, requirements: Requirements, changes: Changes) -> None:
    create_namespace(api, "team")
    api.install_crd(stand_in("nvidia.com", "v1alpha1", *DYNAMO_KIND))
    old = "/apis/nvidia.com/v1alpha1/dynamographdeployments"
    spec = {"topologyConstraint": {"packDomain": "rack"}}
    make(api, old, "DynamoGraphDeployment", "team", "llm", spec=spec)
    requirements.refresh()
    changes.until(lambda: versions(requirements) == {"nvidia.com/v1alpha1"})
    both = stand_in("nvidia.com", "v1alpha1 v1beta1", *DYNAMO_KIND)
    served = {"versions": both["spec"]["versions"]}
    api.patch(f"{CRDS}/dynamographdeployments.nvidia.com", {"spec": served})

    def newer() -> bool:
        requirements.refresh()
        assert workloads(requirements) == {"team/llm"}  # at no time forgotten
        return versions(requirements) == {"nvidia.com/v1beta1"}

    wait_until(newer, "the newer version is followed")


@FAULTS
def test_where_nothing_can_be_found_out_everything_stays(
    api: ApiUnderTest,
    faults: ServerFaults,
    requirements: Requirements,
    changes: Changes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    follow_group(api, requirements, changes)
    faults.reject(503, 1, applies=lambda request: request.path == "/apis")
    with caplog.at_level(logging.WARNING):
        requirements.refresh()
    logged = logged_with(caplog, "cannot discover")
    assert logged.startswith("cannot discover which workload kinds this cluster serves: 503")
    assert requirements.bound_requests() is None
    assert workloads(requirements) == {"team/train"}
    requirements.refresh()
    assert requirements.bound_requests() == {}
    assert failing(requirements) == {}


@pytest.mark.parametrize("status", [403, 404, 429, 503])
@FAULTS
def test_a_source_is_not_lost_because_discovery_does_not_list_it(
    api: ApiUnderTest, faults: ServerFaults, requirements: Requirements, changes: Changes, status: int
) -> None:
    follow_group(api, requirements, changes)
    faults.reject(404, 1, applies=lambda request: request.path == GROUPS)
    faults.reject(status, 1, applies=lambda request: "limit" in request.query)
    requirements.refresh()
    expected: set[str] = set() if status == 404 else {"team/train"}
    assert workloads(requirements) == expected


@FAULTS
def test_what_may_not_be_read_is_reported_and_hides_nothing_else(
    api: ApiUnderTest, faults: ServerFaults, requirements: Requirements, changes: Changes
) -> None:
    crd = stand_in(
        "leaderworkerset.x-k8s.io",
        "v1",
        "LeaderWorkerSet",
        "leaderworkersets",
    )
    api.install_crd(crd)
    serve_group(api)
    faults.reject(403, 1000, applies=lambda request: "leaderworkersets" in request.path)
    requirements.refresh()
    changes.until(lambda: workloads(requirements) == {"team/train"})
    wait_until(lambda: bool(api.get("/api") and failing(requirements)), "the error is reported")
    assert "403" in failing(requirements)["leaderworkersets.leaderworkerset.x-k8s.io"]
    assert not requirements.is_synced
    assert not requirements.is_outdated


@pytest.mark.parametrize(
    ("fault", "known"),
    [
        pytest.param("podcliquesets", False, id="its-kind"),
        pytest.param("/apis?", False, id="discovery"),
        pytest.param("podgroups", True, id="another-kind"),
    ],
)
@FAULTS
def test_requirements_of_grove_when_a_kind_is_unreadable_are_unknown(
    api: ApiUnderTest, faults: ServerFaults, requirements: Requirements, changes: Changes, fault: str, *, known: bool
) -> None:
    assert requirements.bound_requests() is None  # nothing has been looked at
    api.install_crd(POD_GROUPS)
    requirements.refresh()
    changes.until(lambda: requirements.is_synced)
    assert requirements.bound_requests() == {}
    api.install_crd(upstream_crd("grove-podcliquesets-alpha12"))
    create_namespace(api, "team")
    constraint = {
        "topologyName": "cluster",
        "pack": {"required": "rack"},
    }
    spec = {
        "replicas": 1,
        "template": {
            "cliques": [],
            "topologyConstraint": constraint,
        },
    }
    make(api, "/apis/grove.io/v1alpha1/podcliquesets", "PodCliqueSet", "team", "llm", spec=spec)
    requirements.refresh()
    changes.until(lambda: bool(requirements.bound_requests()))
    faults.reject(403, 1000, applies=lambda request: fault in f"{request.path}?")
    faults.cut_watches()
    requirements.refresh()
    wait_until(lambda: bool(api.get("/api") and failing(requirements)), "the error is reported")

    def is_so() -> bool:
        if known:  # a watch that was cut counts again when it speaks
            labels = {"beat": str(time.monotonic_ns())}
            path = "/apis/grove.io/v1alpha1/namespaces/team/podcliquesets/llm"
            api.patch(path, {"metadata": {"labels": labels}})
        else:  # the first error may be another watch's, and one that was just being opened was not cut
            faults.cut_watches()
        return (requirements.bound_requests() is not None) == known

    wait_until(is_so, "what is known of the PodCliqueSets is right")
    bound = requirements.bound_requests()
    if not known:
        assert bound is None
        return
    assert bound is not None
    asked = set()
    for workload, requests in bound.items():
        for request in requests:
            asked.add((workload.name, request))
    needs_rack = LevelRequest("rack", is_required=True, topology="cluster")
    assert asked == {("llm", needs_rack)}


def test_one_pass_without_following(api: ApiUnderTest, requirements: Requirements) -> None:
    serve_group(api)
    requirements.sync()
    assert requirements.is_synced
    assert workloads(requirements) == {"team/train"}
    assert not threads()


@FAULTS
def test_one_pass_fails_aloud(api: ApiUnderTest, faults: ServerFaults, requirements: Requirements) -> None:
    api.install_crd(POD_GROUPS)
    faults.reject(403, 1000, applies=lambda request: "podgroups" in request.path)
    with pytest.raises(KubeError, match="403"):
        requirements.sync()


def test_an_object_that_cannot_be_understood_is_logged_once(
    api: ApiUnderTest, requirements: Requirements, changes: Changes, caplog: pytest.LogCaptureFixture
) -> None:
    serve_group(api)
    make_group(api, "team", "spoiled", spec={"topologyConstraint": "rack"})
    requirements.refresh()
    changes.until(lambda: requirements.is_synced)
    annotations = {"any": "change"}
    api.patch(f"{GROUPS}/namespaces/team/podgroups/spoiled", {"metadata": {"annotations": annotations}})
    make_group(api, "team", "last")
    changes.until(lambda: workloads(requirements) == {"team/train", "team/last"})
    logged = logged_with(caplog, "spoiled")
    assert "$.spec.topologyConstraint" in logged


@pytest.mark.real_api(reason="the embedded server has no Jobs")
def test_jobs_are_read_with_kai_until_they_end(api: ApiUnderTest, requirements: Requirements, changes: Changes) -> None:
    create_namespace(api, "team")
    containers = [{"name": "main", "image": "example.invalid/main"}]
    pod = {"restartPolicy": "Never", "containers": containers}
    annotations = {"kai.scheduler/topology-preferred-placement": RACK}
    job = make(
        api,
        "/apis/batch/v1/jobs",
        "Job",
        "team",
        "train",
        annotations=annotations,
        spec={"template": {"spec": pod}},
    )
    labels = {"app": "serve"}
    deployment = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": containers},
        },
    }
    make(
        api,
        "/apis/apps/v1/deployments",
        "Deployment",
        "team",
        "serve",
        annotations=annotations,
        spec=deployment,
    )
    requirements.refresh()
    assert requirements.is_synced
    assert requirements.level_requests() == {}
    api.install_crd(POD_GROUPS)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": job["metadata"]["uid"],
    }
    make_group(api, "team", "pg-train")
    api.patch(f"{GROUPS}/namespaces/team/podgroups/pg-train", {"metadata": {"ownerReferences": [owner]}})
    wait_until(lambda: finds_something(requirements), "found")
    both = {
        *NEEDS_RACK,
        LevelRequest(RACK, is_required=False),
    }
    changes.until(lambda: needs(requirements, "train") == both)
    changes.until(lambda: workloads(requirements) == {"team/train", "team/serve"})
    now = job["metadata"]["creationTimestamp"]
    conditions = []
    for kind in ("FailureTarget", "Failed"):
        conditions.append(
            {
                "type": kind,
                "status": "True",
                "lastTransitionTime": now,
            }
        )
    status = {
        "startTime": now,
        "failed": 1,
        "conditions": conditions,
    }
    api.patch("/apis/batch/v1/namespaces/team/jobs/train/status", {"status": status})
    changes.until(lambda: workloads(requirements) == {"team/serve"})
    api.remove_crd("podgroups.scheduling.run.ai")
    wait_until(lambda: not finds_something(requirements), "nobody reads the annotations any more")
    assert requirements.level_requests() == {}


DYNAMO_V1ALPHA1_SPEC = {
    "topologyConstraint": {"topologyProfile": "cluster", "packDomain": "block"},
    "services": {"Worker": {"topologyConstraint": {"packDomain": "rack"}}},
    "experimental": {"kvTransferPolicy": {"labelKey": RACK, "domain": "rack"}},
}
DYNAMO_V1BETA1_SPEC = {
    "topologyConstraint": {"clusterTopologyName": "cluster", "packDomain": "block"},
    "components": [{"componentName": "Worker", "topologyConstraint": {"packDomain": "rack"}}],
}
GROVE_SPEC = {
    "replicas": 1,
    "template": {
        "topologyConstraint": {"topologyName": "cluster", "pack": {"required": "zone"}},
        "podCliqueScalingGroups": [
            {"name": "model", "cliqueNames": ["worker"], "topologyConstraint": {"pack": {"preferred": "rack"}}}
        ],
        "cliques": [
            {
                "name": "worker",
                "topologyConstraint": {"pack": {"required": "host"}},
                "spec": {
                    "roleName": "worker",
                    "replicas": 1,
                    "podSpec": {"containers": [{"name": "main", "image": "example.invalid/main"}]},
                },
            }
        ],
    },
}
KAI_SPEC = {
    "minMember": 2,
    "topologyConstraint": {"topology": "cluster", "preferredTopologyLevel": HOSTNAME},
    "subGroups": [{"name": "a", "minMember": 2, **ASKS_RACK}],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crd", "path", "kind", "spec", "levels"),
    [
        pytest.param(
            "dynamo-dynamographdeployments-v1alpha1-reduced",
            "/apis/nvidia.com/v1alpha1/dynamographdeployments",
            "DynamoGraphDeployment",
            DYNAMO_V1ALPHA1_SPEC,
            {"block", "rack", RACK},
            id="dynamo-v1alpha1",
        ),
        pytest.param(
            "dynamo-dynamographdeployments-v1beta1-reduced",
            "/apis/nvidia.com/v1beta1/dynamographdeployments",
            "DynamoGraphDeployment",
            DYNAMO_V1BETA1_SPEC,
            {"block", "rack"},
            id="dynamo-v1beta1",
        ),
        pytest.param(
            "grove-podcliquesets-alpha12",
            "/apis/grove.io/v1alpha1/podcliquesets",
            "PodCliqueSet",
            GROVE_SPEC,
            {"zone", "rack", "host"},
            id="grove",
        ),
        pytest.param(
            "kai-podgroups-v0.17",
            "/apis/scheduling.run.ai/v2alpha2/podgroups",
            "PodGroup",
            KAI_SPEC,
            {HOSTNAME, RACK},
            id="kai",
        ),
    ],
)
def test_every_place_of_upstreams_schemas_is_read(
    api: ApiUnderTest,
    requirements: Requirements,
    *,
    crd: str,
    path: str,
    kind: str,
    spec: dict[str, Any],
    levels: set[str],
) -> None:
    api.install_crd(upstream_crd(crd))
    create_namespace(api, "team")
    make(api, path, kind, "team", "w", spec=spec)
    requirements.sync()
    asked = {need.level for need in needs(requirements, "w")}
    assert asked == levels


LEVELS = {"zone": ZONE, "block": BLOCK, "rack": CLOUD_RACK, "host": HOSTNAME}
WITH_RACK = ("zone", "block", "rack", "host")
WITHOUT_RACK = ("zone", "block", "host")
UNKNOWN_KEY = "example.com/row"
OTHER_ZONE_KEY = "topology.k8s.aws/zone-id"
Requests = dict[str, list[LevelRequest]]
"""By workload."""
Workloads = dict[str, dict[str, list[str]]]
"""By how they ask for a level, and by level."""


def required(level: str, topology: str | None = None, *, any_label: bool = False) -> LevelRequest:
    return LevelRequest(level, is_required=True, topology=topology, accepts_any_label=any_label)


def preferred(level: str, *, any_label: bool = False) -> LevelRequest:
    return LevelRequest(level, is_required=False, accepts_any_label=any_label)


def asked_of(
    topologies: Mapping[str, Sequence[str]], requests: Requests, names: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Workloads]:
    """What is asked of each topology with these domains; `names`: other names of its levels."""
    levels = {}
    for name, domains in topologies.items():
        levels[name] = [Level(domain, LEVELS[domain]) for domain in domains]
    by_workload: dict[WorkloadRef, list[LevelRequest]] = {}
    by_workload = {}
    for name, of_workload in requests.items():
        workload = WorkloadRef("example.com/v1", "Job", "ns", name, f"uid-{name}")
        by_workload[workload] = of_workload

    asked = {}
    for name, resolved in resolve(levels, by_workload, names=names or {}).items():
        by_kind = {
            "required": _names(resolved.required),
            "missing": _names(resolved.missing),
            "preferred": _names(resolved.preferred),
        }
        asked[name] = {kind: by_level for kind, by_level in by_kind.items() if by_level}
    return asked


def _names(by_level: Mapping[str, Iterable[WorkloadRef]]) -> dict[str, list[str]]:
    names = {}
    for level, workloads in by_level.items():
        names[level] = sorted(workload.name for workload in workloads)
    return names


@pytest.mark.parametrize(
    ("domains", "request_", "expected"),
    [
        pytest.param(
            WITH_RACK,
            required("rack"),
            {"required": {"rack": ["w"]}},
            id="domain",
        ),
        pytest.param(
            WITH_RACK,
            required("rack", any_label=True),
            {"required": {"rack": ["w"]}},
            id="domain-any-label",
        ),
        pytest.param(
            WITH_RACK,
            required(CLOUD_RACK),
            {"required": {"rack": ["w"]}},
            id="key",
        ),
        pytest.param(
            WITH_RACK, required(CLOUD_RACK, any_label=True), {"required": {"rack": ["w"]}}, id="key-any-label"
        ),
        pytest.param(
            WITH_RACK,
            preferred("rack"),
            {"preferred": {"rack": ["w"]}},
            id="preferred-domain",
        ),
        pytest.param(
            WITH_RACK,
            preferred(CLOUD_RACK),
            {"preferred": {"rack": ["w"]}},
            id="preferred-key",
        ),
        pytest.param(
            ("zone", "block"), preferred("rack"), {"preferred": {"rack": ["w"]}}, id="preferred-lacking-domain"
        ),
        pytest.param(
            ("zone", "block"), preferred(CLOUD_RACK), {"preferred": {"rack": ["w"]}}, id="preferred-lacking-key"
        ),
        pytest.param(
            WITHOUT_RACK,
            required("rack"),
            {"missing": {"rack": ["w"]}},
            id="lacking-domain",
        ),
        pytest.param(
            WITHOUT_RACK, required(CLOUD_RACK), {"missing": {"rack": ["w"]}}, id="lacking-level-keeps-its-name"
        ),
        pytest.param(
            WITHOUT_RACK,
            required("row"),
            {"missing": {"row": ["w"]}},
            id="unknown-domain",
        ),
        pytest.param(
            WITHOUT_RACK,
            required(UNKNOWN_KEY),
            {"missing": {UNKNOWN_KEY: ["w"]}},
            id="unknown-key",
        ),
        pytest.param(
            WITHOUT_RACK, required(OTHER_ZONE_KEY), {"missing": {OTHER_ZONE_KEY: ["w"]}}, id="other-key-of-a-level"
        ),
        pytest.param(
            WITHOUT_RACK,
            required(OTHER_ZONE_KEY, any_label=True),
            {},
            id="any-label-of-a-level",
        ),
        pytest.param(
            WITHOUT_RACK, required("cloud.google.com/gke-nodepool", any_label=True), {}, id="any-label-of-no-level"
        ),
        pytest.param(
            WITHOUT_RACK,
            required(CLOUD_RACK, any_label=True),
            {"missing": {"rack": ["w"]}},
            id="any-label-of-a-lacking-level",
        ),
        pytest.param(
            WITH_RACK,
            required("rack", topology="gb200"),
            {},
            id="topology-of-others",
        ),
    ],
)
def test_request_is_for_a_level_of_the_only_topology(
    domains: Sequence[str], request_: LevelRequest, expected: Workloads
) -> None:
    assert asked_of({"cluster": domains}, {"w": [request_]}) == {"cluster": expected}


@pytest.mark.parametrize(
    ("domains", "kind"),
    [
        pytest.param(WITH_RACK, "required", id="there"),
        pytest.param(("zone", "block"), "missing", id="lacking"),
    ],
)
def test_workload_that_requires_a_level_does_not_prefer_it_too(domains: Sequence[str], kind: str) -> None:
    requests = {
        "a": [
            preferred(CLOUD_RACK),
            required("rack"),
        ],
        "b": [preferred(CLOUD_RACK)],
    }
    expected = {
        kind: {"rack": ["a"]},
        "preferred": {"rack": ["b"]},
    }
    asked = asked_of({"cluster": domains}, requests)
    assert asked == {"cluster": expected}


OF_RACK: Workloads = {"required": {"rack": ["w"]}}
MISSES_RACK: Workloads = {"missing": {"rack": ["w"]}}
MISSES_ROW: Workloads = {"missing": {"row": ["w"]}}


def test_request_that_names_a_topology_concerns_that_one_only() -> None:
    requests = {"w": [required("rack", topology="gb200")]}
    both_with_racks = {"h100": WITH_RACK, "gb200": WITH_RACK}
    asked = asked_of(both_with_racks, requests)
    assert asked == {"h100": {}, "gb200": OF_RACK}
    one_with_racks = {"h100": WITH_RACK, "gb200": ("zone",)}
    asked = asked_of(one_with_racks, requests)
    assert asked == {"h100": {}, "gb200": MISSES_RACK}


def test_request_that_names_no_topology_concerns_all_with_the_level() -> None:
    topologies = {
        "a": WITH_RACK,
        "b": WITH_RACK,
        "c": ("zone", "block"),
    }
    asked = asked_of(topologies, {"w": [required("rack")]})
    assert asked == {"a": OF_RACK, "b": OF_RACK, "c": {}}


def test_level_that_no_topology_has_is_missing_in_the_main_one() -> None:
    requests = {"w": [required("row")]}
    with_main = {"a": WITH_RACK, "cluster": WITH_RACK}
    asked = asked_of(with_main, requests)
    assert asked == {"a": {}, "cluster": MISSES_ROW}
    # Without a main one, in all.
    without_main = {"a": WITH_RACK, "b": WITH_RACK}
    asked = asked_of(without_main, requests)
    assert asked == {"a": MISSES_ROW, "b": MISSES_ROW}


def test_workload_counts_once_for_a_level_however_often_it_asks() -> None:
    often = [
        required("rack"),
        preferred("rack"),
        required(CLOUD_RACK),
        required("rack", topology="cluster"),
    ]
    once = [required("rack")]
    asked = asked_of({"cluster": WITH_RACK}, {"b": often, "a": once})
    assert asked == {"cluster": {"required": {"rack": ["a", "b"]}}}


def test_nothing_is_asked_without_topologies_or_requests() -> None:
    assert asked_of({}, {"w": [required("rack")]}) == {}
    assert asked_of({"cluster": ()}, {}) == {"cluster": {}}


def test_tier_of_volcano_is_a_level_where_there_are_hyper_nodes_of_it() -> None:
    topologies = {
        "a": ("zone", "block", "rack"),
        "b": ("zone", "rack"),
        "c": ("rack",),
    }
    names = {
        "a": {
            "volcano.sh/tier/3": "zone",
            "volcano.sh/tier/2": "block",
            "volcano.sh/tier/1": "rack",
        },
        "b": {
            "volcano.sh/tier/3": "zone",
            "volcano.sh/tier/1": "rack",
        },
    }
    requests = [
        required("volcano.sh/tier/3", any_label=True),
        preferred("volcano.sh/tier/2", any_label=True),
        required("volcano.sh/tier/9", any_label=True),
    ]
    of_zone = {"zone": ["w"]}
    of_block = {"block": ["w"]}
    assert asked_of(topologies, {"w": requests}, names) == {
        "a": {"required": of_zone, "preferred": of_block},
        "b": {"required": of_zone},
        "c": {},
    }
