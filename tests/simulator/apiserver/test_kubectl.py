"""kubectl, as people and scripts use it."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.simulator.apiserver.widgets import WIDGETS, widget, widget_crd
from tests.support.api import NODES, ApiUnderTest, Clients, node, wait_until
from toposcope.kube.requests import event
from toposcope.simulator.apiserver import EmbeddedApiServer

pytestmark = pytest.mark.slow

Kubectl = Callable[..., str]


@pytest.fixture(params=os.environ.get("TOPOSCOPE_KUBECTLS", "kubectl").split(":"))
def kubectl(request: pytest.FixtureRequest, api: ApiUnderTest, tmp_path: Path) -> Kubectl:
    """One of the versions in TOPOSCOPE_KUBECTLS, or that of PATH."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip("kubectl is not on PATH")
    cache = tmp_path / "cache"

    def run(*arguments: str, stdin: Any = None) -> str:
        command = [
            program,
            "--kubeconfig",
            str(api.kubeconfig),
            "--cache-dir",
            str(cache),
            *arguments,
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            input=None if stdin is None else json.dumps(stdin),
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_kubectl_gets_labels_cordons_and_deletes_nodes(api: ApiUnderTest, kubectl: Kubectl) -> None:
    labelled = node("n1", labels={"gpu.topology/nvlink-domain": "d1"})
    api.create(NODES, labelled)
    table = kubectl("get", "nodes", "-L", "gpu.topology/nvlink-domain")
    header, line = table.splitlines()
    first_column, *_others, last_column = header.split()
    assert first_column == "NAME"
    assert last_column == "NVLINK-DOMAIN"
    first_cell, *_others, last_cell = line.split()
    assert first_cell == "n1"
    assert last_cell == "d1"

    assert kubectl("label", "node", "n1", "rack=r1") == "node/n1 labeled\n"
    assert kubectl("get", "no", "-l", "rack=r1", "-o", "name") == "node/n1\n"
    assert kubectl("annotate", "node", "n1", "note=x") == "node/n1 annotated\n"
    assert kubectl("cordon", "n1") == "node/n1 cordoned\n"
    stored = api.get(f"{NODES}/n1")
    assert stored["spec"]["unschedulable"] is True
    described = kubectl("describe", "node", "n1")
    assert "rack=r1" in described
    assert "Unschedulable:      true" in described
    deleted = kubectl("delete", "node", "n1")
    assert deleted.startswith('node "n1" deleted')


def test_kubectl_applies_a_crd_and_its_objects(api: ApiUnderTest, kubectl: Kubectl) -> None:
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=widget_crd())
    assert applied == "customresourcedefinition.apiextensions.k8s.io/widgets.example.com serverside-applied\n"
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=30s")
    automatic = widget(mode="Auto")
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=automatic)
    assert applied == "widget.example.com/w1 serverside-applied\n"
    stored = api.get(f"{WIDGETS}/w1")
    fields = stored["metadata"]["managedFields"]
    assert fields[0]["manager"] == "kubectl"

    header, line = kubectl("get", "wg").splitlines()
    assert header.split() == ["NAME", "MODE", "READY", "AGE"]
    assert line.split()[:2] == ["w1", "Auto"]

    applied = kubectl("apply", "-f", "-", stdin=widget("w2"))
    assert applied == "widget.example.com/w2 created\n"
    applied = kubectl("apply", "-f", "-", stdin=widget("w2", count=2))
    assert applied == "widget.example.com/w2 configured\n"

    patch = '{"spec":{"mode":"Never"}}'
    patched = kubectl("patch", "wg", "w2", "--type=merge", "-p", patch)
    assert patched == "widget.example.com/w2 patched\n"
    stored = json.loads(kubectl("get", "widgets", "w2", "-o", "json"))
    assert stored["spec"]["mode"] == "Never"

    assert "widgets" in kubectl("api-resources", "--api-group=example.com")
    kubectl("delete", "wg", "--all")
    assert kubectl("get", "wg", "-o", "name") == ""


def test_kubectl_creates_namespaced_objects(kubectl: Kubectl) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader", "namespace": "default"},
        "spec": {"holderIdentity": "me"},
    }
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=lease)
    assert applied.endswith("serverside-applied\n")
    assert "me" in kubectl("get", "leases", "-A")
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "b"},
    }
    created = kubectl("create", "-f", "-", stdin=config)
    assert created == "configmap/c created\n"
    assert "leader" in kubectl("get", "lease,configmap", "-o", "name")


@pytest.mark.regression
def test_describe_tells_the_events_about_an_object(api: ApiUnderTest, clients: Clients, kubectl: Kubectl) -> None:
    api.ensure_crd(widget_crd())
    for name in ("w1", "w2"):
        created = api.create(WIDGETS, widget(name))
        about = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": name,
            "uid": created["metadata"]["uid"],
        }
        lost = event(
            about,
            "Warning",
            "RackLost",
            f"{name} lost its rack",
            "controller",
            instance="c-0",
            now=datetime.now(UTC),
        )
        clients().call(lost)
    described = kubectl("describe", "wg", "w1")
    assert re.search(r"Warning +RackLost +\S+ +gpu.topology/controller.* w1 lost its rack\n", described)
    assert "w2" not in described
    assert "w2 lost its rack" in kubectl("get", "events")


@pytest.mark.regression
def test_kubectl_creates_as_typed_clients_do(api: ApiUnderTest, kubectl: Kubectl) -> None:
    assert kubectl("create", "namespace", "ml") == "namespace/ml created\n"
    created = kubectl("-n", "ml", "create", "configmap", "c", "--from-literal=a=b=c")
    assert created == "configmap/c created\n"
    created = kubectl("-n", "ml", "create", "serviceaccount", "s")
    assert created == "serviceaccount/s created\n"
    kubectl("-n", "ml", "create", "service", "clusterip", "web", "--tcp=80:8080", "--tcp=90:metrics")

    within = "/api/v1/namespaces/ml"
    config_map = api.get(f"{within}/configmaps/c")
    assert config_map["data"] == {"a": "b=c"}
    service = api.get(f"{within}/services/web")
    assert service["metadata"]["labels"] == {"app": "web"}
    spec = service["spec"]
    assert spec["selector"] == {"app": "web"}
    first, second = spec["ports"]
    assert first["name"] == "80-8080"
    assert first["port"] == 80
    assert first["targetPort"] == 8080
    assert second["name"] == "90-metrics"
    assert second["port"] == 90
    assert second["targetPort"] == "metrics"

    deleted = kubectl("-n", "ml", "delete", "service", "web", "--grace-period=0", "--force")
    assert deleted.startswith('service "web"')
    kubectl("create", "namespace", "dry", "--dry-run=server")
    assert "dry" not in kubectl("get", "ns", "-o", "name")


@pytest.mark.regression
def test_kubectl_explains_fields(api: ApiUnderTest, kubectl: Kubectl) -> None:
    api.ensure_crd(widget_crd())

    def is_in_openapi() -> bool:
        _code, answer = api.request("GET", "/openapi/v3/apis/example.com/v1")
        return "Widget" in str(answer)

    wait_until(is_in_openapi, "widgets are in OpenAPI")
    explained = kubectl("explain", "wg.spec")
    assert "FIELD: spec" in explained
    assert "mode" in explained
    assert "KIND:       Node" in kubectl("explain", "node")


def test_kind_that_is_known_as_json_only_is_refused(embedded_server: EmbeddedApiServer, tmp_path: Path) -> None:
    api = ApiUnderTest.of_embedded(embedded_server, tmp_path)
    body = b"k8s\x00\n\n\n\x02v1\x12\x04Node"
    content_type = "application/vnd.kubernetes.protobuf"
    code, answer = api.request("POST", NODES, body, content_type=content_type)
    assert code == 415
    assert answer["reason"] == "UnsupportedMediaType"
    assert "send v1, Kind=Node as application/json" in answer["message"]

    code, answer = api.request("POST", NODES, body[:-1], content_type=content_type)
    assert code == 400
    assert answer["message"] == "the object provided is unrecognized: unexpected EOF"
