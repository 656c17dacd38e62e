"""`toposcope ui` as it runs in a pod, on a free port that it says."""

import os
from pathlib import Path

from toposcope.kube.config import load


def main() -> int:
    """Serve until it is ended."""
    load.__defaults__ = (os.environ, Path(os.environ["BENCH_ACCOUNT"]), None)
    from toposcope.telemetry.logs import set_up  # noqa: PLC0415 - as toposcope.cli.ui does it
    from toposcope.ui.program import listening, of_cluster  # noqa: PLC0415 - same

    set_up("text")
    program = of_cluster(None)
    with listening("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)
        program.serve(listener)
    return 0
