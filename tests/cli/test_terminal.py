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

import pytest

from tests.support.paths import ROOT
from tests.support.saved import demo_nodes, pod, saved
from toposcope.cli import completion
from toposcope.cli.main import COMMANDS, main
from toposcope.cli.progress import Progress
from toposcope.cli.terminal import Screen, columns, complain, safe, shortened, wants_colour
from toposcope.cli.tree import _fitted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "environ", "colour"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"CLICOLOR": "0"}, False),
        (False, {"CLICOLOR_FORCE": "1"}, True),
        (False, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_when_there_are_colours(terminal: bool, environ: Mapping[str, str], colour: bool) -> None:
    assert wants_colour(terminal, environ) is colour


def test_long_output_is_paged_and_short_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    pager = (sys.executable, "-c", "import sys; print('paged', len(sys.stdin.readlines()))")
    screen = Screen(stream, colour=False, width=80, height=4, pager=pager)
    screen.show(["1", "2", "3"])
    assert stream.getvalue() == "1\n2\n3\n"
    screen.show(map(str, range(9)))
    assert capfd.readouterr().out == "paged 9\n"


def test_a_pager_that_is_not_there_is_done_without() -> None:
    stream = Terminal()
    Screen(stream, colour=False, width=80, height=2, pager=("/no/such/pager",)).show(["1", "2", "3"])
    assert stream.getvalue() == "1\n2\n3\n"


def test_texts_are_cut_in_the_middle_and_columns_fit_the_screen() -> None:
    assert shortened("55c2d310-698c-4ab6-864f-82cfbd9dfc5a.32766", 11) == "55c2d…32766"
    assert shortened("short", 11) == "short"
    narrow = Screen(io.StringIO(), colour=False, width=20, height=None)
    assert list(columns(narrow, ["A", "N", "LONG"], [["a", "10", "x" * 40]], right=[1])) == [
        "A   N  LONG",
        "a  10  xxxxxx…xxxxxx",
    ]


def test_on_a_narrow_screen_the_tree_gives_up_names_before_what_they_have_in_common() -> None:
    assert _fitted("├─ 17 hosts, each 4 GPUs: gb200-01 ... gb200-18", 34) == "├─ 17 hosts, each 4 GPUs: gb200-0…"
    assert _fitted("└─ rack a-very-long-name-of-a-rack-7", 20) == "└─ rack a-…-a-rack-7"
    assert _fitted("└─ rack 7", 20) == "└─ rack 7"


def test_what_would_steer_a_terminal_is_shown_and_not_obeyed() -> None:
    evil = "rack\x1b]0;title\x07\x9b2J\u202e\x1b[31mred\nline\tü"
    assert safe(evil) == "rack\\u001b]0;title\\u0007\\u009b2J\\u202e\\u001b[31mred\\u000aline\tü"
    stream = io.StringIO()
    screen = Screen(stream, colour=True, width=None, height=None)
    screen.show([screen.paint("a\x1b[2Jb", "alarm"), "c\x1b[5md"])
    assert stream.getvalue() == "\x1b[1;31ma\\u001b[2Jb\x1b[0m\nc\\u001b[5md\n"
    # Programs get what is there, but for control characters, which JSON would have escaped as well.
    assert json.loads(safe('{"a": "\u202e\x9b"}', people=False)) == {"a": "\u202e\x9b"}


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


def test_on_a_terminal_long_output_goes_through_the_pager(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(saved([*demo_nodes(most=6), pod("a", "gb200-01", 4)]))
    pager = f"{sys.executable} -c \"import sys; print('paged', len(sys.stdin.readlines()))\""
    words = ["nodes", "--from", str(file)]
    assert on_a_terminal(*words, rows=5, PAGER=pager, TERM="xterm").strip() == "paged 7"
    assert "\x1b[1mNAME" in on_a_terminal(*words, rows=50, PAGER=pager, TERM="xterm")
    plain = on_a_terminal(*words, "--no-pager", rows=5, PAGER=pager, TERM="xterm", NO_COLOR="1")
    assert plain.startswith("NAME")
    assert "\x1b" not in plain
    assert "paged" not in on_a_terminal(*words, rows=5, PAGER="cat", TERM="xterm")


def test_progress_shows_after_a_second_on_terminals_only() -> None:
    now = [0.0]
    stream = Terminal()
    with Progress(stream, lambda: now[0], ticking=False) as progress:
        progress("nodes", 500)
        assert stream.getvalue() == ""
        now[0] = 1.5
        progress("nodes", 12_500)
        progress("nodes", 13_000)
        assert stream.getvalue() == "\r\x1b[Kreading nodes: 12,500, 8,333/s"
    assert stream.getvalue().endswith("\r\x1b[K")
    quiet = io.StringIO()
    with Progress(quiet, lambda: now[0], ticking=False) as progress:
        progress.tick()
        now[0] = 9.0
        progress("nodes", 1)
    assert quiet.getvalue() == ""


def test_to_check_many_workloads_takes_a_while_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock goes on by a second whenever somebody looks at it."""
    seconds = iter(map(float, range(100)))
    shown = Terminal()
    monkeypatch.setattr(
        "toposcope.cli.check.Progress",
        lambda _stream, doing="reading": Progress(shown, lambda: next(seconds), doing=doing, ticking=False),
    )
    cluster, work = tmp_path / "cluster.json", tmp_path / "work.json"
    cluster.write_text(saved([*demo_nodes(most=2)]))
    work.write_text("\n".join(json.dumps(pod(f"p{i}", None, 1)) for i in range(4)))
    assert main(["check", "-f", str(work), "--from", str(cluster)]) == 0
    assert f"reading {shortened(str(work), 36)}: 2, 1/s, 100%, 0 s left" in shown.getvalue()
    assert "checking workloads: 2, 1/s, 50%, 2 s left" in shown.getvalue()
    assert shown.getvalue().endswith("checking workloads: 4, 1/s, 100%, 0 s left\r\x1b[K")
    assert capsys.readouterr().err.count("checking") == 0


def test_while_nothing_is_told_the_time_goes_on_to_be_shown() -> None:
    """A server that does not answer: nobody calls, and people still see that something goes on."""
    now = [0.0]
    stream = Terminal()
    with Progress(stream, lambda: now[0], ticking=False) as progress:
        progress.tick()
        progress("nodes", 0)
        for now[0] in (0.9, 1.1, 1.5, 2.4):
            progress.tick()
        progress("nodes", 500)
        now[0] = 2.7
        progress("nodes", 1_000)
        now[0] = 3.0
        progress.tick()
    shown = ["reading nodes, 1 s", "reading nodes, 2 s", "reading nodes: 1,000, 370/s", ""]
    assert stream.getvalue().split("\r\x1b[K")[1:] == shown


def test_a_complaint_takes_the_line_of_progress_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    stream = Terminal()
    with Progress(stream, lambda: now[0], ticking=False) as progress:
        now[0] = 1.5
        progress("nodes", 500)
        monkeypatch.setattr(sys, "stderr", stream)
        complain("warning: pods may not be listed")
        now[0] = 2.0
        progress("pods", 0)
    assert stream.getvalue() == (
        "\r\x1b[Kreading nodes: 500, 333/s\r\x1b[Kwarning: pods may not be listed\n\r\x1b[Kreading pods\r\x1b[K"
    )
    complain("afterwards")  # nothing is left that would be cleared
    assert stream.getvalue().endswith("reading pods\r\x1b[Kafterwards\n")


def test_a_terminal_that_is_gone_ends_the_progress_and_not_the_command() -> None:
    class Gone(Terminal):
        def write(self, _text: str) -> int:
            raise OSError(5, "Input/output error")

    now = [0.0]
    with Progress(Gone(), lambda: now[0], ticking=False) as progress:
        now[0] = 2.0
        progress("nodes", 1)
        progress("nodes", 2)


def test_the_thread_that_watches_ends_with_the_progress() -> None:
    """With the real clock: only that the thread comes and goes."""
    with Progress(Terminal()):
        watching = [each for each in threading.enumerate() if each.name == "progress"]
    assert len(watching) == 1
    watching[0].join(10)
    assert not watching[0].is_alive()


def test_progress_tells_the_rate_and_what_is_left() -> None:
    now = [0.0]
    stream = Terminal()
    with Progress(stream, lambda: now[0], ticking=False) as progress:
        progress("nodes", 0, 0.0)
        now[0] = 2.0
        progress("nodes", 10_000, 0.1)
        now[0] = 4.0
        progress("pods", 0, None)  # begins now, and has a rate of its own
        now[0] = 5.0
        progress("pods", 500, 0.001)
    assert stream.getvalue().split("\r\x1b[K")[1:-1] == [
        "reading nodes: 10,000, 5,000/s, 10%, 18 s left",
        "reading pods",
        "reading pods: 500, 500/s, 0%, 17 min left",
    ]


def kubectl_asks(*words: str) -> list[str]:
    """A process of its own, as when kubectl asks: argcomplete takes file descriptors for itself."""
    start = "from toposcope.cli.completion import kubectl; kubectl()"
    ran = subprocess.run(
        [sys.executable, "-c", start, *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.splitlines()


def test_commands_flags_and_choices_complete() -> None:
    *commands, directive = kubectl_asks("")
    assert set(COMMANDS) <= set(commands)
    assert directive == ":4"
    assert kubectl_asks("tree", "--le") == ["--level", ":4"]
    assert kubectl_asks("nodes", "--state", "de") == ["degraded", ":4"]
    assert kubectl_asks("levels", "-o", "") == ["table", "wide", "json", "yaml", "name", ":4"]
    assert kubectl_asks("diff", "snap") == [":0"]  # files


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_gets_its_words(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "toposcope" in out
    assert "_ARGCOMPLETE" in out


def test_kubectl_calls_it_by_its_own_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-toposcope", "tree", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("usage: kubectl toposcope tree")
