import contextlib
import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import pytest
from tests.cli.conftest import Command, write_cluster
from tests.support.paths import ROOT
from tests.support.runtime import ManualRuntime
from tests.support.saved import demo_nodes, pod, saved
from toposcope.cli import COMMANDS, completion
from toposcope.cli.main import main
from toposcope.cli.progress import ProgressLine
from toposcope.cli.terminal import Screen, columns, complain, fitted, shortened, wants_colour
from toposcope.cli.tree import _Label
from toposcope.text import escaped


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("is_terminal", "environ", "has_colour"),
    [
        pytest.param(True, {}, True, id="terminal"),
        pytest.param(False, {}, False, id="pipe"),
        pytest.param(True, {"NO_COLOR": "1"}, False, id="no-color"),
        pytest.param(True, {"NO_COLOR": ""}, True, id="empty-no-color"),
        pytest.param(True, {"CLICOLOR": "0"}, False, id="clicolor-0"),
        pytest.param(False, {"CLICOLOR_FORCE": "1"}, True, id="clicolor-force"),
        pytest.param(False, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False, id="no-color-above-force"),
        pytest.param(True, {"TERM": "dumb"}, False, id="dumb-terminal"),
    ],
)
def test_colour_follows_terminal_and_environment(
    is_terminal: bool, environ: Mapping[str, str], has_colour: bool
) -> None:
    assert wants_colour(is_terminal, environ) is has_colour


def test_long_output_is_paged_and_short_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    pager = (sys.executable, "-c", "import sys; print('paged', len(sys.stdin.readlines()))")
    screen = Screen(
        stream,
        has_colour=False,
        width=80,
        height=4,
        pager=pager,
    )
    screen.show(["1", "2", "3"])
    assert stream.getvalue() == "1\n2\n3\n"
    screen.show(map(str, range(9)))
    assert capfd.readouterr().out == "paged 9\n"


def test_missing_pager_is_ignored() -> None:
    stream = Terminal()
    Screen(
        stream,
        has_colour=False,
        width=80,
        height=2,
        pager=("/no/such/pager",),
    ).show(["1", "2", "3"])
    assert stream.getvalue() == "1\n2\n3\n"


def test_texts_are_cut_in_the_middle_and_columns_fit_the_screen() -> None:
    assert shortened("55c2d310-698c-4ab6-864f-82cfbd9dfc5a.32766", 11) == "55c2d…32766"
    assert shortened("short", 11) == "short"
    narrow = Screen(io.StringIO(), has_colour=False, width=20, height=None)
    assert list(columns(narrow, ["A", "N", "LONG"], [["a", "10", "x" * 40]], right=[1])) == [
        "A   N  LONG",
        "a  10  xxxxxx…xxxxxx",
    ]


def test_narrow_screen_drops_spare_columns_and_keeps_names() -> None:
    narrow = Screen(io.StringIO(), has_colour=False, width=20, height=None)
    row = ["a-long-name", "x" * 9, "y" * 9]
    _head, line = columns(narrow, ["NAME", "X", "Y"], [row], spare=[1])
    assert line == "a-long-name  yyyy…yyy"


def test_long_line_is_broken_at_words() -> None:
    lines = fitted("! one two three four five", 20)
    assert list(lines) == ["! one two three four", "  five"]


def test_narrow_tree_cuts_names_before_counts() -> None:
    hosts = _Label("├─ 17 hosts, each 4 GPUs", "gb200-01 ... gb200-18")
    assert hosts.fitted(34) == "├─ 17 hosts, each 4 GPUs: gb200-0…"
    assert _Label("└─ rack a-very-long-name-of-a-rack-7").fitted(20) == "└─ rack a-…-a-rack-7"
    assert _Label("└─ rack 7").fitted(20) == "└─ rack 7"


def test_control_characters_are_shown_and_not_obeyed() -> None:
    evil = "rack\x1b]0;title\x07\x9b2J\u202e\x1b[31mred\nline\tü"
    assert escaped(evil) == "rack\\u001b]0;title\\u0007\\u009b2J\\u202e\\u001b[31mred\\u000aline\tü"
    stream = io.StringIO()
    screen = Screen(stream, has_colour=True, width=None, height=None)
    screen.show([screen.paint("a\x1b[2Jb", "alarm"), "c\x1b[5md"])
    assert stream.getvalue() == "\x1b[1;31ma\\u001b[2Jb\x1b[0m\nc\\u001b[5md\n"
    # Programs read it back.
    assert json.loads(escaped('{"a": "\u202e\x9b"}')) == {"a": "\u202e\x9b"}


@pytest.mark.regression
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param("  a: one\ntwo\r\n\r\n  three\n", "  a: one\n      two\n        three\n", id="indented"),
        pytest.param("one\x1b[2J\nWhy: \a", "one\\u001b[2J\n    Why: \\u0007\n", id="escapes"),
        pytest.param("\n\n", "\n", id="empty-lines"),
        pytest.param("a\rb\vc\x85d", "a\\u000db\\u000bc\\u0085d\n", id="other-line-ends"),
    ],
)
def test_message_of_several_lines_stays_below_its_first(line: str, shown: str) -> None:
    stream = io.StringIO()
    Screen(stream, has_colour=False, width=80, height=None).show([line, "next"])
    assert stream.getvalue() == f"{shown}next\n"


def on_a_terminal(*words: str, rows: int, **environ: str) -> str:
    """What the command shows on a terminal of so many lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 200, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LINES", "COLUMNS")}
    with subprocess.Popen(
        [sys.executable, "-m", "toposcope.cli.main", *words],
        cwd=ROOT, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env={**environment, **environ},
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed: how a terminal says that nothing more comes
            while chunk := os.read(ours, 1 << 16):
                shown += chunk
    os.close(ours)
    assert process.returncode in (0, 1)
    return shown.decode()


@pytest.mark.slow
def test_terminal_pages_long_output(tmp_path: Path) -> None:
    file = write_cluster(tmp_path / "cluster.json", *demo_nodes(most=6), pod("a", "gb200-01", 4))
    pager = f"{sys.executable} -c \"import sys; print('paged', len(sys.stdin.readlines()))\""
    words = ["nodes", "--from", str(file)]
    assert on_a_terminal(*words, rows=5, PAGER=pager, TERM="xterm").strip() == "paged 7"
    assert "\x1b[1mNAME" in on_a_terminal(*words, rows=50, PAGER=pager, TERM="xterm")
    plain = on_a_terminal(
        *words,
        "--no-pager",
        rows=5,
        PAGER=pager,
        TERM="xterm",
        NO_COLOR="1",
    )
    assert plain.startswith("NAME")
    assert "\x1b" not in plain
    assert "paged" not in on_a_terminal(*words, rows=5, PAGER="cat", TERM="xterm")


class TickingRuntime(ManualRuntime):
    """A machine whose clock goes on by a second at each reading."""

    def monotonic(self) -> float:
        self.seconds += 1.0
        return self.seconds


def test_progress_tells_the_rate_and_what_is_left() -> None:
    machine = ManualRuntime()
    progress = ProgressLine(io.StringIO(), runtime=machine)
    shown = []
    for now, what, count, share in (
        (0.5, "nodes", 0, 0.0),
        (1.0, "nodes", 0, 0.0),
        (2.0, "nodes", 10_000, 0.1),
        (4.0, "pods", 0, None),  # begins now, and has a rate of its own
        (5.0, "pods", 500, 0.001),
    ):
        machine.seconds = now
        progress(what, count, share)
        shown.append(progress.text())
    assert shown == [
        "reading nodes",
        "reading nodes, 1 s",
        "reading nodes: 10,000, 5,000/s, 10%, 18 s left",
        "reading pods",
        "reading pods: 500, 500/s, 0%, 17 min left",
    ]


def test_check_of_many_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toposcope: Command) -> None:
    shown = []

    class Shown(ProgressLine):
        def __call__(self, what: str, count: int, share: float | None = None) -> None:
            super().__call__(what, count, share)
            shown.append(self.text())

    def shown_progress(stream: TextIO, doing: str = "reading") -> ProgressLine:
        return Shown(stream, doing, TickingRuntime())

    monkeypatch.setattr("toposcope.cli.check.ProgressLine", shown_progress)
    cluster, work = tmp_path / "cluster.json", tmp_path / "work.json"
    cluster.write_text(saved([*demo_nodes(most=2)]))
    work.write_text("\n".join(json.dumps(pod(f"p{i}", None, 1)) for i in range(4)))
    ran = toposcope(f"check -f {work} --from {cluster}")
    assert f"reading {shortened(str(work), 36)}: 2, 1/s, 100%, 0 s left" in shown
    assert "checking workloads: 2, 1/s, 50%, 2 s left" in shown
    assert "checking" not in ran.err


def test_progress_shows_on_terminals_only_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real clock: what is written meanwhile appears above the line, which is gone in the end."""
    monkeypatch.setenv("TERM", "xterm")
    drawn = threading.Event()

    class Watched(Terminal):
        def write(self, text: str) -> int:
            if "nodes" in text:
                drawn.set()
            return super().write(text)

    stream = Watched()
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressLine(stream, delay_seconds=0.0) as progress:
        progress("nodes", 500)
        assert drawn.wait(10)
        complain("warning: pods may not be listed")
    shown = stream.getvalue()
    assert "reading nodes: 500" in shown
    assert "warning: pods may not be listed\n" in shown
    assert shown.endswith("\x1b[2K")  # the last thing: erase the line
    complain("afterwards")
    assert stream.getvalue().endswith("\x1b[2Kafterwards\n")
    quiet = io.StringIO()
    with ProgressLine(quiet, delay_seconds=0.0) as progress:
        progress("nodes", 1)
    assert quiet.getvalue() == ""
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_lost_terminal_ends_progress_but_not_the_command() -> None:
    failed = threading.Event()

    class Gone(Terminal):
        def write(self, _text: str) -> int:
            failed.set()
            raise OSError(5, "Input/output error")

    with ProgressLine(Gone(), delay_seconds=0.0) as progress:
        progress("nodes", 1)
        assert failed.wait(10)
        progress("nodes", 2)


def kubectl_asks(*words: str) -> list[str]:
    """A process of its own, as when kubectl asks: argcomplete takes file descriptors for itself."""
    start = "from toposcope.cli.completion import kubectl; kubectl()"
    ran = subprocess.run(
        [sys.executable, "-c", start, *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_commands_flags_and_choices_complete() -> None:
    *commands, directive = kubectl_asks("")
    assert set(COMMANDS) <= set(commands)
    assert directive == ":4"
    assert kubectl_asks("tree", "--le") == ["--level", ":4"]
    assert kubectl_asks("nodes", "--state", "de") == ["degraded", ":4"]
    assert kubectl_asks("levels", "-o", "") == ["table", "wide", "json", "yaml", "name", ":4"]
    assert kubectl_asks("diff", "snap") == [":0"]  # files


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_gets_its_words(shell: str, toposcope: Command) -> None:
    out = toposcope(f"completion {shell}").out
    assert "toposcope" in out
    assert "_ARGCOMPLETE" in out


def test_kubectl_calls_it_by_its_own_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-toposcope", "tree", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("usage: kubectl toposcope tree")
