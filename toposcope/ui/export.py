"""One file to attach to a ticket: the page, its script and style, and the state of the cluster.

It loads nothing: its own policy allows the one script and the one style sheet by their hashes. What
comes from the cluster is in a data block, in which no `<` is left that could end it.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from toposcope.snapshot.filters import marks
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.ui import protocol
from toposcope.ui.broadcaster import Broadcaster, State
from toposcope.ui.bundle import SCRIPT, STYLE, Bundle
from toposcope.ui.detail import detail
from toposcope.ui.facts import Facts
from toposcope.ui.saved import fill
from toposcope.ui.source import FullNode
from toposcope.ui.views import views_of

_MAX_DETAILS: Final = 20 << 20
"""Bytes of nodes in full: what a browser and a ticket system still accept."""
DATA: Final = "toposcope-export"
_ESCAPES: Final = (
    ("&", "\\u0026"),
    ("<", "\\u003c"),
    (">", "\\u003e"),
    ("\u2028", "\\u2028"),
    ("\u2029", "\\u2029"),
)


def export(snapshot: Snapshot, kind: str, bundle: Bundle, max_bytes: int = _MAX_DETAILS) -> str:
    """The whole file. `snapshot` has the matrices of all nodes. Raises PageNotBuiltError."""
    return written(document(snapshot, kind, max_bytes), bundle)


def written(exported: protocol.Export, bundle: Bundle) -> str:
    """The file that holds this. Raises PageNotBuiltError."""
    page, style, script = bundle.parts()
    data = escaped(msgspec.json.encode(exported).decode())
    style_tag = f"<style>{_inside(style, 'style')}</style>"
    script_text = _inside(script, "script")
    policy = (
        f"default-src 'none'; script-src {_hash(script_text)}; "
        f"style-src {_hash(_inside(style, 'style'))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = page.replace(SCRIPT, "").replace(STYLE, style_tag)
    head, opening, rest = page.partition("<head>")
    body, end, tail = rest.rpartition("</body>")
    block = (
        f'<script type="application/json" id="{DATA}">{data}</script><script>{script_text}</script>'
    )
    return f"{head}{opening}{meta}{body}{block}{end}{tail}"


def document(snapshot: Snapshot, kind: str, max_bytes: int = _MAX_DETAILS) -> protocol.Export:
    """What the file holds: all nodes, and as many in full as fit, those with problems first."""
    facts = Facts(snapshot.source, (), lambda: None)
    facts.taken_at = snapshot.taken_at
    fill(facts, snapshot)
    cluster = facts.snapshot()
    state = State("export", cluster, views_of(cluster))
    nodes: dict[str, protocol.Node] = {}
    left_out = 0
    room = max_bytes
    for node in _problems_first(snapshot.nodes):
        node_detail = detail(FullNode(node, ""), state.views, state.cluster, None)
        room -= len(msgspec.json.encode(node_detail))
        if room < 0:
            left_out += 1
        else:
            nodes[node.name] = node_detail

    shown = Broadcaster(facts, "files", "").snapshot(state)
    shown.source = "files" if kind == "files" else "cluster"
    return protocol.Export(protocol.VERSION, shown, nodes, left_out)


def _problems_first(nodes: Iterable[NodeView]) -> Sequence[NodeView]:
    return sorted((node for node in nodes if node.has_gpus), key=lambda node: not marks(node))


def escaped(json: str) -> str:
    """Equivalent JSON without anything that HTML or JavaScript would interpret."""
    for character, instead in _ESCAPES:
        json = json.replace(character, instead)
    return json


def _inside(text: str, tag: str) -> str:
    """The bundle's own text, safe inside its tag.

    Raises ValueError when it would end the tag: a bad build.
    """
    lower = text.lower()
    if f"</{tag}" in lower or "<!--" in lower:
        raise ValueError(f"the bundle's {tag} contains </{tag} or <!--, which would end its tag")
    return text


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
