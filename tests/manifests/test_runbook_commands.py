"""The commands of docs/runbooks.md, run on an installed Toposcope: what an administrator types at 3 am must work."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.manifests.rights import run_agent
from tests.support.api import NODES, STRATEGIC, ApiUnderTest, create_service_account, node
from tests.support.paths import DOCS, ROOT
from tests.support.saved import pod
from tests.support.upstream_crds import stand_in
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.options import LEASE

COMMANDS = re.findall(r"^ *\$ (.*)$", (DOCS / "runbooks.md").read_text(encoding="utf-8"), re.MULTILINE)
# These need a kubelet, an editor or an agent's pod; no API server has them.
ELSEWHERE = re.compile(r"kubectl -n \S+ (logs|exec|edit) ")
# kubectl itself reads what it has to compare with, and ends with 1 where something differs.
COMPARES = re.compile(r"kubectl diff ")

pytestmark = [pytest.mark.slow, pytest.mark.real_api("the commands use field selectors and discovery in full")]


@pytest.fixture
def incident(installed: ApiUnderTest) -> ApiUnderTest:
    """An install with a labelled node, a gang on it, a Lease, and the kinds of others that runbooks look at."""
    label_node(installed)
    start_gang(installed)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE},
    }
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{HOME_NAMESPACE}/leases"
    installed.create(leases, lease)
    for crd in (
        stand_in("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
        stand_in("kai.scheduler", "v1alpha1", "Topology", "topologies", is_namespaced=False),
        stand_in("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", is_namespaced=False),
    ):
        installed.install_crd(crd)
    return installed


def label_node(api: ApiUnderTest) -> None:
    """A ready node with an agent."""
    api.create(NODES, node("gpu-1", labels={"kubernetes.io/hostname": "gpu-1"}))
    assert run_agent("gpu-1", api.kubeconfig) == 0
    ready = {"type": "Ready", "status": "True"}
    code, answer = api.request(
        "PATCH",
        f"{NODES}/gpu-1/status",
        {"status": {"conditions": [ready]}},
        content_type=STRATEGIC,
    )
    assert code == 200, answer
    # That of a node whose kubelet has not reported yet.
    api.patch(f"{NODES}/gpu-1", {"spec": {"taints": None}})


def start_gang(api: ApiUnderTest) -> None:
    """A Job, and its pod on the node."""
    create_service_account(api, "default", "default")
    trainer = pod("train-0", "gpu-1", 1)
    template = {"spec": {**pod("train", None, 1)["spec"], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": template},
    }
    created = api.create("/apis/batch/v1/namespaces/default/jobs", job)
    metadata = trainer["metadata"]
    metadata["namespace"] = "default"
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": created["metadata"]["uid"],
        "controller": True,
    }
    metadata["ownerReferences"] = [owner]
    api.create("/api/v1/namespaces/default/pods", trainer)


def test_every_command_works(incident: ApiUnderTest, tmp_path: Path) -> None:
    manifest = tmp_path / "train.yaml"
    manifest.write_text(json.dumps(pod("train", None, 0)), encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(incident.kubeconfig),
    }
    commands = [command for command in COMMANDS if not ELSEWHERE.search(command)]
    assert len(commands) > len(COMMANDS) / 2
    failures = []
    for command in commands:
        done = subprocess.run(
            ["/bin/bash", "-c", command.replace(manifest.name, str(manifest))],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        allowed = {0, 1} if COMPARES.match(command) else {0}
        if done.returncode not in allowed:
            failures.append(f"{command}: {done.returncode} {done.stderr or done.stdout}")
    assert not failures, "\n".join(failures)
