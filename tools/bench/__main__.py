"""`python -m bench [NAME ...]`: measure and print. A figure that misses its target is news, not a failure."""

import argparse
import os
import platform
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tools.bench.agent import memory_figures, start_figures
from tools.bench.agents import agents_figures
from tools.bench.controller import change_figures, sync_figures
from tools.bench.fleet import fleet_figures
from tools.bench.idle_hour import flapping_figures, rest_figures
from tools.bench.page import page_figures
from tools.bench.probe import probe_figures
from tools.bench.real import real_figures
from tools.bench.recompute import event_figures, recompute_figures
from tools.bench.report import Figure, table
from tools.bench.scale import scale_report
from tools.bench.snapshot_commands import look_figures
from tools.bench.soak import soak_figures
from tools.bench.ui import ui_figures

SUBJECTS: Final[dict[str, Callable[..., Iterator[Figure]]]] = {
    "memory": memory_figures,
    "start": start_figures,
    "probe": probe_figures,
    "rest": rest_figures,
    "flapping": flapping_figures,
    "recompute": recompute_figures,
    "events": event_figures,
    "sync": sync_figures,
    "change": change_figures,
    "real": real_figures,
    "agents": agents_figures,
    "look": look_figures,
    "ui": ui_figures,
    "page": page_figures,
    "fleet": fleet_figures,
    "soak": soak_figures,
}

REPORTS: Final[dict[str, Callable[..., str]]] = {"scale": scale_report}
"""Subjects with a table of their own."""

LONG: Final = frozenset({"agents", "scale", "soak"})
"""They take as long as all others together, and only come when they are named."""


def main() -> int:
    """Measure what was asked for; 1 when a measurement itself failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = [*SUBJECTS, *REPORTS]
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {', '.join(known)}; default: all but {', '.join(sorted(LONG))}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs and smaller clusters")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(known))
    if unknown:
        parser.error(f"no such measurement: {', '.join(unknown)}; there are {', '.join(known)}")
    print(_machine())
    failed = False
    for name in arguments.names or [name for name in known if name not in LONG]:
        began = time.monotonic()
        text, figures = "", list[Figure]()
        try:
            if name in REPORTS:
                text = REPORTS[name](quick=arguments.quick)
            else:
                figures.extend(SUBJECTS[name](quick=arguments.quick))
        except Exception as error:  # noqa: BLE001 - the others are still worth measuring
            failed = True
            text = f"failed: {type(error).__name__}: {error}"
        # What was measured before a failure took its time too.
        text = "\n".join(filter(None, [table(figures) if figures else "", text]))
        print(f"\n{name} ({time.monotonic() - began:.0f} s)\n{text}", flush=True)
    return 1 if failed else 0


def _machine() -> str:
    """When and on what this run was made."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    python = f"Python {platform.python_version()} ({_build()})"
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} CPUs ({model}), {python}"


def _build() -> str:
    """How the interpreter was configured; that of the image has profile-guided and link-time optimization."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    found = [name for name, flag in (("PGO", "--enable-optimizations"), ("LTO", "--with-lto")) if flag in arguments]
    return " and ".join(found) or "configured without PGO and LTO"


if __name__ == "__main__":
    sys.exit(main())
