"""Build the kube-apiserver that tests use before pytest starts, and say how long it takes.

    python -m tools.apiserver.prepare

prints nothing where the programs are there already. Where they cannot be built it says why: the
tests then run on the embedded API server, and those that need a real one are skipped.
"""

import os
import sys

from tools.apiserver.build import BuildError, cache_folder, kubernetes_version, usable_go
from tools.apiserver.server import UnavailableError, find_binaries, installed_binaries


def main() -> int:
    """Exit 1 only where a real API server is required and there is none."""
    try:
        if installed_binaries() is None:
            usable_go()
            _say(
                f"Building kube-apiserver {kubernetes_version()} and etcd with Go into "
                f"{cache_folder()}: once, about 4 minutes on two cores ..."
            )
            find_binaries()
    except (BuildError, UnavailableError) as error:
        _say(f"No real API server: {error}")
        if os.environ.get("TOPOSCOPE_REQUIRE_REAL_API") == "1":
            return 1
        _say("Tests use the embedded API server; those that need a real one are skipped.")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a program of its own


if __name__ == "__main__":
    sys.exit(main())
