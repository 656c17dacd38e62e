"""The pictures of docs/concepts.md."""

from collections.abc import Callable, Mapping
from typing import Final

from tools.docgen.drawing import arrow, box, label, line, picture


def levels() -> str:
    """Levels, and the domains of each, for two racks."""
    parts = [
        box(20, 20, 700, 310, "zone zone-1", tone="frame", top=True),
        box(40, 52, 380, 262, "block block-1", tone="frame", top=True),
        box(440, 52, 260, 262, "block block-2", tone="frame", top=True),
        box(60, 84, 340, 214, "rack rack-1", tone="frame", top=True),
        box(460, 84, 220, 214, "rack rack-3", tone="frame", top=True),
        box(80, 116, 300, 164, "nvlink-domain 55c2….32766", tone="ours", top=True),
        *(
            box(98 + column * 92, 150 + row * 60, 82, 48, f"gb200-{row * 3 + column + 1:02}", "4 GPUs")
            for row in range(2)
            for column in range(3)
        ),
        *(
            box(
                480,
                116 + row * 86,
                180,
                76,
                f"nvlink-domain h200-{row + 1}",
                f"host h200-{row + 1}, 8 GPUs",
                tone="ours",
            )
            for row in range(2)
        ),
        label(740, 40, "level = domain + key", kind="ink bold"),
        label(740, 66, "zone", "  topology.kubernetes.io/zone", kind="mono faint"),
        label(740, 112, "block", "  …/gce-topology-block", kind="mono faint"),
        label(740, 158, "rack", "  …/gce-topology-subblock", kind="mono faint"),
        label(740, 204, "nvlink-domain", "  gpu.topology/nvlink-domain", kind="mono faint"),
        label(740, 250, "host", "  kubernetes.io/hostname", kind="mono faint"),
        label(740, 300, "Broadest first, host last.", "Where NVLink ends at a node,", "the node is its own domain."),
    ]
    title = "A zone holds two blocks, each a rack; one rack is one NVLink domain of many hosts"
    return picture(970, 350, title, parts)


def grace() -> str:
    """When a level comes into effect and when it leaves."""
    top, bottom = 70, 170
    parts = [
        label(20, 34, "Nodes that carry the label of the level", kind="ink bold"),
        label(20, top + 5, "all"),
        label(20, bottom + 5, "none"),
        line((60, bottom), (180, bottom), (180, 120), (250, 120), (250, top), (420, top), (420, 110), (500, 110)),
        line((500, 110), (500, bottom), (740, bottom), (740, 100), (800, 100), (800, top), (930, top)),
        line((250, 60), (250, 262), dashed=True),
        line((500, 60), (500, 262), dashed=True),
        line((650, 60), (650, 262), dashed=True),
        line((800, 60), (800, 262), dashed=True),
        label(20, 220, "in effect?", kind="ink bold"),
        box(60, 234, 190, 34, "no: some nodes lack it", tone="plain"),
        box(250, 234, 250, 34, "yes: any node keeps it", tone="result"),
        box(500, 234, 150, 34, "yes: gracePeriod", tone="ours"),
        box(650, 234, 150, 34, "no: expired", tone="bad"),
        box(800, 234, 130, 34, "yes: all again", tone="result"),
        label(256, 52, "every node"),
        label(506, 52, "the last one is gone"),
        label(656, 52, "10 min later"),
        label(806, 52, "every node"),
    ]
    return picture(
        950, 290, "A level comes when every node carries it and leaves a grace period after the last one", parts
    )


def segments() -> str:
    """Two kinds of nodes, and the topologies that `segments: Auto` keeps."""
    parts = [
        box(20, 30, 330, 92, "18 nodes", "zone, block, leaf, nvlink-domain, host", "block under one key, no rack"),
        box(20, 150, 330, 92, "14 nodes", "zone, block, rack, nvlink-domain, host", "block under another key, no leaf"),
        box(440, 16, 500, 64, "cluster: all 32 nodes", "zone > nvlink-domain > host, what all share", tone="ours"),
        box(440, 100, 500, 64, "cluster-leaf: 18 nodes", "zone > block > leaf > nvlink-domain > host", tone="result"),
        box(440, 184, 500, 64, "cluster-rack: 14 nodes", "zone > block > rack > nvlink-domain > host", tone="result"),
        arrow((350, 60), (436, 46)),
        arrow((350, 180), (436, 62)),
        arrow((350, 86), (436, 130)),
        arrow((350, 206), (436, 216)),
    ]
    return picture(
        960, 266, "Nodes that carry different levels get a topology each, beside the one that all share", parts
    )


def agent() -> str:
    """The agent's two processes."""
    parts = [
        box(20, 20, 600, 230, "pod toposcope-agent, one on every GPU node", tone="frame", top=True),
        box(50, 64, 230, 160, "worker", "reads NVML and sysfs", "may hang, may crash", tone="bad"),
        box(370, 64, 220, 160, "agent", "labels, deadlines", "API server, metrics", tone="ours"),
        arrow((284, 120), (366, 120), both=True),
        label(300, 108, "socket"),
        arrow((366, 170), (284, 170), dashed=True),
        label(286, 190, "kill at the", "deadline"),
        box(720, 20, 230, 66, "API server", "own Node: gpu.topology/*"),
        box(720, 102, 230, 66, "Prometheus", "/metrics"),
        box(720, 184, 230, 66, "kubelet", "/healthz, /readyz"),
        arrow((590, 110), (716, 56)),
        arrow((716, 136), (594, 140), dashed=True),
        arrow((716, 212), (594, 176), dashed=True),
    ]
    return picture(
        970, 270, "NVML runs in a worker process; the agent sets deadlines and talks to the API server", parts
    )


def lease() -> str:
    """One writer among several controllers."""
    parts = [
        box(20, 30, 230, 84, "controller, leader", "follows the cluster, writes", tone="ours"),
        box(20, 166, 230, 84, "controller, follower", "follows the cluster, waits"),
        box(370, 98, 220, 84, "Lease", "toposcope-controller", tone="result"),
        arrow((250, 80), (366, 124)),
        label(282, 82, "renews every 2 s"),
        arrow((250, 204), (366, 160), dashed=True),
        label(270, 224, "looks every 2 to 4.4 s"),
        box(700, 30, 250, 84, "API server", "status, published resources, Events"),
        arrow((250, 50), (696, 50)),
        label(420, 42, "writes, each one fenced"),
        label(640, 150, "The leader stops writing 10 s after its last", "renewal; a follower begins after 15 s.")
        + label(640, 196, "Nobody writes in between: at most 6 s for a", "rolling update, 21 s after a crash."),
    ]
    title = "One controller holds the Lease and writes; the other follows and is ready"
    return picture(970, 270, title, parts)


def writers() -> str:
    """Who writes what."""
    rows = (
        ("platform, cloud controller", "plain", "zone, block, rack labels of every Node"),
        ("agent", "ours", "gpu.topology/* labels and annotations of its own Node"),
        ("admin", "plain", "spec of ClusterTopologies, ConfigMap toposcope-config"),
        ("controller", "ours", "status of ClusterTopologies, Events, those of segments"),
        ("controller", "ours", "ClusterTopologyBinding (Grove), Topology (KAI, Kueue)"),
        ("Grove's operator", "plain", "KAI's Topology, where a binding of its name exists"),
    )
    parts = [label(20, 30, "who", kind="ink bold"), label(330, 30, "writes", kind="ink bold")]
    for i, (who, tone, what) in enumerate(rows):
        y = 44 + i * 50
        parts += [
            box(20, y, 230, 38, who, tone="ours" if tone == "ours" else "plain"),
            arrow((250, y + 19), (322, y + 19)),
            box(326, y, 470, 38, what, tone="result" if tone == "ours" else "plain"),
        ]
    return picture(
        820, 360, "Platforms, agents, admins, the controller and Grove each write things of their own", parts
    )


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "levels.svg": levels,
    "grace.svg": grace,
    "segments.svg": segments,
    "agent.svg": agent,
    "lease.svg": lease,
    "writers.svg": writers,
}
"""File below docs/diagrams/ to what draws it."""
