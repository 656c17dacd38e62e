"""One clock and one scheduler for all threads of all simulated processes.

One thread runs at a time, and a seed says which. A simulated thread is a greenlet: it gives way
where it waits for time, an event, a lock or an answer, and nowhere else. Time passes only when
nobody can run.
"""

import hashlib
import heapq
import random
import threading
from bisect import insort
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf
from operator import attrgetter
from typing import Any, Final

from greenlet import greenlet

from toposcope.kube import runtime

START: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_NUMBER: Final = attrgetter("number")
_YIELD_CHANCE: Final = 0.2
"""How often a thread that wakes another gives way to it at once."""


class KilledError(BaseException):
    """The process has been killed.

    Its threads end wherever they are, and nothing that they still do has an effect.
    """


class Process:
    """Threads that live and die together. `off` is by how many seconds its wall clock is wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.off = 0.0
        self.is_stopped = False
        """As by SIGSTOP: none of its threads runs."""
        self.waits_left = 0
        """Above 0, `ended` is called when one of its threads waits for the time that makes it 0."""
        self.ended: Callable[[], object] = bool
        self.failed: Callable[[str, BaseException], None] | None = None
        """Told of the thread's name and of an exception that ended it; without it the run ends."""

    def check(self) -> None:
        """Raise KilledError once it has been killed."""
        if not self.is_alive:
            raise KilledError


class Thread:
    """A thread of a process, or with `killed` a part of the simulation."""

    def __init__(
        self, scheduler: "Scheduler", process: Process, name: str, work: Callable[[], object]
    ) -> None:
        self.number = next(scheduler.numbers)
        self.process = process
        self.name = f"{process.name} {name}"
        self.work = work
        self.is_waiting = True
        self.is_woken = False
        self.turn = 0
        """Counts its waits: what was to wake it from an earlier one comes too late."""
        self.is_over = False
        self.followers: set[Thread] = set()
        self.greenlet = greenlet(self._run, scheduler.main)
        self._scheduler = scheduler

    def _run(self) -> None:
        try:
            self.process.check()
            self.work()
        except KilledError:
            pass
        except BaseException as error:
            if self.process.failed is None:
                raise
            self.process.failed(self.name, error)
        self.is_over = True
        for follower in self.followers:
            self._scheduler.wake(follower)

    def is_alive(self) -> bool:
        return not self.is_over

    def join(self, timeout: float | None = None) -> None:
        if not self.is_over:
            self.followers.add(self._scheduler.current)
            self._scheduler.wait(timeout)


class Scheduler:
    """Runs threads and `call`s in the order of their time; of those that may run now, any one."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.numbers = count()
        self.switches = 0
        self.main = greenlet.getcurrent()
        self._hash = hashlib.blake2b(digest_size=8)
        self._running: Thread | None = None
        self._ready: list[Thread] = []
        self._due: list[tuple[float, int, Thread | Callable[[], object], int]] = []
        self._order = count()
        self._threads: set[Thread] = set()
        self._stopped: dict[Process, list[Thread]] = {}

    @property
    def current(self) -> Thread:
        if self._running is None:
            raise AssertionError("only a thread of the simulation waits")
        return self._running

    @property
    def running(self) -> str:
        """The name of the thread that runs; empty between two."""
        return self._running.name if self._running else ""

    @property
    def trace(self) -> str:
        """Equal for two runs in which the same happened in the same order."""
        return self._hash.hexdigest()

    def note(self, what: str) -> None:
        """Take down in the trace what happens."""
        line = f"{self.now:.6f} {what}\n"
        self._hash.update(line.encode())

    def thread(self, process: Process, name: str, work: Callable[[], object]) -> Thread:
        thread = Thread(self, process, name, work)
        self._threads.add(thread)
        self.wake(thread)
        return thread

    def call(self, after: float, act: Callable[[], object]) -> None:
        """Call `act` in `after` seconds; it must not block."""
        due = self.now + after
        order = next(self._order)
        heapq.heappush(self._due, (due, order, act, 0))

    def wait(self, seconds: float | None) -> bool:
        """Let others run until `wake`, at most so long; whether it was woken.

        Raises KilledError.
        """
        thread = self.current
        if thread.process.waits_left:
            thread.process.waits_left -= 1
            if not thread.process.waits_left:
                thread.process.ended()
        thread.process.check()
        thread.turn += 1
        thread.is_waiting, thread.is_woken = True, False
        if seconds is not None and seconds < inf:
            due = self.now + max(seconds, 0.0)
            heapq.heappush(self._due, (due, next(self._order), thread, thread.turn))
        self.main.switch()
        thread.process.check()
        return thread.is_woken

    def give_way(self) -> None:
        """Let another thread run now and then, if it is a thread that asks."""
        if (
            self._running is not None
            and self._running.process.is_alive
            and self.rng.random() < _YIELD_CHANCE
        ):
            self.wait(0.0)

    def wake(self, thread: Thread) -> None:
        """End a thread's wait."""
        if thread.is_waiting:
            thread.is_woken, thread.is_waiting = True, False
            # In the order of their numbers, not of sets that woke them: those are in no order.
            insort(self._ready, thread, key=_NUMBER)

    def kill(self, process: Process) -> None:
        """End a process at once, with all that it was about to do."""
        process.is_alive = False
        self.resume(process)
        for thread in self._threads:
            if thread.process is process:
                self.wake(thread)

    def resume(self, process: Process) -> None:
        process.is_stopped = False
        for thread in sorted(self._stopped.pop(process, ()), key=_NUMBER):
            insort(self._ready, thread, key=_NUMBER)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._ready or self._is_due(until):
            if self._ready:
                turn = int(self.rng.random() * len(self._ready))
                thread = self._ready.pop(turn)
                self._switch(thread)
                continue

            due, _, what, waited_turn = heapq.heappop(self._due)
            self.now = max(self.now, due)
            if not isinstance(what, Thread):
                what()
            elif what.is_waiting and what.turn == waited_turn:
                what.is_waiting = False
                insort(self._ready, what, key=_NUMBER)
        self.now = until

    def _is_due(self, until: float) -> bool:
        """Whether something is to happen by then."""
        if not self._due:
            return False
        first_due, *_ = self._due[0]
        return first_due <= until

    def _switch(self, thread: Thread) -> None:
        if thread.process.is_stopped:
            self._stopped.setdefault(thread.process, []).append(thread)
            return
        self.switches += 1
        self._running = thread
        try:
            thread.greenlet.switch()
        finally:
            self._running = None
        if thread.is_over:
            self._threads.discard(thread)


class Condition:
    """`threading.Condition`, of which only one thread runs at a time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: set[Thread] = set()

    def __enter__(self) -> object: ...

    def __exit__(self, *_error: object) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it was woken."""
        thread = self._scheduler.current
        self._waiting.add(thread)
        woken = self._scheduler.wait(timeout)
        self._waiting.discard(thread)
        return woken

    def notify_all(self) -> None:
        for thread in self._waiting:
            self._scheduler.wake(thread)


class Event(Condition):
    """`threading.Event`."""

    _is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self.notify_all()
            self._scheduler.give_way()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            super().wait(timeout)
        return self._is_set


class Lock(Condition):
    """`threading.Lock`."""

    _is_held = False

    def acquire(self, blocking: bool = True) -> bool:
        while self._is_held:
            if not blocking:
                return False
            self.wait()
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False
        self.notify_all()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class ServerRuntime(runtime.Runtime):
    """What the API server has of its machine: the simulation's clock and waits.

    Its randomness has a seed of its own: how many uids it gives away changes no schedule.
    """

    def __init__(self, scheduler: Scheduler, seed: int = 0) -> None:
        self._scheduler = scheduler
        self._seed = seed

    def monotonic(self) -> float:
        return self._scheduler.now

    def boot_time(self) -> float:
        return self._scheduler.now

    def now(self) -> datetime:
        return START + timedelta(seconds=self._scheduler.now)

    def rng(self) -> random.Random:
        return random.Random(self._seed)

    def event(self) -> runtime.Event:
        return Event(self._scheduler)

    def lock(self) -> runtime.Lock:
        return Lock(self._scheduler)

    def condition(self, lock: threading.RLock) -> runtime.ConditionVariable:
        del lock
        return Condition(self._scheduler)

    def freeze(self) -> None: ...


class Machine(ServerRuntime):
    """What a simulated process has of its machine; `connect` makes its connections."""

    def __init__(
        self, scheduler: Scheduler, process: Process, connect: Callable[..., runtime.Connection]
    ) -> None:
        super().__init__(scheduler)
        self._process = process
        self._connect = connect

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._process.off)

    def host(self) -> str:
        return self._process.name

    def instance(self) -> str:
        return f"{self._process.name}-1"

    def identity(self) -> str:
        return f"{self._process.name}_{self._scheduler.rng.getrandbits(32):08x}"

    def rng(self) -> random.Random:
        return random.Random(self._scheduler.rng.getrandbits(64))

    def thread(self, name: str, work: Callable[[], object]) -> runtime.Thread:
        self._process.check()
        return self._scheduler.thread(self._process, name, work)

    def connection(
        self, host: str, port: int | None, timeout: float | None, tls: Any, name: str
    ) -> runtime.Connection:
        del host, port, tls, name
        return self._connect(self._process, timeout)
