"""What a program uses of its machine: clocks, threads, randomness, connections to an API server.

A program gets them as an argument, `REAL` by default; `make simulate` passes its own, and then the
same code runs under one clock, one scheduler and one source of randomness.
"""

import gc
import http.client
import os
import random
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Protocol, cast


class Lock(Protocol):
    """The part of `threading.Lock` that a program uses."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take it; whether that was possible."""

    def release(self) -> None:
        """Give it back."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Event(Protocol):
    """The part of `threading.Event` that a program uses."""

    def is_set(self) -> bool:
        """Whether it is set."""

    def set(self) -> None:
        """Set it, and wake all waiters."""

    def clear(self) -> None:
        """Clear it: later waits block again."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds for it; whether it is set."""


class ConditionVariable(Protocol):
    """The part of `threading.Condition` that the simulated API server uses."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds for a notification; whether one came."""

    def notify_all(self) -> None:
        """Wake all waiters."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Thread(Protocol):
    """The part of `threading.Thread` that a program uses."""

    def is_alive(self) -> bool:
        """Whether it runs."""

    def join(self, timeout: float | None = None) -> None:
        """Wait so many seconds for its end."""


class Connection(http.client.HTTPConnection):
    """A connection that takes its host's name as it is.

    A name given as text goes through the codec for international names, which costs 0.3 MB and 2
    ms; ours are ASCII (`checked_url` sees to it), and bytes are left alone.
    """

    _opened: socket.socket | None = None
    """The last socket, to be shut down by another thread.

    http.client forgets it as soon as a server announces that it will close, and reads on.
    """

    def connect(self) -> None:
        """Raises OSError."""
        address: Any = (self.host.encode(), self.port)
        self.sock = socket.create_connection(address, self.timeout)
        self._opened = self.sock
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def shut_down(self) -> None:
        """Make a reader in another thread see it break off.

        Raises OSError or TypeError if it is not open.
        """
        # The plain shutdown: that of a TLS socket drops its session under the reader's feet.
        socket.socket.shutdown(cast(socket.socket, self._opened), socket.SHUT_RDWR)


class TlsConnection(Connection):
    """A connection to a server whose certificate must carry `name`, whatever its address."""

    default_port = http.client.HTTPS_PORT

    def __init__(
        self, host: str, port: int | None, timeout: float | None, tls: ssl.SSLContext, name: str
    ) -> None:
        super().__init__(host, port, timeout=timeout)
        self.tls = tls
        self._name = name

    def connect(self) -> None:
        """Raises OSError."""
        super().connect()
        # as above; a `tls-server-name` may be any
        name = self._name.encode() if self._name.isascii() else self._name
        self._opened = self.sock = self.tls.wrap_socket(self.sock, server_hostname=name)


class Runtime:
    """The real machine."""

    def monotonic(self) -> float:
        """Seconds that never go back; they stop while the machine is suspended."""
        return time.monotonic()

    def cpu_seconds(self) -> float:
        """The CPU time of the calling thread."""
        return time.thread_time()

    def boot_time(self) -> float:
        """Seconds since boot, including suspend, during which CLOCK_MONOTONIC stops."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        """The wall-clock time, for timestamps that people read."""
        return datetime.now(UTC)

    def host(self) -> str:
        """The machine's or pod's name."""
        return socket.gethostname()

    def instance(self) -> str:
        """The name of this process in an Event."""
        return f"{self.host()}-{os.getpid()}"

    def identity(self) -> str:
        """A new value at each call, unique in the cluster."""
        return f"{self.host()}_{secrets.token_hex(4)}"

    def rng(self) -> random.Random:
        """A source of jitter."""
        return random.Random()  # noqa: S311 - spreads load, protects nothing

    def event(self) -> Event:
        """A new event, not set."""
        return threading.Event()

    def lock(self) -> Lock:
        """A new lock, to be held across requests."""
        return threading.Lock()

    def condition(self, lock: threading.RLock) -> ConditionVariable:
        """A new condition; who waits for it gives the lock back meanwhile."""
        return threading.Condition(lock)

    def thread(self, name: str, work: Callable[[], object]) -> Thread:
        """Do `work` in a thread of its own, which ends with the process."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def connection(
        self,
        host: str,
        port: int | None,
        timeout: float | None,
        tls: ssl.SSLContext | None,
        name: str,
    ) -> Connection:
        """A connection that is not open yet.

        With `tls`, the server's certificate must carry `name`.
        """
        if tls:
            return TlsConnection(host, port, timeout, tls, name)
        return Connection(host, port, timeout=timeout)

    def freeze(self) -> None:
        """Exempt all present objects from garbage collection: they live as long as the process."""
        gc.collect()
        gc.freeze()


REAL: Final = Runtime()
