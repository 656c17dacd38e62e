"""The monitoring components, built into an overlay as an administrator writes it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.support import Manifests, built, changed
from tests.monitoring.support import dashboard, documented, documented_overlay
from tests.support.paths import MANIFESTS


def beside(kubectl: str, folder: Path, document: dict[str, Any]) -> Manifests:
    """What kustomize makes of an overlay that lies beside the manifests."""
    (folder / "manifests").symlink_to(MANIFESTS)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return built(kubectl, folder)


@pytest.fixture
def overlay(kubectl: str, tmp_path: Path) -> Manifests:
    """Base and components, as the document says."""
    return beside(kubectl, tmp_path, documented_overlay())


def test_label_that_an_operator_selects_by(kubectl: str, tmp_path: Path) -> None:
    document = documented_overlay() | documented("patches:")
    labelled = beside(kubectl, tmp_path, document)
    kinds = []
    for item in labelled:
        labels = item["metadata"]["labels"]
        if labels.get("release") == "kube-prometheus-stack":
            kinds.append(item["kind"])
    assert sorted(kinds) == [
        "PodMonitor",
        "PodMonitor",
        "PodMonitor",
        "PrometheusRule",
    ]


def test_components_add_to_the_base_and_change_nothing_of_it(base: Manifests, overlay: Manifests) -> None:
    added = changed(base, overlay)
    assert added.isdisjoint(base.by_name())
    assert added == {
        ("ConfigMap", "toposcope-dashboard"),
        ("PodMonitor", "toposcope-agent"),
        ("PodMonitor", "toposcope-controller"),
        ("PodMonitor", "toposcope-ui"),
        ("PrometheusRule", "toposcope"),
    }
    for kind, name in added:
        metadata = overlay.get(kind, name)["metadata"]
        assert metadata["namespace"] == "toposcope-system"
        labels = metadata["labels"]
        assert labels["app.kubernetes.io/name"] == "toposcope"
        assert labels["app.kubernetes.io/component"] == "monitoring"


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_pod_monitor_finds_its_pods_and_their_port(overlay: Manifests, program: str) -> None:
    spec = overlay.get("PodMonitor", f"toposcope-{program}")["spec"]
    selected = spec["selector"]["matchLabels"]
    assert selected.items() <= pod_labels(overlay, program).items()
    other_program = "controller" if program == "agent" else "agent"
    assert not selected.items() <= pod_labels(overlay, other_program).items()

    (endpoint,) = spec["podMetricsEndpoints"]
    ports = [port["name"] for port in overlay.container(program)["ports"]]
    assert endpoint["port"] in ports
    job = {
        "targetLabel": "job",
        "replacement": f"toposcope-{program}",
    }
    assert job in endpoint["relabelings"]


def pod_labels(manifests: Manifests, program: str) -> dict[str, str]:
    """The labels of a program's pods."""
    metadata = manifests.pod_template(program)["metadata"]
    labels: dict[str, str] = metadata["labels"]
    return labels


def test_agents_series_get_their_nodes_name(overlay: Manifests) -> None:
    monitor = overlay.get("PodMonitor", "toposcope-agent")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    node = {
        "sourceLabels": ["__meta_kubernetes_pod_node_name"],
        "targetLabel": "node",
    }
    assert node in endpoint["relabelings"]


def test_dashboard_reaches_grafana_as_it_is(overlay: Manifests) -> None:
    config_map: dict[str, Any] = overlay.get("ConfigMap", "toposcope-dashboard")
    labels = config_map["metadata"]["labels"]
    assert labels["grafana_dashboard"] == "1"
    (text,) = config_map["data"].values()
    assert json.loads(text) == dashboard()
