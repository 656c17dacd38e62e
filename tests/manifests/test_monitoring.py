"""The monitoring components, built into an overlay as an administrator writes it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.support import Manifests, built
from tests.monitoring.support import documented
from tests.support.paths import MANIFESTS


def beside(kubectl: str, folder: Path, document: dict[str, Any]) -> Manifests:
    """What kustomize makes of an overlay that lies beside the manifests."""
    (folder / "manifests").symlink_to(MANIFESTS)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return built(kubectl, folder)


@pytest.fixture
def overlay(kubectl: str, tmp_path: Path) -> Manifests:
    """Base and components, as the document says."""
    return beside(kubectl, tmp_path, documented("components:"))


def test_label_that_an_operator_selects_by(kubectl: str, tmp_path: Path) -> None:
    labelled = beside(kubectl, tmp_path, documented("components:") | documented("patches:"))
    kinds = []
    for item in labelled:
        if item["metadata"]["labels"].get("release") == "kube-prometheus-stack":
            kinds.append(item["kind"])
    assert sorted(kinds) == ["PodMonitor", "PodMonitor", "PodMonitor", "PrometheusRule"]


def test_components_add_to_the_base_and_change_nothing_of_it(base: Manifests, overlay: Manifests) -> None:
    added = [o for o in overlay if o not in list(base)]
    assert len(added) + len(list(base)) == len(list(overlay))
    assert sorted((o["kind"], o["metadata"]["name"]) for o in added) == [
        ("ConfigMap", "toposcope-dashboard"),
        ("PodMonitor", "toposcope-agent"),
        ("PodMonitor", "toposcope-controller"),
        ("PodMonitor", "toposcope-ui"),
        ("PrometheusRule", "toposcope"),
    ]
    for o in added:
        assert o["metadata"]["namespace"] == "toposcope-system"
        assert o["metadata"]["labels"]["app.kubernetes.io/name"] == "toposcope"
        assert o["metadata"]["labels"]["app.kubernetes.io/component"] == "monitoring"


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_pod_monitor_finds_its_pods_and_their_port(overlay: Manifests, program: str) -> None:
    spec = overlay.get("PodMonitor", f"toposcope-{program}")["spec"]
    selected = spec["selector"]["matchLabels"]
    labels = overlay.pod_template(program)["metadata"]["labels"]
    assert selected.items() <= labels.items()
    other_program = "controller" if program == "agent" else "agent"
    other_labels = overlay.pod_template(other_program)["metadata"]["labels"]
    assert not selected.items() <= other_labels.items()
    (endpoint,) = spec["podMetricsEndpoints"]
    ports = overlay.container(program)["ports"]
    assert endpoint["port"] in [port["name"] for port in ports]
    assert {"targetLabel": "job", "replacement": f"toposcope-{program}"} in endpoint["relabelings"]


def test_agents_series_get_their_nodes_name(overlay: Manifests) -> None:
    (endpoint,) = overlay.get("PodMonitor", "toposcope-agent")["spec"]["podMetricsEndpoints"]
    assert {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"} in endpoint["relabelings"]


def test_dashboard_reaches_grafana_as_it_is(overlay: Manifests) -> None:
    config_map: dict[str, Any] = overlay.get("ConfigMap", "toposcope-dashboard")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = config_map["data"].values()
    source = MANIFESTS / "components" / "grafana-dashboard" / "dashboard.json"
    assert json.loads(text) == json.loads(source.read_text())
