"""The component node-endpoint: what its container has of the node, and who reaches it; the agent stays as it was."""

from typing import Any

import pytest
from tests.manifests.support import NAMESPACE, Manifests, Render, environment
from tests.support.api import ApiUnderTest
from toposcope import __version__
from toposcope.rank import ENDPOINT

FILE = "/run/toposcope/topology.json"
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
AGENT_LABELS = {
    "app.kubernetes.io/name": "toposcope",
    "app.kubernetes.io/instance": "toposcope",
    "app.kubernetes.io/component": "agent",
}
CHANGED = ("containers", "volumes", "automountServiceAccountToken")


@pytest.fixture(scope="module")
def manifests(render: Render) -> Manifests:
    return render("node-endpoint")


def endpoint(manifests: Manifests) -> dict[str, Any]:
    """The container that serves."""
    agent, found = manifests.pod_spec("agent")["containers"]
    assert agent["name"] == "agent"
    assert found["name"] == "node-endpoint"
    return found


def mounts(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a container mounts, by the name of the volume."""
    return {mount["name"]: mount for mount in container["volumeMounts"]}


def test_endpoint_is_confined_and_limited(manifests: Manifests) -> None:
    assert endpoint(manifests) == {
        "name": "node-endpoint",
        "image": f"toposcope:{__version__}",
        "args": ["node-endpoint", f"--file={FILE}", "--port=9466"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "ports": [{"name": "node-endpoint", "containerPort": 9466}],
        "livenessProbe": {
            "tcpSocket": {"port": "node-endpoint"},
            "initialDelaySeconds": 10,
            "periodSeconds": 30,
            "timeoutSeconds": 5,
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "5m", "memory": "32Mi"},
            "limits": {"cpu": "250m", "memory": "192Mi"},
        },
        "volumeMounts": [{"name": "topology", "mountPath": "/run/toposcope", "readOnly": True}],
    }


def test_only_the_agents_container_gets_the_token(manifests: Manifests) -> None:
    pod = manifests.pod_spec("agent")
    assert pod["automountServiceAccountToken"] is False
    _, volume = pod["volumes"]
    assert volume["name"] == "token"
    authority = {"key": "ca.crt", "path": "ca.crt"}
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    assert volume["projected"]["sources"] == [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [authority]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    token = mounts(manifests.container("agent"))["token"]
    assert token == {"name": "token", "mountPath": ACCOUNT_FOLDER, "readOnly": True}
    assert mounts(endpoint(manifests)).keys() == {"topology"}


def test_agent_keeps_the_file_in_memory_that_is_limited(manifests: Manifests) -> None:
    agent = manifests.container("agent")
    assert agent["args"][-1] == f"--topology-file={FILE}"
    mount = mounts(agent)["topology"]
    assert mount == {"name": "topology", "mountPath": "/run/toposcope"}
    topology, token = manifests.pod_spec("agent")["volumes"]
    assert token["name"] == "token"
    assert topology == {
        "name": "topology",
        "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"},
    }


def test_agent_is_otherwise_as_in_the_base(base: Manifests, manifests: Manifests) -> None:
    expected = dict(base.pod_spec("agent"))
    found = dict(manifests.pod_spec("agent"))
    for field in CHANGED:
        expected.pop(field, None)
        found.pop(field)
    assert found == expected
    agent = dict(manifests.container("agent"))
    del agent["volumeMounts"]
    agent["args"] = agent["args"][:-1]
    assert agent == base.container("agent")


def test_service_leads_to_the_agent_of_the_same_node(manifests: Manifests) -> None:
    service = manifests.get("Service", "toposcope-node")
    assert service["spec"] == {
        "internalTrafficPolicy": "Local",
        "ipFamilyPolicy": "PreferDualStack",
        "publishNotReadyAddresses": True,
        "selector": AGENT_LABELS,
        "ports": [{"name": "http", "port": 9466, "targetPort": "node-endpoint", "protocol": "TCP"}],
    }
    namespace = service["metadata"]["namespace"]
    assert f"http://toposcope-node.{namespace}.svc:9466/v1/topology" == ENDPOINT


def test_service_selects_the_agents_pods_alone(render: Render) -> None:
    manifests = render("node-endpoint", "switches", "ui")
    selector = manifests.get("Service", "toposcope-node")["spec"]["selector"]
    selected = []
    for program in ("agent", "controller", "switches", "ui"):
        labels = manifests.pod_template(program)["metadata"]["labels"]
        if selector.items() <= labels.items():
            selected.append(program)
    assert selected == ["agent"]


def test_policies_admit_pods_and_the_scrapes_that_were_admitted(render: Render) -> None:
    manifests = render("network-policy", "node-endpoint")
    policy = manifests.get("NetworkPolicy", "toposcope-node-endpoint")["spec"]
    assert policy["podSelector"] == {"matchLabels": AGENT_LABELS}
    assert policy["policyTypes"] == ["Ingress"]
    pods, scrapes = policy["ingress"]
    assert pods == {
        "from": [{"namespaceSelector": {}}],
        "ports": [{"protocol": "TCP", "port": 9466}],
    }
    assert scrapes["ports"] == [{"protocol": "TCP", "port": 9464}]
    (closed,) = manifests.get("NetworkPolicy", "toposcope")["spec"]["ingress"]
    assert scrapes["from"] == closed["from"]


@pytest.mark.parametrize("component", ["bottlerocket", "dra-claim", "gke", "host-sysfs", "privileged-runtime"])
def test_what_a_component_gives_the_agent_is_not_the_endpoints(
    render: Render, manifests: Manifests, component: str
) -> None:
    both = render(component, "node-endpoint")
    assert endpoint(both) == endpoint(manifests)
    alone = render(component).container("agent")
    agent = dict(both.container("agent"))
    assert environment(agent) == environment(alone)
    assert agent["securityContext"] == alone["securityContext"]
    assert agent["resources"] == alone["resources"]
    assert mounts(agent).keys() == {"token", "topology"} | mounts({"volumeMounts": [], **alone}).keys()


def test_endpoint_is_no_root_where_the_agent_is(render: Render, manifests: Manifests) -> None:
    both = render("node-endpoint", "vital-product-data")
    assert both.pod_spec("agent")["securityContext"]["runAsUser"] == 0
    assert endpoint(both) == endpoint(manifests)


@pytest.mark.real_api("defaults and admission of Services, tokens and pods")
def test_real_api_server_gives_the_endpoint_no_token(installed: ApiUnderTest, manifests: Manifests) -> None:
    pod = manifests.pod("agent", "with-endpoint")
    created = installed.create(f"{NAMESPACE}/pods", pod)
    agent, served = created["spec"]["containers"]
    assert ACCOUNT_FOLDER in [mount["mountPath"] for mount in agent["volumeMounts"]]
    assert [mount["mountPath"] for mount in served["volumeMounts"]] == ["/run/toposcope"]
    assert [volume["name"] for volume in created["spec"]["volumes"]] == ["topology", "token"]

    service = manifests.get("Service", "toposcope-node")
    taken = installed.create(f"{NAMESPACE}/services", service)
    assert taken["spec"]["internalTrafficPolicy"] == "Local"
    assert taken["spec"]["ipFamilies"]
