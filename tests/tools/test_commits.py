"""`tools.commits` finds messages of new commits that are not `area: what it does`."""

import os
import subprocess
from pathlib import Path

import pytest
from tools.commits import FIRST_DAY, main, problems_of

FORM = "write it as 'area: what it does', as in 'kueue: retry a refused write after 30 s'"
SETTINGS = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]


class Repository:
    """A git repository of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *arguments: str, at: str = FIRST_DAY) -> str:
        """What git prints, whatever this user's configuration is; `at`: the date of a commit."""
        command = ["git", "-C", str(self.folder), *SETTINGS, *arguments]
        dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **dates})
        return done.stdout

    def commit(self, message: str, *, at: str = FIRST_DAY) -> str:
        """The abbreviated hash of a new commit."""
        self.git("commit", "--quiet", "--allow-empty", "--message", message, at=at)
        return self.git("rev-parse", "--short", "HEAD").strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("kueue: retry a refused write after 30 s", id="subject"),
        pytest.param("kube-scheduler: read gangs\n\nIts docs say so.\n", id="body"),
        pytest.param("e2e: pass ten times in a row\n", id="verb-in-ss"),
        pytest.param("tests: feed each parser what broke another", id="verb-in-ed"),
        pytest.param("agent: " + "x" * 65, id="as-long-as-allowed"),
    ],
)
def test_message_with_area_and_imperative_is_accepted(message: str) -> None:
    assert list(problems_of(message)) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        pytest.param("Retry a refused write", f"the subject has no area: {FORM}", id="no-area"),
        pytest.param("agent, ui: show rails", f"the subject has no area: {FORM}", id="two-areas"),
        pytest.param("Agent: show rails", f"the subject has no area: {FORM}", id="upper-case-area"),
        pytest.param("agent:show rails", f"the subject has no area: {FORM}", id="no-space"),
        pytest.param(
            "agent: added rails",
            f"'added' is not an imperative verb in lower case: {FORM}",
            id="past",
        ),
        pytest.param(
            "agent: shows rails",
            f"'shows' is not an imperative verb in lower case: {FORM}",
            id="third-person",
        ),
        pytest.param(
            "agent: showing rails",
            f"'showing' is not an imperative verb in lower case: {FORM}",
            id="participle",
        ),
        pytest.param(
            "agent: the rails of a node",
            f"'the' is not an imperative verb in lower case: {FORM}",
            id="no-verb",
        ),
        pytest.param(
            "agent: Show rails",
            f"'Show' is not an imperative verb in lower case: {FORM}",
            id="upper-case-verb",
        ),
        pytest.param("agent: show rails.", "the subject ends with a period: remove it", id="period"),
        pytest.param(
            "agent: " + "x" * 66,
            "the subject has 73 characters: write at most 72 and put the reason into the body",
            id="too-long",
        ),
        pytest.param(
            "agent: show rails\nof each node",
            "the line after the subject is not blank: put a blank line before the body",
            id="no-blank-line",
        ),
    ],
)
def test_message_with_a_problem_is_refused_with_the_fix(message: str, problem: str) -> None:
    assert list(problems_of(message)) == [problem]


def test_only_commits_after_the_base_are_checked(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.commit("Whatever stands on main")
    repository.git("switch", "--quiet", "--create", "topic")
    wrong = repository.commit("Fixed it")
    repository.commit("agent: show rails")

    assert main([], repository.folder) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{wrong} 'Fixed it': the subject has no area: {FORM}",
        "2 new commits since main, 1 problem in their messages",
    ]

    assert main([wrong], repository.folder) == 0
    assert capsys.readouterr().out == f"1 new commit since {wrong}, 0 problems in their messages\n"


def test_commit_from_before_the_check_is_left_out(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.commit("first")
    repository.git("switch", "--quiet", "--create", "topic")
    repository.commit("Fixed it", at="2026-11-29T23:59:59Z")

    assert main([], repository.folder) == 0
    assert capsys.readouterr().out == "0 new commits since main, 0 problems in their messages\n"


@pytest.mark.regression
def test_commits_of_the_base_itself_are_checked(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.commit("Whatever was first", at="2026-11-29T23:59:59Z")
    wrong = repository.commit("Fixed it")

    assert main([], repository.folder) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{wrong} 'Fixed it': the subject has no area: {FORM}",
        "1 new commit on main since 2026-11-30, 1 problem in their messages",
    ]


def test_merge_is_left_out_and_what_it_brings_is_checked(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("first")
    repository.git("switch", "--quiet", "--create", "side")
    wrong = repository.commit("Fixed it")
    repository.git("switch", "--quiet", "--create", "topic", "main")
    repository.commit("agent: show rails")
    repository.git("merge", "--quiet", "--no-edit", "side")

    assert main([], repository.folder) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{wrong} 'Fixed it': the subject has no area: {FORM}",
        "2 new commits since main, 1 problem in their messages",
    ]


def test_origin_is_the_base_before_the_local_branch(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.commit("first")
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    repository.commit("Fixed it")
    assert main([], repository.folder) == 1
    assert "1 new commit since origin/main, 1 problem" in capsys.readouterr().out


def test_without_a_base_it_says_so_and_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], tmp_path) == 0
    said = capsys.readouterr().out
    assert said == "Commit messages are not checked: there is no origin/main or main to compare with\n"

    shallow = Repository(tmp_path)
    shallow.commit("Fixed it")
    shallow.git("branch", "--move", "pull")
    assert main(["origin/release"], tmp_path) == 0
    said = capsys.readouterr().out
    assert said == "Commit messages are not checked: there is no origin/release to compare with\n"


def test_more_than_one_base_is_a_usage_error() -> None:
    assert main(["a", "b"]) == 2
