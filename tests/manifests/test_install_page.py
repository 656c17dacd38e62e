"""docs/install.md: its prerequisites are those of the manifests, and its overlays and GitOps objects render."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.support import Manifests, built, run_kubectl, write_overlay
from tests.support.paths import DOCS, ROOT
from tests.support.programs import find_helm

PAGE = (DOCS / "install.md").read_text(encoding="utf-8")
BUILDS_THE_IMAGE = ("README.md", "docs/install.md", "docs/first-hour.md")


def documents(api_group: str) -> list[dict[str, Any]]:
    """The objects of an API group that the page shows."""
    found = []
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        for document in yaml.load_all(block, yaml.CSafeLoader):
            if document.get("apiVersion", "").startswith(f"{api_group}/"):
                found.append(document)
    return found


def chart_values() -> Iterator[dict[str, Any]]:
    """The chart's values in Argo CD's Application and Flux's HelmRelease."""
    for application in documents("argoproj.io"):
        if "chart" in application["spec"]["source"]:
            yield application["spec"]["source"]["helm"]["valuesObject"]
    for release in documents("helm.toolkit.fluxcd.io"):
        yield release["spec"]["values"]


def names_of(manifests: Manifests, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in manifests.of_kind(kind)]


def test_documented_build_makes_the_image_that_the_base_runs(base: Manifests) -> None:
    image = base.container("agent")["image"]
    for name in BUILDS_THE_IMAGE:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.findall(r"^(?:\$ )?docker build -t (\S+) \.$", text, re.MULTILINE) == [image], name


def test_prerequisites_name_what_marks_a_gpu_node(base: Manifests) -> None:
    affinity = base.pod_spec("agent")["affinity"]["nodeAffinity"]
    for term in affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]:
        (expression,) = term["matchExpressions"]
        if expression["key"] == "gpu.topology/gpus":  # the agent's own
            continue
        value = "".join(f"={value}" for value in expression.get("values", ()))
        assert f"`{expression['key']}{value}`" in PAGE


def test_prerequisites_name_what_the_agent_tolerates(base: Manifests) -> None:
    (row,) = re.findall(r"the base tolerates (.*?);", PAGE)
    expected = []
    for toleration in base.pod_spec("agent")["tolerations"]:
        value = f"={toleration['value']}" if "value" in toleration else ""
        expected.append(f"{toleration['key']}{value}")
    assert re.findall(r"`([^`]+)`", row) == expected


def test_documented_patch_adds_a_toleration(base: Manifests, kubectl: str, tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(patches.*?)```", PAGE, re.DOTALL)
    folder = write_overlay(tmp_path.resolve() / "overlay", (), **yaml.load(block, yaml.CSafeLoader))

    tolerations = built(kubectl, folder).pod_spec("agent")["tolerations"]

    own = {"key": "example.com/gpu", "operator": "Exists"}
    assert tolerations == [*base.pod_spec("agent")["tolerations"], own]


def test_name_prefix_alone_renames_the_default_topology(kubectl: str, tmp_path: Path) -> None:
    folder = write_overlay(tmp_path.resolve() / "overlay", (), namePrefix="acme-")
    assert names_of(built(kubectl, folder), "ClusterTopology") == ["acme-cluster"]


@pytest.mark.parametrize("suffix", ["", "-eu"])
def test_documented_transformer_keeps_the_topologys_name(kubectl: str, tmp_path: Path, suffix: str) -> None:
    (block,) = re.findall(r"```yaml\n(namePrefix.*?)```", PAGE, re.DOTALL)
    fields = yaml.load(block, yaml.CSafeLoader) | {"nameSuffix": suffix}
    folder = write_overlay(tmp_path.resolve() / "overlay", (), **fields)

    manifests = built(kubectl, folder)

    assert names_of(manifests, "ClusterTopology") == ["cluster"]
    assert names_of(manifests, "DaemonSet") == [f"acme-toposcope-agent{suffix}"]


def test_gitops_tools_read_the_folder_of_the_overlay() -> None:
    (in_git,) = [item for item in documents("argoproj.io") if "path" in item["spec"]["source"]]
    (kustomization,) = documents("kustomize.toolkit.fluxcd.io")
    assert in_git["spec"]["source"]["path"] == "toposcope"
    assert kustomization["spec"]["path"] == "./toposcope"
    assert "Commit the overlay to a folder `toposcope`" in PAGE


def test_flux_waits_for_programs_that_the_base_has(base: Manifests) -> None:
    (kustomization,) = documents("kustomize.toolkit.fluxcd.io")
    programs = []
    for kind in ("DaemonSet", "Deployment"):
        for item in base.of_kind(kind):
            program = {
                "apiVersion": item["apiVersion"],
                "kind": kind,
                "name": item["metadata"]["name"],
                "namespace": item["metadata"]["namespace"],
            }
            programs.append(program)
    assert kustomization["spec"]["healthChecks"] == programs


@pytest.mark.slow
@pytest.mark.parametrize("tool", [0, 1], ids=["Argo CD", "Flux"])
def test_chart_renders_with_the_values_of_the_page(chart: Path, tmp_path: Path, tool: int) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(list(chart_values())[tool]), encoding="utf-8")

    done = run_kubectl(
        find_helm(),
        "template",
        "toposcope",
        chart,
        "--namespace",
        "toposcope-system",
        "--kube-version",
        "1.30.0",
        "--include-crds",
        "--values",
        values,
    )

    manifests = Manifests(list(yaml.load_all(done.stdout, yaml.CSafeLoader)))
    assert names_of(manifests, "NetworkPolicy") == ["toposcope"]
    assert names_of(manifests, "CustomResourceDefinition") == ["clustertopologies.gpu.topology"]
