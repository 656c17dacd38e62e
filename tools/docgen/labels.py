"""Labels and annotations. What each means stands below its key in `api/label_keys.py`; the examples are simulated."""

import ast
import inspect
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from tools.docgen.markdown import code, table
from toposcope.agent.describe import Description, describe
from toposcope.agent.labels import ALL
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.api import label_keys
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

EXAMPLES: Final = {"DGX H200": "dgx-h200", "GB200 NVL72": "gb200-nvl72-tray", "4 x L40S": "l40s-4"}
"""Head of a column to the profile that it shows."""
NODE: Final = "node-7"


@cache
def described(profile: str) -> Description:
    """What the production agent says of a simulated machine."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "sys"
        machine = load_profile(profile)
        write_sysfs(machine, root)
        nvml = Nvml(SimulatedNvml(machine))
        return describe(probe(nvml, Sysfs(root), nvml.start()), NODE)


def meanings() -> dict[str, str]:
    """Each key of Toposcope's own to what `toposcope/api/label_keys.py` says below it, in the order of that file."""
    return dict(_documented(ast.parse(inspect.getsource(label_keys)).body))


def labels() -> str:
    """Every label that an agent can write, with what it is on the machines of `EXAMPLES`."""
    shown = [described(profile).labels.known for profile in EXAMPLES.values()]
    rows = (
        [code(key), meaning, *(code(known[key]) if key in known else "" for known in shown)]
        for key, meaning in meanings().items()
        if key in ALL
    )
    return table(["label", "meaning", *EXAMPLES], rows)


def annotations() -> str:
    """Every annotation."""
    return table(["annotation", "meaning"], ([code(key), text] for key, text in meanings().items() if key not in ALL))


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for name, text in pairwise(body):
        match name, text:
            case ast.AnnAssign(target=ast.Name(id=constant)), ast.Expr(value=ast.Constant(value=str(meaning))):
                key = getattr(label_keys, constant)
                if key.startswith(label_keys.PREFIX):
                    yield key, meaning
