"""Writes one file to attach to a ticket: page, script, style, and the state of the cluster.

The file loads nothing: its own policy allows the one script and the one style sheet by their
hashes. What comes from the cluster is in a data block, without any `<` that could end the block.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from toposcope.snapshot.filters import marks
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.ui import protocol
from toposcope.ui.broadcaster import Broadcaster, ClusterState
from toposcope.ui.bundle import SCRIPT, STYLE, Bundle
from toposcope.ui.detail import detail
from toposcope.ui.facts import Facts
from toposcope.ui.saved import fill
from toposcope.ui.source import FullNode
from toposcope.ui.views import views_of

_MOST_BYTES: Final = 20 << 20
"""For nodes in full: a size that browsers and ticket systems still accept."""
DATA: Final = "toposcope-export"
_ESCAPES: Final = (
    ("&", "\\u0026"),
    ("<", "\\u003c"),
    (">", "\\u003e"),
    ("\u2028", "\\u2028"),
    ("\u2029", "\\u2029"),
)


def export(snapshot: Snapshot, kind: str, bundle: Bundle, max_bytes: int = _MOST_BYTES) -> str:
    """The whole file. `snapshot` has the matrices of all nodes. Raises PageNotBuiltError."""
    return written(document(snapshot, kind, max_bytes), bundle)


def written(exported: protocol.Export, bundle: Bundle) -> str:
    """The file with this state. Raises PageNotBuiltError."""
    page, style, script = bundle.parts()
    style_text = _inside(style, "style")
    script_text = _inside(script, "script")
    policy = (
        f"default-src 'none'; script-src {_hash(script_text)}; "
        f"style-src {_hash(style_text)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'

    json = msgspec.json.encode(exported).decode()
    data_tag = f'<script type="application/json" id="{DATA}">{escaped(json)}</script>'
    style_tag = f"<style>{style_text}</style>"
    script_tag = f"<script>{script_text}</script>"

    page = page.replace(SCRIPT, "").replace(STYLE, style_tag)
    head, opening, rest = page.partition("<head>")
    body, end, tail = rest.rpartition("</body>")
    return f"{head}{opening}{meta}{body}{data_tag}{script_tag}{end}{tail}"


def document(snapshot: Snapshot, kind: str, max_bytes: int = _MOST_BYTES) -> protocol.Export:
    """What the file holds: all nodes, and as many in full as fit, those with problems first."""
    facts = Facts(snapshot.source, (), lambda: None)
    facts.taken_at = snapshot.taken_at
    fill(facts, snapshot)
    cluster = facts.snapshot()
    state = ClusterState("export", cluster, views_of(cluster))
    nodes: dict[str, protocol.NodeData] = {}
    left_out = 0
    room = max_bytes
    for node in _problems_first(snapshot.nodes):
        full = FullNode(node, "")
        node_detail = detail(full, state.views, state.cluster, None)
        size = len(msgspec.json.encode(node_detail))
        room -= size
        if room < 0:
            left_out += 1
        else:
            nodes[node.name] = node_detail

    broadcaster = Broadcaster(facts, "files", "")
    shown = broadcaster.snapshot(state)
    shown.source = "files" if kind == "files" else "cluster"
    return protocol.Export(protocol.VERSION, shown, nodes, left_out)


def _problems_first(nodes: Iterable[NodeView]) -> Sequence[NodeView]:
    with_gpus = [node for node in nodes if node.has_gpus]
    return sorted(with_gpus, key=lambda node: not marks(node))


def escaped(json: str) -> str:
    """Equivalent JSON without anything that HTML or JavaScript would interpret."""
    for character, instead in _ESCAPES:
        json = json.replace(character, instead)
    return json


def _inside(text: str, tag: str) -> str:
    """The bundle's own text, unchanged.

    Raises ValueError where it would end the tag that it stands in: a bad build.
    """
    lower = text.lower()
    if f"</{tag}" in lower or "<!--" in lower:
        raise ValueError(f"the bundle's {tag} contains </{tag} or <!--, which would end its tag")
    return text


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    encoded = base64.b64encode(digest).decode()
    return f"'sha256-{encoded}'"
