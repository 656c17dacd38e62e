"""The API servers that tests run against."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from kube.client import ApiClient
from kube.config import load
from simulator.apiserver import EmbeddedApiServer
from tests.support.api import CRDS, KEPT, NODES, ApiUnderTest
from tests.support.real_apiserver import RealApiServer, UnavailableError, find_binaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_STARTING_NAMESPACES = {"default", "kube-node-lease", "kube-public", "kube-system"}
# What tests make outside of namespaces of their own, besides nodes and CRDs.
_COLLECTIONS = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/pods",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    NODES,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that uses `api` against both servers, those marked `real_api` against the real one."""
    if "api" in metafunc.fixturenames:
        only_real = metafunc.definition.get_closest_marker("real_api") is not None
        metafunc.parametrize("api", ["real"] if only_real else ["embedded", "real"], indirect=True)


@pytest.fixture(scope="session")
def real_server() -> Iterator[RealApiServer]:
    """Start a kube-apiserver once; TOPOSCOPE_REQUIRE_REAL_API=1 turns its absence into a failure."""
    try:
        binaries = find_binaries()
    except UnavailableError as error:
        if os.environ.get("TOPOSCOPE_REQUIRE_REAL_API") == "1":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    with RealApiServer.start(binaries) as server:
        yield server


@pytest.fixture
def embedded_server() -> Iterator[EmbeddedApiServer]:
    with EmbeddedApiServer() as server:
        yield server


@pytest.fixture
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiUnderTest]:
    """An API server with nothing in it; see `ApiUnderTest`."""
    kubeconfig = tmp_path / "kubeconfig"
    if request.param == "embedded":
        embedded: EmbeddedApiServer = request.getfixturevalue("embedded_server")
        embedded.write_kubeconfig(kubeconfig)
        yield ApiUnderTest("embedded", embedded.url, kubeconfig, embedded=embedded)
        return
    real: RealApiServer = request.getfixturevalue("real_server")
    real.write_kubeconfig(kubeconfig)
    under_test = ApiUnderTest("real", real.url, kubeconfig, ca_file=real.ca_file, admin_token=real.admin_token)
    yield under_test
    _clean(under_test)


def _clean(api: ApiUnderTest) -> None:
    """Remove what a test made: the real server outlives it."""
    for path in _COLLECTIONS:
        if api.get(f"{path}?limit=1")["items"]:
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            code, answer = api.request("DELETE", path, options)
            assert code == 200, answer
    for crd in api.get(CRDS)["items"]:
        if KEPT in crd["metadata"].get("labels", {}):
            served = (
                f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}"
            )
            api.request("DELETE", served)
        else:
            api.remove_crd(crd["metadata"]["name"])
    for namespace in api.get("/api/v1/namespaces")["items"]:
        if namespace["metadata"]["name"] not in _STARTING_NAMESPACES:
            _remove_namespace(api, namespace)


def _remove_namespace(api: ApiUnderTest, namespace: dict[str, Any]) -> None:
    """Do what the namespace controller would do: nothing else runs here."""
    path = f"/api/v1/namespaces/{namespace['metadata']['name']}"
    api.request("DELETE", path)
    for root in [
        "/api/v1",
        *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]),
    ]:
        for resource in api.get(root)["resources"]:
            if resource["namespaced"] and "deletecollection" in resource["verbs"]:
                within = f"{root}/namespaces/{namespace['metadata']['name']}/{resource['name']}"
                api.request("DELETE", within, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    code, terminating = api.request("GET", path)
    if code == 200:
        terminating["spec"]["finalizers"] = []
        api.request("PUT", f"{path}/finalize", terminating)


@pytest.fixture
def clients(api: ApiUnderTest) -> Iterator[Callable[[], ApiClient]]:
    """Production clients of `api`, closed at the end of the test."""
    with contextlib.ExitStack() as stack:

        def make() -> ApiClient:
            client = ApiClient(load(str(api.kubeconfig)))
            stack.callback(client.close)
            return client

        yield make
