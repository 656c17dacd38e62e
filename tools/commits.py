"""Check the messages of new commits: those that are not on the base yet.

    python -m tools.commits [BASE]

A subject is `area: what it does`: one area in lower case, an imperative verb, at most 72
characters. A body is optional and follows a blank line. Merges are left out, because git words
them. The base is BASE, else origin/main, else main; where there is none, as in a shallow clone, it
says so and passes. Where the base itself is checked out, nothing is newer: all commits since
FIRST_DAY are checked.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.text import plural

MOST_CHARACTERS: Final = 72
BASES: Final = ("origin/main", "main")
FIRST_DAY: Final = "2026-11-30T00:00:00Z"
"""Messages that were committed before are as they were."""

_SUBJECT: Final = re.compile(r"(?P<area>[a-z0-9][a-z0-9._/-]*): (?P<what>\S.*)")
_FORM: Final = "write it as 'area: what it does', as in 'kueue: retry a refused write after 30 s'"
_OTHER_ENDINGS: Final = re.compile(r"(?:ing|ed|(?<!s)s)$")
"""Endings of a participle, of the past, and of the third person."""
_VERBS: Final = re.compile(
    "alias|bias|bleed|bring|embed|exceed|feed|focus|need|ping|proceed|ring|seed|shed|speed|string"
)
"""Imperatives that end like another form."""
_NO_VERBS: Final = re.compile(
    "a|all|an|better|both|each|every|few|less|many|minor|more|new|no|one|other|several|some|the|"
    "these|this|those|two"
)


class GitError(ToposcopeError):
    """Git is not installed, this is no repository, or it lacks what was asked for."""


@dataclass(frozen=True)
class Commit:
    """A commit and its whole message."""

    name: str
    """Its abbreviated hash."""
    message: str

    @property
    def subject(self) -> str:
        """The first line."""
        return self.message.partition("\n")[0]


def main(arguments: Sequence[str], repository: Path | None = None) -> int:
    """Print what is wrong with the messages of new commits; 1 if anything is."""
    if len(arguments) > 1:
        print("usage: python -m tools.commits [BASE]", file=sys.stderr)
        return 2
    folder = repository or Path.cwd()
    base = _first_known(folder, arguments or BASES)
    if base is None:
        candidates = " or ".join(arguments or BASES)
        print(f"Commit messages are not checked: there is no {candidates} to compare with")
        return 0

    if not arguments and _is_checked_out(folder, base):
        commits = commits_of(folder, base)
        since = f"on {base} since {FIRST_DAY[:10]}"
    else:
        commits = commits_of(folder, f"{base}..")
        since = f"since {base}"
    problems = list(_problems(commits))
    for line in problems:
        print(line)
    new = f"{len(commits)} new {plural(len(commits), 'commit')} {since}"
    wrong = f"{len(problems)} {plural(len(problems), 'problem')}"
    print(f"{new}, {wrong} in their messages")
    return 1 if problems else 0


def _problems(commits: Sequence[Commit]) -> Iterator[str]:
    for commit in commits:
        for problem in problems_of(commit.message):
            yield f"{commit.name} {commit.subject!r}: {problem}"


def problems_of(message: str) -> Iterator[str]:
    """What is wrong with the message of a commit, each with its fix."""
    subject, *body = message.rstrip("\n").split("\n")
    if len(subject) > MOST_CHARACTERS:
        yield (
            f"the subject has {len(subject)} characters: write at most {MOST_CHARACTERS} and put "
            "the reason into the body"
        )
    if body and body[0]:
        yield "the line after the subject is not blank: put a blank line before the body"

    match = _SUBJECT.fullmatch(subject)
    if match is None:
        yield f"the subject has no area: {_FORM}"
        return
    first = match["what"].split()[0]
    if not is_imperative(first):
        yield f"{first!r} is not an imperative verb in lower case: {_FORM}"
    if match["what"].endswith("."):
        yield "the subject ends with a period: remove it"


def is_imperative(word: str) -> bool:
    """Whether a word can be an imperative, as far as its form tells."""
    if not word.isalpha() or not word.islower():
        return False
    if _VERBS.fullmatch(word):
        return True
    return not _NO_VERBS.fullmatch(word) and not _OTHER_ENDINGS.search(word)


def commits_of(repository: Path, revisions: str) -> list[Commit]:
    """The commits since FIRST_DAY in a range as `git log` takes it, the oldest first, no merges."""
    which = ("--no-merges", f"--since-as-filter={FIRST_DAY}", revisions)
    log = _git(repository, "log", "-z", "--reverse", "--format=%h%n%B", *which)
    commits = []
    for entry in log.split("\0"):
        name, _, message = entry.partition("\n")
        if name:
            commits.append(Commit(name, message))
    return commits


def _first_known(repository: Path, names: Sequence[str]) -> str | None:
    """The first of these names that git knows as a commit."""
    for name in names:
        try:
            _git(repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except GitError:
            continue
        return name
    return None


def _is_checked_out(repository: Path, name: str) -> bool:
    """Whether HEAD is this commit."""
    commit = _git(repository, "rev-parse", f"{name}^{{commit}}")
    return commit == _git(repository, "rev-parse", "HEAD")


def _git(repository: Path, *arguments: str) -> str:
    """What git prints. Raises GitError."""
    command = ["git", "-C", str(repository), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise GitError(str(error)) from error
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
