"""Ports for servers that somebody starts: for tests, benchmarks and faults, never for what ships."""

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """So many TCP ports that nobody listens on, on any address; all are held until the last is known, so they differ.

    Another program may take one before it is used: whoever starts a server on it has to notice.
    """
    with contextlib.ExitStack() as held:
        return [held.enter_context(socket.create_server(("", 0))).getsockname()[1] for _ in range(count)]


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]
