"""Assembles the program behind `toposcope switches` and runs it."""

import contextlib
import functools
import logging
import select
import signal
import time
from pathlib import Path
from typing import Final

from toposcope.kube.account_rights import AccountRights
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ConfigError
from toposcope.switches.infiniband import neighbour
from toposcope.switches.loop import PAUSE_SECONDS, Switches
from toposcope.switches.packets import LldpSockets
from toposcope.switches.ports import read_ports
from toposcope.switches.publish import MANAGER, RIGHTS, SwitchesPublisher
from toposcope.telemetry.logs import set_up

log = logging.getLogger("switches")

MOST_ANSWER_BYTES: Final = 4 << 20
"""Bytes; objects that are larger together are read in smaller pages."""


def run(
    node_name: str, kubeconfig: str | None, sysfs: Path, interval: float, log_format: str
) -> int:
    """Run until a SIGTERM or SIGINT; the exit code.

    The annotation stays: it describes the node, not this process.
    """
    set_up(log_format)
    with contextlib.ExitStack() as stack:
        try:
            cluster = load(kubeconfig)
            client = ApiClient(cluster, MANAGER, most_bytes=MOST_ANSWER_BYTES)
            stack.callback(client.close)
            receiver = stack.enter_context(contextlib.closing(LldpSockets()))
        except ConfigError as error:
            log.error("%s", error)  # noqa: TRY400 - a traceback would hide it
            return 1
        except PermissionError:
            log.error("cannot receive LLDP frames: CAP_NET_RAW is missing")  # noqa: TRY400 - same
            return 1
        publisher = SwitchesPublisher(client, node_name)
        confinement = None
        if cluster.is_in_pod:  # other credentials are a person's, whom no policy confines
            rights = AccountRights(RIGHTS, client.namespace)
            confinement = Confinement(client, publisher.foreign_writes, rights)
        ports = functools.partial(read_ports, sysfs)
        switches = Switches(
            ports, receiver, neighbour, publisher, interval=interval, confinement=confinement
        )
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                switches.turn()
                wait = switches.seconds_until_turn()
                readable, _, _ = select.select(receiver.filenos(), [], [], wait)
                if readable:
                    time.sleep(PAUSE_SECONDS)  # more frames may be on their way
    return 0
