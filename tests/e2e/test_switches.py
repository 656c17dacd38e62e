"""Leaf switches on real kubelets: frames on a cable become its node's annotation. The prune Job removes all of it."""

import contextlib
import json
import socket
from pathlib import Path

from tests.e2e.cluster import CAP_NET_RAW, NAMESPACE, Cluster, status_of
from tests.support.api import NODES, wait_until
from tests.support.lldp import of_switch
from tests.support.paths import MANIFESTS
from toposcope.api.label_keys import RAILS, SWITCHES


def test_switch_is_heard_and_the_prune_job_removes_everything(cluster: Cluster, tmp_path: Path) -> None:
    sysfs = cluster.folder / "sys"
    nic = sysfs / "class" / "infiniband" / "mlx5_0"
    files = {
        "ports/1/link_layer": "Ethernet",
        "device/vendor": "0x15b3",
        "device/net/eth0/dev_port": "0",
    }
    for name, text in files.items():
        path = nic / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (sysfs / "class" / "net").symlink_to("/sys/class/net")
    overlay = cluster.install(tmp_path, "switches", "ui", sysfs=sysfs)

    def annotation(key: str) -> str:
        node = cluster.api.get(f"{NODES}/gpu1")
        annotations = node["metadata"].get("annotations", {})
        value: str = annotations.get(key, "")
        return value

    with contextlib.closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as cable:
        cable.bind(("gpu1", 0))

        def heard() -> bool:
            cable.send(of_switch("leaf-01", "b8:59:9f:00:00:01", "Ethernet1/3"))
            return annotation(SWITCHES) != ""

        wait_until(heard, "gpu1 has heard its switch", 180)
    switches = json.loads(annotation(SWITCHES))
    assert switches["mlx5_0"]["switch"] == "leaf-01"
    wait_until(
        lambda: annotation(RAILS) != "",
        "the agent has taken it up",
    )

    status = status_of(cluster.main_process("gpu1", "switches"))
    assert status["CapEff"] == CAP_NET_RAW
    assert status["CapBnd"] == CAP_NET_RAW
    assert status["NoNewPrivs"] == "1"
    assert "cannot publish" not in cluster.nodes["gpu1"].logs("switches")
    cluster.wait_for_rollout("deployment/toposcope-ui", seconds=60)
    cluster.needs_half_its_memory("switches", "ui")

    cluster.kubectl("apply", "--server-side", "-k", MANIFESTS / "prune")
    cluster.wait_for(
        f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/toposcope-prune",
        "Complete",
        patience=100,
    )
    assert cluster.left_on_nodes() == []
    cluster.kubectl("delete", "--ignore-not-found", "-k", MANIFESTS / "prune")
    cluster.kubectl("delete", "--ignore-not-found", "-k", overlay)
    cluster.is_clean()
