"""`toposcope rank`: real processes on this machine stand for the pods of a job."""

import argparse
import ast
import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import ROOT
from toposcope.rank import JoinRequest, Meeting, Member, RankError, add_arguments, ordered, parse_path, request_of

FILE = ROOT / "toposcope" / "rank.py"
JOB_TOKEN = "of this job"  # noqa: S105 - protects nothing
LEVELS = ("block", "rack", "host")


class RankedJob:
    """The pods of a job; each runs rank.py as a job's image does, with nothing else of this project."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = folder
        self.python = python
        self.running: list[subprocess.Popen[str]] = []

    def pod(self, rank: int, size: int, *flags: str, path: str = "", token: str = "") -> subprocess.Popen[str]:
        place = f"127.0.0.1:{self.port}"
        words = [self.python, "-I", str(FILE), "--rank", str(rank), "--size", str(size), "--meet", place]
        if "--name" not in flags:
            words += ["--name", f"pod-{rank}"]
        environment = {"TOPOSCOPE_PATH": path, "TOPOSCOPE_ENDPOINT": "", "TOPOSCOPE_RANK_TOKEN": token, "PATH": "/bin"}
        words += ["--address", f"10.0.0.{rank}", "--timeout", "20", *flags]
        process = subprocess.Popen(
            words,
            env=environment,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End a pod as its container ends: with all its processes, and before it starts again."""
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[RankedJob]:
    started = RankedJob(tmp_path)
    yield started
    started.end()


def old_ranks_in(hostfile: str) -> list[int]:
    """The old ranks of a hostfile, whose addresses are 10.0.0.<old rank>."""
    return [int(rank) for rank in re.findall(r"^10\.0\.0\.(\d+) slots=1$", hostfile, re.MULTILINE)]


def said(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.05)


def crossings(paths: Sequence[tuple[str, ...]], level: int) -> int:
    """How many edges of the ring join two domains of a level; a domain is its whole path."""
    count = 0
    for number, path in enumerate(paths):
        before = paths[number - 1]
        count += path[: level + 1] != before[: level + 1]
    return count


def random_paths(count: int, seed: int) -> list[tuple[str, ...]]:
    draw = random.Random(seed)
    return [(draw.choice("ab"), draw.choice("xyz"), f"n{number}") for number in range(count)]


def members_at(paths: Sequence[tuple[str, ...]]) -> list[Member]:
    members = []
    for rank, path in enumerate(paths):
        steps = tuple(zip(LEVELS, path, strict=True))
        members.append(Member(rank, f"pod-{rank}", "", 1, steps))
    return members


def assert_ring_is_minimal(count: int, seed: int) -> None:
    paths = random_paths(count, seed)
    ours = [tuple(value for _, value in pod.path) for pod in ordered(members_at(paths))]
    first, *others = paths
    rings = [[first, *ring] for ring in itertools.permutations(others)]
    for level in range(2):
        fewest = min(crossings(ring, level) for ring in rings)
        assert crossings(ours, level) == fewest


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [2, 4, 6, 7])
def test_ring_crosses_each_level_as_rarely_as_any(count: int, seed: int) -> None:
    assert_ring_is_minimal(count, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [8, 9])
def test_ring_of_nine_crosses_each_level_as_rarely_as_any(count: int, seed: int) -> None:
    assert_ring_is_minimal(count, seed)


@pytest.mark.parametrize("text", ["block", "block=", "=b1", "block=b1,,rack=r1", "a=b=c"])
def test_malformed_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not LEVEL=VALUE"):
        parse_path(text)


def test_file_is_short_and_needs_python_3_8_alone() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    tree = ast.parse(text, feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.name.split(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported <= sys.stdlib_module_names
    assert "tomllib" not in imported


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_eight_pods_get_one_order_with_domains_together(job: RankedJob, seed: int) -> None:
    paths = random_paths(8, seed)
    started = []
    for rank, path in enumerate(paths):
        text = ",".join(f"{level}={value}" for level, value in zip(LEVELS, path, strict=True))
        started.append(job.pod(rank, 8, "--no-keep", "--format", "hostfile", path=text))
    answers = [said(process) for process in started]
    assert len(set(answers)) == 1
    code, out, err = answers[0]
    assert (code, err) == (0, "")
    ranks = old_ranks_in(out)
    assert sorted(ranks) == list(range(8))
    racks = [paths[rank][:2] for rank in ranks]
    assert len(list(itertools.groupby(racks))) == len(set(racks))


def runs(python: str) -> bool:
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


def older_pythons() -> list[str]:
    """Those that run: pyenv has a shim on PATH for each of its versions, selected or not."""
    found = []
    for version in ("3.8", "3.9", "3.10"):
        folders = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*"))
        candidates = [str(folder / "bin" / "python3") for folder in folders]
        candidates.append(f"python{version}")
        found += [candidate for candidate in candidates if runs(candidate)]
    return found


@pytest.mark.slow
def test_older_python_runs_it(tmp_path: Path) -> None:
    pythons = older_pythons()
    if not pythons:
        pytest.skip("no Python from 3.8 to 3.10 is here")
    old = RankedJob(tmp_path, pythons[0])
    first = old.pod(0, 2, "--no-keep", "--format", "hostfile", "--slots", "8", path="rack=r2")
    second = old.pod(1, 2, "--no-keep", "--format", "hostfile", "--slots", "4", path="rack=r1")
    assert said(first) == said(second) == (0, "10.0.0.1 slots=4\n10.0.0.0 slots=8\n", "")


def test_pod_without_a_path_is_last_and_named(job: RankedJob) -> None:
    started = [job.pod(0, 2, "--no-keep"), job.pod(1, 2, "--no-keep", path="rack=r9")]
    (_, out, err), (_, other, _) = [said(process) for process in started]
    assert "export RANK=1\n" in out
    assert "export RANK=0\n" in other
    assert "export PET_MASTER_ADDR=10.0.0.1\n" in out
    assert "pods without a path have the last ranks: pod-0" in err


@pytest.mark.slow
def test_missing_pods_are_named_to_all_in_time(job: RankedJob) -> None:
    flags = ("--no-keep", "--timeout", "8")
    started = [job.pod(0, 4, *flags, path="rack=a"), job.pod(1, 4, *flags, path="rack=b")]
    text = "toposcope rank: after 8 s 2 of 4 pods missing: old ranks 2, 3\n"
    assert [said(process) for process in started] == [(2, "", text), (2, "", text)]


@pytest.mark.slow
def test_meeting_that_nobody_serves_is_named(job: RankedJob) -> None:
    code, out, err = said(job.pod(1, 2, "--no-keep", "--timeout", "1", path="rack=a"))
    assert (code, out) == (2, "")
    assert f"no meeting at 127.0.0.1:{job.port} (old rank 0): " in err


@pytest.mark.slow
def test_two_pods_with_one_rank_end_the_meeting_and_are_named_to_all(job: RankedJob) -> None:
    started = [
        job.pod(0, 3, "--no-keep", path="rack=a"),
        job.pod(1, 3, "--no-keep", "--name", "one", path="rack=a"),
        job.pod(1, 3, "--no-keep", "--name", "two", path="rack=a"),
    ]
    answers = {said(process) for process in started}
    assert len(answers) == 1
    code, out, err = answers.pop()
    assert (code, out) == (2, "")
    assert re.fullmatch("toposcope rank: two pods have old rank 1: (one and two|two and one)\n", err)


def test_problem_found_while_old_rank_0_asks_itself_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Member(0, "pod-0", "10.0.0.0", 1, ())
    meeting = Meeting(JoinRequest(own, 3, "127.0.0.1", 1, 20.0, b""))
    problem = "two pods have old rank 1: one and two"

    async def answered_before_the_problem() -> dict[str, Any]:
        meeting.problem = problem  # its server finds it while the answer is on its way
        return {"missing": "1 of 3 pods missing: old ranks 2"}

    monkeypatch.setattr(meeting, "_visit", answered_before_the_problem)
    asyncio.run(asyncio.wait_for(meeting.ask(), 5.0))
    assert meeting.problem == problem


def test_pod_of_another_size_is_refused(job: RankedJob) -> None:
    job.pod(0, 3, "--no-keep", path="rack=a")
    code, _, err = said(job.pod(1, 4, "--no-keep", path="rack=a"))
    assert code == 2
    assert "pod-1 has old rank 1 and --size 4, but pod-0 has old rank 0 and --size 3" in err


def test_pod_with_another_token_is_refused(job: RankedJob) -> None:
    job.pod(0, 2, "--no-keep", path="rack=a", token=JOB_TOKEN)
    stranger = job.pod(1, 2, "--no-keep", path="rack=a")
    code, _, err = said(stranger)
    assert code == 2
    assert "TOPOSCOPE_RANK_TOKEN differs" in err
    second = job.pod(1, 2, "--no-keep", path="rack=a", token=JOB_TOKEN)
    assert said(second)[0] == 0


@pytest.mark.slow
def test_hostile_bytes_do_not_disturb_the_meeting(job: RankedJob) -> None:
    first = job.pod(0, 2, "--no-keep", path="rack=b")
    lines = (
        b"\x00\xff" * 50 + b"\n",
        b"[" * 100_000 + b"\n",
        b"a" * 3_000_000,
        b'["{}", ""]\n',
        b"[1e999, null]\n",
        json.dumps(['{"pod":[1,"x","",1,[]],"size":2,"known":[],"seconds":NaN,"nonce":""}', ""]).encode() + b"\n",
        json.dumps(['{"pod":[9e999,"x","",1,[]],"size":2,"known":[],"seconds":1,"nonce":""}', ""]).encode() + b"\n",
    )
    with contextlib.ExitStack() as idle:
        for _ in range(600):  # more than it holds
            wait_until(lambda: is_served(job.port))
            idle.enter_context(socket.create_connection(("127.0.0.1", job.port)))
        for line in lines:
            with socket.create_connection(("127.0.0.1", job.port)) as stranger, contextlib.suppress(OSError):
                stranger.sendall(line)
        second = job.pod(1, 2, "--no-keep", path="rack=a")
        assert (said(first)[0], said(second)[0]) == (0, 0)


def is_served(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def running(job: RankedJob, rank: int, size: int, path: str, *flags: str) -> subprocess.Popen[str]:
    """A pod whose command writes its rank into a file and stays."""
    words = (
        "--",
        "/bin/sh",
        "-c",
        f'echo "$RANK $MASTER_ADDR" > now-{rank}.$$ && mv now-{rank}.$$ rank-{rank}; exec cat',
    )
    return job.pod(rank, size, *flags, *words, path=path)


def rank_file(job: RankedJob, rank: int) -> str:
    file = job.folder / f"rank-{rank}"
    wait_until(file.exists)
    return file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_meeting_goes_on_when_old_rank_0_restarts_before_all_have_come(job: RankedJob) -> None:
    lost = job.pod(0, 3, "--no-keep", path="rack=c")
    second = job.pod(1, 3, "--no-keep", "--format", "hostfile", path="rack=b")
    wait_until(lambda: is_served(job.port))
    job.kill(lost)
    first = job.pod(0, 3, "--no-keep", "--format", "hostfile", path="rack=c")
    third = job.pod(2, 3, "--no-keep", "--format", "hostfile", path="rack=a")
    expected = "10.0.0.2 slots=1\n10.0.0.1 slots=1\n10.0.0.0 slots=1\n"
    assert [said(process)[:2] for process in (first, second, third)] == [(0, expected)] * 3


@pytest.mark.slow
def test_port_that_says_nothing_is_named_in_time(job: RankedJob) -> None:
    with socket.create_server(("127.0.0.1", job.port)):
        code, out, err = said(job.pod(1, 2, "--no-keep", "--timeout", "1", path="rack=a"))
    assert (code, out) == (2, "")
    assert f"no meeting at 127.0.0.1:{job.port} (old rank 0): " in err


@pytest.mark.slow
def test_order_of_more_than_a_mebibyte_reaches_all(job: RankedJob) -> None:
    size = 200
    first = job.pod(0, size, "--no-keep", "--timeout", "200", "--format", "hostfile", path="rack=r000")
    orders = asyncio.run(asked_by_others(size, job.port))
    code, out, err = said(first)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == size
    assert len(set(orders)) == 1
    assert [pod.old_rank for pod in orders[0]] == sorted(range(size), key=lambda rank: (rank % 30, rank))
    assert len(json.dumps(orders[0])) > 1 << 20


LONG_PATH = tuple((f"level-{number}", "x" * 63) for number in range(80))


async def asked_by_others(size: int, port: int) -> list[tuple[Member, ...]]:
    """What all pods but old rank 0 are told, each with a Meeting of its own in this process."""
    meetings = []
    for rank in range(1, size):
        path = (("rack", f"r{rank % 30:03}"), *LONG_PATH, ("host", f"gpu-node-{rank:03}"))
        pod = Member(rank, f"train-{rank}", f"10.0.{rank // 250}.{rank % 250}", 8, path)
        meetings.append(Meeting(JoinRequest(pod, size, "127.0.0.1", port, 200.0, b"")))
    asking = [asyncio.ensure_future(meeting.ask()) for meeting in meetings]
    while not all(meeting.order or meeting.problem for meeting in meetings):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    for task in asking:
        task.cancel()
    assert {meeting.problem for meeting in meetings} == {""}
    return [tuple(meeting.order) for meeting in meetings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train-0.train", ("train-0.train", 29499)),
        ("10.0.0.7:80", ("10.0.0.7", 80)),
        ("fd00::7", ("fd00::7", 29499)),
        ("[fd00::7]", ("fd00::7", 29499)),
        ("[fd00::7]:80", ("fd00::7", 80)),
    ],
)
def test_place_of_the_meeting_may_be_ipv6(text: str, expected: tuple[str, int]) -> None:
    request = request_of(parsed("--rank", "0", "--size", "1", "--meet", text), {"TOPOSCOPE_PATH": "rack=a"})
    assert (request.host, request.port) == expected


@pytest.mark.parametrize("text", ["", ":80", "host:x", "host:99999"])
def test_malformed_place_of_the_meeting_is_refused(text: str) -> None:
    with pytest.raises(RankError, match="set --rank, --size and --meet"):
        request_of(parsed("--rank", "0", "--size", "1", "--meet", text), {})


def parsed(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(flags)


@pytest.mark.slow
def test_pods_meet_over_ipv6(job: RankedJob) -> None:
    place = f"[::1]:{job.port}"
    started = [job.pod(rank, 2, "--no-keep", "--meet", place, path=f"rack={9 - rank}") for rank in range(2)]
    assert [said(process)[1].splitlines()[0] for process in started] == ["export RANK=1", "export RANK=0"]


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [0, 1])
def test_restarted_pod_gets_its_rank_again(job: RankedJob, restarted: int) -> None:
    paths = ("rack=c", "rack=b", "rack=a")
    started = [running(job, rank, 3, path) for rank, path in enumerate(paths)]
    assert [rank_file(job, rank) for rank in range(3)] == ["2 10.0.0.2\n", "1 10.0.0.2\n", "0 10.0.0.2\n"]
    lost = started[restarted]
    lost.send_signal(signal.SIGTERM)
    assert lost.wait(timeout=30) == -signal.SIGTERM
    (job.folder / f"rank-{restarted}").unlink()
    running(job, restarted, 3, "rack=_elsewhere")  # its node has gone, too
    assert rank_file(job, restarted) == f"{2 - restarted} 10.0.0.2\n"


@pytest.mark.slow
def test_pod_lost_before_the_meeting_may_come_again(job: RankedJob) -> None:
    first = job.pod(0, 2, "--no-keep", "--timeout", "3", path="rack=a")
    lost = job.pod(1, 3, path="rack=b")
    job.kill(lost)
    again = job.pod(1, 2, "--no-keep", path="rack=b")
    assert (said(first)[0], said(again)[0]) == (0, 0)


@pytest.mark.slow
def test_keeper_answers_after_its_program_has_ended(job: RankedJob) -> None:
    place = f"127.0.0.1:{job.port}"
    program = f"{sys.executable} {FILE} --size 2 --meet {place} --timeout 20"
    shell = f"{program} --rank 0 --name pod-0; cat"
    environment = {"TOPOSCOPE_PATH": "rack=b", "PATH": "/bin:/usr/bin"}
    pod = subprocess.Popen(
        ["/bin/sh", "-c", shell],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    job.running.append(pod)
    assert said(job.pod(1, 2, "--no-keep", path="rack=a"))[0] == 0
    assert pod.stdout
    assert pod.stdout.readline() == "export RANK=1\n"
    code, out, _ = said(job.pod(1, 2, "--no-keep", path="rack=z"))
    assert (code, out.splitlines()[0]) == (0, "export RANK=0")
    pod.kill()
    pod.wait()
    wait_until(lambda: not is_served(job.port))


def test_command_that_fails_ends_with_its_code(job: RankedJob) -> None:
    only = job.pod(0, 1, "--", "/bin/sh", "-c", "exit 7", path="rack=a")
    assert said(only) == (7, "", "")
    assert said(job.pod(0, 1, "--", "/no/such/program", path="rack=a"))[0] == 127


@pytest.mark.slow
@pytest.mark.parametrize(
    ("style", "expected"),
    [("hostfile", "10.0.0.1 slots=8\n10.0.0.0 slots=8\n"), ("machinefile", "10.0.0.1:8\n10.0.0.0:8\n")],
    ids=["Open MPI", "Intel MPI"],
)
def test_launcher_without_slots_is_not_in_the_hostfile(job: RankedJob, style: str, expected: str) -> None:
    flags = ("--no-keep", "--format", style)
    started = [
        job.pod(0, 3, *flags, "--slots", "8", path="rack=r2"),
        job.pod(1, 3, *flags, "--slots", "8", path="rack=r1"),
        job.pod(2, 3, *flags, "--slots", "0"),
    ]
    said_by_workers = [said(process) for process in started[:2]]
    assert said_by_workers == [(0, expected, ""), (0, expected, "")]
    assert said(started[2])[1] == expected


def test_ray_labels_need_no_meeting(job: RankedJob) -> None:
    code, out, _ = said(job.pod(0, 9, "--format", "ray-labels", path="block=b1,rack=r2"))
    assert code == 0
    assert json.loads(out) == {"gpu.topology/path-block": "b1", "gpu.topology/path-rack": "r2"}


def test_dlrover_gets_the_switch_group_of_each_address(job: RankedJob) -> None:
    only = job.pod(0, 1, "--no-keep", "--format", "dlrover", path="block=b1,rack=r2,host=n7")
    assert said(only) == (0, '{"10.0.0.0": "b1/r2"}\n', "")
