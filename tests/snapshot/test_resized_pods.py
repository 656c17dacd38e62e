"""Pods that are resized in place hold what kube-scheduler counts: the larger of spec and status."""

from typing import Any

import pytest
from tests.support.checking import snapshot_of

pytestmark = pytest.mark.regression

Object = dict[str, Any]


def held(spec: Object, status: Object) -> dict[str, int]:
    """What a running pod takes of its node."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", **spec},
        "status": {"phase": "Running", **status},
    }
    (seen,) = snapshot_of([pod], {}).pods or ()
    return dict(seen.requests)


def main(**requests: str) -> Object:
    return {"name": "main", "resources": {"requests": requests}}


def reported(name: str, actual: Object, allocated: Object | None = None) -> Object:
    """The status of a container."""
    status = {"name": name, "resources": {"requests": actual}}
    if allocated:
        status["allocatedResources"] = allocated
    return status


def test_pod_that_shrinks_holds_what_it_still_has() -> None:
    spec = {"containers": [main(cpu="1", memory="1Gi")]}
    status = {"containerStatuses": [reported("main", {"cpu": "40", "memory": "1Gi"})]}
    assert held(spec, status) == {"cpu": 40000, "memory": 1 << 30}


def test_allocated_resources_count_too() -> None:
    spec = {"containers": [main(cpu="1")]}
    status = {"containerStatuses": [reported("main", {"cpu": "1"}, {"cpu": "2"})]}
    assert held(spec, status) == {"cpu": 2000}


def test_pod_that_grows_holds_what_it_asks_for() -> None:
    spec = {"containers": [main(cpu="4")]}
    status = {"containerStatuses": [reported("main", {"cpu": "1"}, {"cpu": "1"})]}
    assert held(spec, status) == {"cpu": 4000}


def test_infeasible_growth_does_not_count() -> None:
    spec = {"containers": [main(cpu="400")]}
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    status = {"containerStatuses": [reported("main", {"cpu": "1"}, {"cpu": "1"})], "conditions": [pending]}
    assert held(spec, status) == {"cpu": 1000}


def test_status_without_resources_says_nothing() -> None:
    spec = {"containers": [main(cpu="1")]}
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "40"}}]}
    assert held(spec, status) == {"cpu": 1000}


def test_containers_are_told_apart_by_name() -> None:
    spec = {"containers": [main(cpu="1"), {**main(cpu="2"), "name": "second"}]}
    status = {"containerStatuses": [reported("second", {"cpu": "8"}), reported("main", {"cpu": "1"})]}
    assert held(spec, status) == {"cpu": 9000}


def test_only_sidecars_count_of_init_containers() -> None:
    sidecar = {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    early = {"name": "early", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [main(cpu="1")], "initContainers": [sidecar, early]}
    status = {
        "containerStatuses": [reported("main", {"cpu": "1"})],
        "initContainerStatuses": [reported("sidecar", {"cpu": "3"}), reported("early", {"cpu": "30"})],
    }
    assert held(spec, status) == {"cpu": 4000}


def test_pod_as_a_whole_is_resized_too() -> None:
    spec = {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "2"}}}
    status = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "5"}}
    assert held(spec, status) == {"cpu": 6000}
