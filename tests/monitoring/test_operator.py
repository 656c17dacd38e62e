"""PodMonitors and alerts, put before the Prometheus operator's own CRDs on a real API server."""

from typing import Any

import pytest
import yaml
from tests.operator.crds import operator_crds
from tests.support.api import ApiUnderTest, create_namespace
from tests.support.paths import MANIFESTS

pytestmark = pytest.mark.slow

COMPONENTS = MANIFESTS / "components"
FILES = (
    "pod-monitor/agent.yaml",
    "pod-monitor/controller.yaml",
    "pod-monitor/ui.yaml",
    "prometheus-rule/prometheusrule.yaml",
)
PLURALS = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}


def loaded(file: str) -> dict[str, Any]:
    """A new copy of an object in a component's file."""
    text = (COMPONENTS / file).read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    return document


@pytest.fixture(scope="module")
def operated(real_api: ApiUnderTest) -> ApiUnderTest:
    """An API server that serves the operator's kinds."""
    for crd in operator_crds():
        real_api.install_crd(crd)
    create_namespace(real_api, "toposcope-system")
    return real_api


def refusal(api: ApiUnderTest, document: dict[str, Any]) -> str:
    """What the API server has against an object, unknown fields included; nothing when it takes it."""
    plural = PLURALS[document["kind"]]
    path = f"/apis/{document['apiVersion']}/namespaces/toposcope-system/{plural}"
    code, answer = api.request(
        "POST",
        f"{path}?dryRun=All&fieldValidation=Strict",
        document,
    )
    if code == 201:
        return ""
    message: str = answer["message"]
    return message


@pytest.mark.parametrize("file", FILES)
def test_operator_schema_takes_our_objects(operated: ApiUnderTest, file: str) -> None:
    assert refusal(operated, loaded(file)) == ""


def test_interval_that_is_no_duration_is_refused(operated: ApiUnderTest) -> None:
    monitor = loaded("pod-monitor/agent.yaml")
    endpoint = monitor["spec"]["podMetricsEndpoints"][0]
    endpoint["interval"] = "half a minute"
    message = refusal(operated, monitor)
    assert "podMetricsEndpoints[0].interval" in message


def test_unknown_action_of_a_relabeling_is_refused(operated: ApiUnderTest) -> None:
    monitor = loaded("pod-monitor/agent.yaml")
    endpoint = monitor["spec"]["podMetricsEndpoints"][0]
    endpoint["relabelings"][0]["action"] = "swap"
    message = refusal(operated, monitor)
    assert "relabelings[0].action" in message


def test_unknown_field_of_a_pod_monitor_is_refused(operated: ApiUnderTest) -> None:
    monitor = loaded("pod-monitor/controller.yaml")
    monitor["spec"]["podMetricEndpoints"] = []
    message = refusal(operated, monitor)
    assert 'unknown field "spec.podMetricEndpoints"' in message


def test_alert_with_for_that_is_no_duration_is_refused(operated: ApiUnderTest) -> None:
    resource = loaded("prometheus-rule/prometheusrule.yaml")
    group = resource["spec"]["groups"][0]
    group["rules"][0]["for"] = "ten minutes"
    message = refusal(operated, resource)
    assert "rules[0].for" in message


def test_unknown_field_of_an_alert_is_refused(operated: ApiUnderTest) -> None:
    resource = loaded("prometheus-rule/prometheusrule.yaml")
    group = resource["spec"]["groups"][0]
    group["rules"][0]["expression"] = "up"
    message = refusal(operated, resource)
    assert "unknown field" in message
