"""`toposcope controller` under a clock that moves when it is told to: the whole program, its threads and sockets real.

Orders come as JSON lists on standard input, and each is answered with one line of JSON:

    ["advance", SECONDS, PATIENCE]   let time pass, and wait until the loop rests: whether it did within PATIENCE
    ["look"]                         {"rss": BYTES, "files": N, "threads": N, "sizes": {PLACE: ENTRIES}}
"""

import os
import sys
import threading
import time

from tools.bench.virtual_time import VirtualTime

_real, _pause = time.monotonic, time.sleep
_time = VirtualTime()
_time.install()


def main() -> int:
    """Run the controller until standard input ends."""
    from tools.bench.programs import controller  # noqa: PLC0415 - the clock has to be in its place first

    threading.Thread(target=_orders, name="orders", daemon=True).start()
    return controller.main()


def _orders() -> None:
    """Obey until there are no more orders, or nobody hears the answers; then end the whole process."""
    try:
        _obey()
    finally:
        os._exit(0)


def _obey() -> None:
    import msgspec  # noqa: PLC0415 - as above

    from tools.bench.snapshot_commands_inside import look  # noqa: PLC0415 - as above

    loop = threading.main_thread().ident or 0
    _time.settled(loop, 60.0, _real, _pause)
    print('"ready"', flush=True)
    for line in sys.stdin:
        match msgspec.json.decode(line):
            case ["advance", seconds, patience]:
                _time.advance(seconds)
                answer: object = _time.settled(loop, patience, _real, _pause)
            case ["look"]:
                answer = look()
            case other:
                raise ValueError(f"no such order: {other}")
        print(msgspec.json.encode(answer).decode(), flush=True)
