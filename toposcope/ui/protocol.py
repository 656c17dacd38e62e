"""What the server sends to the page, in JSON: the one place that defines names and meanings.

Any text in here may come from a label, an annotation, a file or a status that anybody wrote: the
page shows it as text and never as markup.
"""

from typing import Final, Literal

import msgspec

VERSION: Final = 7
"""A page that was built for another version asks the user to reload it."""

ABSENT: Final = -1
"""In `Column.codes`: the node has no value."""
OWN_NAME: Final = -2
"""In `Column.codes`: the value is the node's own name."""


class _Struct(msgspec.Struct, gc=False, rename="camel"):
    """Sent as JSON, with names in camelCase."""


class ColumnData(_Struct):
    """One fact of every node: `codes[i]` is an index into `values`, or `ABSENT`, or `OWN_NAME`."""

    values: list[str]
    codes: list[int]


class ListColumn(_Struct):
    """One list of words for every node: `codes[i]` is an index into `values`."""

    values: list[list[str]]
    codes: list[int]


class OutOfReach(_Struct):
    """Free GPUs of a node that a pod of typical shape cannot get."""

    gpus: int
    why: str
    """Such as `too little CPU is left`."""


class Nodes(_Struct):
    """The nodes that have GPUs or that a topology selects, column by column, by name."""

    name: list[str]
    gpus: list[int]
    free: list[int] | None
    """Whole GPUs that no pod holds, 0 on nodes that take no pods; None where pods are unknown."""
    blocked: dict[str, OutOfReach]
    """Index (as a string) to which of the free GPUs a pod of typical shape cannot get.

    Levels do not count here: a node that lacks one of the view is out of reach as a whole.
    """
    marks: ListColumn
    """Problems, worst first: not-ready, degraded, unknown, no-agent, cordoned; or nothing."""
    views: ListColumn
    """The ids of the views that the node is in; empty: in none, see `apart`."""
    facts: dict[str, ColumnData]
    """Hardware, by fact: the keys are those of `toposcope.ui.nodes.FACTS`."""
    labels: dict[str, ColumnData]
    """Label values, by label key: one column for each key that is a level of any view."""
    reasons: dict[str, list[str]]
    """Index (as a string) to why the node is degraded, in its agent's words."""
    apart: dict[str, str]
    """Index (as a string) to why the node is in no view: continues "1 node" and "3 nodes"."""


class LevelData(_Struct):
    """One level of a view."""

    domain: str
    """`rack`."""
    key: str
    """The node label: a key of `Nodes.labels`."""
    domains: int
    nodes: int
    """Nodes of the view that carry it."""
    missing: int
    required: bool
    """Whether the spec or a workload requires it."""
    workloads: int
    """Workloads that require it, by the controller's last count."""
    problem: str
    """What is wrong with it, in a few words; empty when nothing is."""
    in_topology: bool
    """False: not a level of the map, but one that only some nodes carry, or that is requested
    and on no node (then `key` is empty)."""


class ConditionView(_Struct):
    """One condition of a ClusterTopology."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    since: str
    """RFC 3339; empty where unknown."""
    advisory: bool
    """About hardware or other topologies: `Ready` ignores it."""


class ViewData(_Struct):
    """One view of the cluster: a ClusterTopology, a segment, or what the labels alone suggest."""

    id: str
    """Stable: a ClusterTopology's name, `<name>/<segment>`, or empty for what labels suggest."""
    name: str
    kind: Literal["topology", "segment", "inferred"]
    parent: str | None
    """The id of the view that a segment, or the ClusterTopology made for one, is a part of."""
    origin: Literal["spec", "observed", "inferred"]
    levels: list[LevelData]
    """Broadest first; then those with `in_topology` false."""
    nodes: int
    """All that it selects."""
    gpus: int
    left_out: int
    """Those of the nodes that lack a level."""
    left_out_gpus: int
    without_agent: int
    """Nodes with GPUs that are not among `nodes` only because no agent has labelled them."""
    conditions: list[ConditionView]
    """As in the status; those that are not True become banners, advisory ones less prominent."""
    problems: list[str]
    """What is wrong with the spec, and values under two parents: one sentence each."""


class ChangeData(_Struct):
    """Something that changed recently."""

    id: int
    """Increases."""
    at: str
    """RFC 3339: when the server saw it."""
    view: str | None
    """The id of the view that changed; None: the cluster."""
    kind: Literal[
        "level", "condition", "domain-gone", "domain-new", "node-gone", "node-new",
        "moved", "state", "hardware", "view-gone", "view-new",
    ]  # fmt: skip
    count: int
    """How many nodes."""
    nodes: list[str]
    """The first of their names."""
    text: str
    """In one sentence."""
    bad: bool
    """Whether it made something worse."""


class Stale(_Struct):
    """The data shown is old."""

    seconds: int
    """Seconds since everything could last be read."""
    why: list[str]
    """One sentence for each collection that cannot be read, with what to do."""


class Status(_Struct):
    """How fresh everything is."""

    as_of: str | None
    """RFC 3339: when everything could last be read; None: files do not say."""
    stale: Stale | None
    warnings: list[str]
    """What cannot be read at all, one sentence each with the fix."""


class SnapshotData(_Struct):
    """`GET api/snapshot`: everything that the map needs."""

    version: int
    id: str
    """Changes whenever anything in it may have changed."""
    source: Literal["cluster", "files"]
    source_name: str
    """A server's URL or file names."""
    status: Status
    nodes: Nodes
    other_nodes: int
    """Nodes without GPUs that no topology selects: not in `nodes`."""
    views: list[ViewData]
    pod: str
    """The pod of typical shape: `4 GPUs and 100 CPU cores`; empty where pods are unknown."""
    placeholders: list[str]
    """Placeholder label values, such as `no-topology`: a node with one lacks the level."""
    changes: list[ChangeData]
    """The newest first."""


class News(_Struct):
    """`GET api/events`: an event with this, after each change, and every few seconds."""

    id: str
    """The id of the newest snapshot, for pages that show an older one; empty: there is none yet."""
    status: Status


class DeviceData(_Struct):
    """A GPU, a NIC, or a Data Direct function of a node."""

    label: str
    """As in the matrix: `GPU0`, `NIC0`, `DD0`."""
    kind: Literal["gpu", "nic", "dd"]
    name: str
    """A GPU's UUID, a NIC's name, the names of a Data Direct function's NICs."""
    pci: str
    numa: int | None
    rails: list[str]
    """Of a GPU: the labels of the NICs nearest to it."""
    nics: list[str]
    """Of a Data Direct function: the labels of the NICs that reach GPUs through it."""
    neighbour: str
    """Of a NIC: the switch and port that it is cabled to; empty: not known."""


class Numa(_Struct):
    """A NUMA node with its devices; `id` None collects those whose NUMA node is unknown."""

    id: int | None
    cpus: str
    """The kernel's list; empty: unknown."""
    devices: list[str]


class CellClass(_Struct):
    """What a cell of the matrix means."""

    cell: str
    kind: Literal["self", "nvlink", "pix", "pxb", "phb", "node", "sys"]
    links: int
    """NVLinks; 0 for other kinds."""
    meaning: str


class Since(_Struct):
    """Since when a node is as it is."""

    at: str
    """RFC 3339."""
    exact: bool
    """True: the server saw it change. False: it is when the agent last wrote, or earlier."""


class Lacking(_Struct):
    """A level of a view that a node does not carry."""

    view: str
    level: str
    why: str


class NodeData(_Struct):
    """`GET api/node/NAME`: one node."""

    name: str
    ready: bool
    schedulable: bool
    state: Literal["ok", "degraded", "unknown"] | None
    """None: no agent has reported."""
    since: Since | None
    """Since when it is in this state; None where unknown."""
    marks: list[str]
    gpus: int
    free: int | None
    resources: dict[str, list[int | None]]
    """GPU resources: [allocatable, free]."""
    shares: dict[str, str]
    """What one piece is, in the plural, of the resources that are shares of GPUs: `time slices`."""
    hardware: dict[str, str]
    """The labels of `gpu.topology/`, without that prefix."""
    labels: dict[str, str]
    taints: list[str]
    conditions: dict[str, str]
    """Those of the Node: type to status."""
    domains: dict[str, list[str]]
    """By view id: the node's domain values from the broadest level down, as far as they go."""
    lacking: list[Lacking]
    devices: list[DeviceData]
    """GPUs first, in the order of the matrix."""
    matrix: list[list[str]] | None
    """Square, in the order of `devices`; None where the annotation has none."""
    classes: list[CellClass]
    """One for each different cell, best first."""
    numa: list[Numa]
    nvswitches: int | None
    """None: none known on this node (they may be outside of it)."""
    nvlink_domains: list[list[str]]
    """GPU labels that NVLink connects within the node, the largest domain first."""
    reasons: list[str]
    disputes: list[str]
    miscabled: list[str]
    """Its rails that end in another switch than their peers', one sentence each."""
    problem: str
    """Why there is no matrix, with what to do; empty when there is one."""


class GpuHit(_Struct):
    """A GPU that a search has found."""

    uuid: str
    node: str


class SearchAnswer(_Struct):
    """`GET api/search?q=TEXT`: GPUs, unknown to the page itself; the best first, at most 50."""

    gpus: list[GpuHit]
    more: bool


class Fit(_Struct):
    """A domain where a workload would fit."""

    path: list[str]
    """Values from the broadest level down; empty: the whole cluster."""
    nodes: int
    free: int
    """Of the scarce resource."""


class FindingData(_Struct):
    """What a system says about one field of a workload."""

    rule: str
    severity: Literal["error", "warning", "advice"]
    field: str
    line: int | None
    """None: the field is not in the text."""
    message: str
    fix: str | None


class SystemAnswer(_Struct):
    """The answer for one workload and one system."""

    workload: str
    """`kind/name`; empty where it is not an object."""
    system: str
    topology: str | None
    view: str | None
    """The id of the view that the paths in `fits` belong to.

    None: the paths mean nothing, because of pod affinity or for want of a topology.
    """
    well: bool
    verdict: Literal["fits", "full", "never", "unclear", "refused", "nothing"]
    """`refused`: the findings include an error; `nothing`: it requests nothing placeable."""
    answer: str
    """The verdict in one sentence."""
    advice: list[str]
    reasoning: list[str]
    demands: list[str]
    """What it requests, one line per group, indented by two spaces per level."""
    findings: list[FindingData]
    notes: list[str]
    group: str
    """The part of the workload that has to stay in one of them."""
    fits: list[Fit]
    """Domains with room for one copy of `group`, the fullest first, at most 500."""
    fits_exact: bool
    """False: these have enough room in total; whether every pod finds a node was not tried."""
    more_fits: bool
    left_out: dict[str, list[str]]
    """Reason to the first names of nodes that were skipped."""


class CheckAnswer(_Struct):
    """`POST api/check`, body `{"workload": TEXT}`."""

    checks: list[SystemAnswer]
    problems: list[str]
    """What could not be read, one sentence each."""
    warnings: list[str]


class SlotRow(_Struct):
    """How many gangs of this size fit into single domains of a level."""

    gpus: int
    domain: str
    now: int
    ended: int
    empty: int
    unusable: float
    """The share of the free GPUs that no gang of this size can use, from 0 to 1."""


class GangRow(_Struct):
    """A running gang that is not as close together as it could be."""

    kind: str
    name: str
    """`NAMESPACE/NAME`."""
    gpus: int
    score: float
    better: bool
    """Whether it would span fewer domains if it were placed again now."""
    spans: str
    """`rack 4, could be 1`: each level at which it spans more domains than it could."""


class KeptRow(_Struct):
    """A running gang that is not, or may not be, within the domain that it requires."""

    kind: str
    name: str
    """`NAMESPACE/NAME`."""
    gpus: int
    result: Literal["VIOLATION", "UNOBSERVABLE", "MATCH"]
    """`MATCH`: a label changed since it was placed."""
    lines: list[str]
    """What it requires and where its pods are: one for each of its parts."""
    advice: list[str]
    """Who broke it, and what to do: one sentence each."""


class Planning(_Struct):
    """`GET api/planning?view=ID`."""

    per_pod: int
    """GPUs of a pod of these gangs, as many as most nodes have."""
    slots: list[SlotRow]
    """The smallest and the broadest first; a level that repeats the next narrower is left out."""
    gangs: list[GangRow]
    """The worst first, at most 100."""
    scored: int
    """Running gangs of more than one pod."""
    kept: list[KeptRow]
    """Those that require a level and do not keep it, or may not; violations first, at most 100."""
    violations: int
    unobservable: int
    matches: int
    """How many running gangs require a level, by what is observed."""
    pod: str
    """What a pod of these gangs requests: `4 GPUs, 100 CPU cores and 400 GiB of memory`."""
    reachable: int
    """Free GPUs that such a pod can get."""
    blocked: list[str]
    """Why it cannot get the other idle GPUs, the most GPUs first."""
    uncounted: list[str]
    """Taints that it does not tolerate, with the nodes that are not counted: one sentence each."""


class GangPlace(_Struct):
    """`GET api/gang?view=ID&kind=KIND&name=NAMESPACE/NAME`: where a gang is and could be."""

    nodes: list[str]
    level: str
    """The level at which `better` is better; empty: placing it again would not improve it."""
    better: list[list[str]]
    """Domains, each with its values from the broadest level down."""


class Fate(_Struct):
    """What a drain would do to a gang."""

    text: str
    worse: bool
    """Whether it would be spread further apart, or would wait."""


class SlotChange(_Struct):
    """Slots free now, before and after."""

    gpus: int
    domain: str
    before: int
    after: int


class Drained(_Struct):
    """`GET api/drain?view=ID&in=PATH` (or `&node=NAME`): what a drain would do."""

    nodes: int
    gangs: list[Fate]
    """Those that get worse first."""
    slots: list[SlotChange]
    """The largest first; the narrowest level at which a size loses slots."""
    warnings: list[str]
    """What could not be read, and what is unknown because of that."""


class ErrorAnswer(_Struct):
    """Every response to a failed request: one sentence that says what to do."""

    error: str


class Export(_Struct):
    """What an exported file holds in place of a server."""

    version: int
    snapshot: SnapshotData
    nodes: dict[str, NodeData]
    """As many as fit; others cannot be opened in the exported file."""
    left_out: int
    """How many nodes are not in `nodes`."""
