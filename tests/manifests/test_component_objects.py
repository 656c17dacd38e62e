"""What the pods and policies of each kustomize component say, field by field."""

import pytest
from tests.manifests.support import Render, environment
from toposcope import __version__

pytestmark = pytest.mark.regression

DEFAULT_SECCOMP = {"type": "RuntimeDefault"}
ROOT_POD = {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": DEFAULT_SECCOMP}
UNPRIVILEGED_POD = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": DEFAULT_SECCOMP}
WITHOUT_CAPABILITIES = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def test_host_sysfs_mounts_the_hosts_sysfs_read_only(render: Render) -> None:
    manifests = render("host-sysfs")
    agent = manifests.container("agent")
    assert agent["args"][-1] == "--sysfs=/host/sys"
    (mount,) = agent["volumeMounts"]
    assert mount == {
        "name": "host-sys",
        "mountPath": "/host/sys",
        "readOnly": True,
    }
    (volume,) = manifests.pod_spec("agent")["volumes"]
    assert volume == {
        "name": "host-sys",
        "hostPath": {"path": "/sys", "type": "Directory"},
    }


def test_vital_product_data_is_read_by_root_without_capabilities(render: Render) -> None:
    manifests = render("vital-product-data")
    assert manifests.pod_spec("agent")["securityContext"] == ROOT_POD
    assert manifests.container("agent")["securityContext"] == WITHOUT_CAPABILITIES


def test_privileged_runtime_gives_an_unprivileged_user_one_capability(render: Render) -> None:
    manifests = render("privileged-runtime")
    assert manifests.pod_spec("agent")["securityContext"] == UNPRIVILEGED_POD
    assert manifests.container("agent")["securityContext"] == {
        "allowPrivilegeEscalation": True,
        "readOnlyRootFilesystem": True,
        "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]},
    }


def test_bottlerocket_names_the_gpus_by_a_mount_that_gives_no_right(render: Render) -> None:
    manifests = render("bottlerocket")
    agent = manifests.container("agent")
    volume, *_ = manifests.pod_spec("agent")["volumes"]
    assert volume["hostPath"] == {"path": "/dev/null", "type": "CharDevice"}
    mount, *_ = agent["volumeMounts"]
    assert mount["mountPath"] == "/var/run/nvidia-container-devices/all"
    variables = environment(agent)
    assert variables["NVIDIA_VISIBLE_DEVICES"]["value"] == "/var/run/nvidia-container-devices"
    assert agent["securityContext"] == WITHOUT_CAPABILITIES


def test_gke_mounts_the_driver_and_is_not_root(render: Render) -> None:
    manifests = render("gke")
    spec = manifests.pod_spec("agent")
    agent = manifests.container("agent")
    volume, *_ = spec["volumes"]
    assert volume["hostPath"] == {"path": "/home/kubernetes/bin/nvidia", "type": "Directory"}
    mount, *_ = agent["volumeMounts"]
    assert mount["readOnly"] is True
    assert mount["mountPath"] == "/usr/local/nvidia"
    variables = environment(agent)
    assert variables["LD_LIBRARY_PATH"]["value"] == "/usr/local/nvidia/lib64"
    assert spec["securityContext"] == UNPRIVILEGED_POD
    assert agent["securityContext"]["readOnlyRootFilesystem"] is True


def test_gke_quota_allows_critical_pods(render: Render) -> None:
    quota = render("gke").get("ResourceQuota", "toposcope")["spec"]
    assert quota["scopeSelector"]["matchExpressions"] == [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical", "system-cluster-critical"]}
    ]


def test_switches_is_root_with_one_capability_in_the_hosts_network(render: Render) -> None:
    manifests = render("switches")
    spec = manifests.pod_spec("switches")
    assert spec["securityContext"] == ROOT_POD
    assert spec["hostNetwork"] is True
    assert "hostPID" not in spec
    assert "volumes" not in spec
    assert spec["serviceAccountName"] == "toposcope-switches"
    switches = manifests.container("switches")
    assert switches["image"] == f"toposcope:{__version__}"
    assert switches["args"] == ["switches"]
    assert "ports" not in switches
    assert switches["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"add": ["NET_RAW"], "drop": ["ALL"]},
    }


def test_switches_is_privileged_only_for_infiniband(render: Render) -> None:
    manifests = render("switches", "switches-infiniband")
    switches = manifests.container("switches")
    assert switches["securityContext"] == {
        "privileged": True,
        "readOnlyRootFilesystem": True,
    }
    (mount,) = switches["volumeMounts"]
    assert mount == {"name": "infiniband", "mountPath": "/dev/infiniband"}
    volume, *_ = manifests.pod_spec("switches")["volumes"]
    assert volume["hostPath"] == {
        "path": "/dev/infiniband",
        "type": "DirectoryOrCreate",
    }


def test_network_policy_lets_metrics_in_and_the_api_server_be_reached(render: Render) -> None:
    policy = render("network-policy").get("NetworkPolicy", "toposcope")["spec"]
    assert policy["podSelector"] == {}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (ingress,) = policy["ingress"]
    ports = [port["port"] for port in ingress["ports"]]
    assert ports == [9464, 9465]
    (egress,) = policy["egress"]
    ports = [port["port"] for port in egress["ports"]]
    assert ports == [443, 6443]


def test_ui_listens_where_its_probes_ask(render: Render) -> None:
    manifests = render("ui")
    ui = manifests.container("ui")
    assert ui["securityContext"] == WITHOUT_CAPABILITIES
    assert ui["args"] == [
        "ui",
        "--listen",
        "::",
        "--port",
        "8470",
        "--metrics-port",
        "9466",
    ]
    assert ui["ports"] == [
        {"name": "http", "containerPort": 8470},
        {"name": "metrics", "containerPort": 9466},
    ]
    assert ui["resources"]["limits"] == {"memory": "1536Mi"}
    assert "volumes" not in manifests.pod_spec("ui")


def test_ui_page_is_reached_by_no_pod(render: Render) -> None:
    policy = render("ui").get("NetworkPolicy", "toposcope-ui")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    monitoring_namespaces = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": ["monitoring", "openshift-monitoring"],
    }
    assert policy["ingress"] == [
        {
            "from": [{"namespaceSelector": {"matchExpressions": [monitoring_namespaces]}}],
            "ports": [{"protocol": "TCP", "port": 9466}],
        }
    ]
