"""PodMonitors and alerts, put before the Prometheus operator's own CRDs on a real API server."""

import copy
from typing import Any

import pytest
import yaml
from tests.operator.crds import operator_crds
from tests.support.api import ApiUnderTest, create_namespace
from tests.support.paths import MANIFESTS
from tests.support.tables import each_case

COMPONENTS = MANIFESTS / "components"
FILES = (
    "pod-monitor/agent.yaml",
    "pod-monitor/controller.yaml",
    "pod-monitor/ui.yaml",
    "prometheus-rule/prometheusrule.yaml",
)
PLURALS = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}


def loaded(file: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((COMPONENTS / file).read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def operated(real_api: ApiUnderTest) -> ApiUnderTest:
    """An API server that serves the operator's kinds."""
    for crd in operator_crds():
        real_api.install_crd(crd)
    create_namespace(real_api, "toposcope-system")
    return real_api


def refused(api: ApiUnderTest, o: dict[str, Any]) -> str:
    """What the API server has against an object, unknown fields included; nothing when it takes it."""
    path = f"/apis/{o['apiVersion']}/namespaces/toposcope-system/{PLURALS[o['kind']]}"
    code, answer = api.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", o)
    return "" if code == 201 else answer["message"]


@pytest.mark.parametrize("file", FILES)
def test_the_operators_schema_takes_them(operated: ApiUnderTest, file: str) -> None:
    assert refused(operated, loaded(file)) == ""


@each_case("monitoring.yaml")
def test_the_schema_refuses_what_is_wrong(
    operated: ApiUnderTest, file: str, path: list[str | int], value: object, says: str
) -> None:
    wrong = copy.deepcopy(loaded(file))
    inner: Any = wrong["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert says in refused(operated, wrong)
