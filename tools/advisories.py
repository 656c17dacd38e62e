"""`make audit`: known vulnerabilities of what the locks pin, as pip-audit knows them.

    python -m tools.advisories LOCK... -- PIP-AUDIT...

pip-audit decides where it asks: nothing here names an index. What it could not look up is listed: a
package that nobody looked up is not one without vulnerabilities. 1 where it found one; 0 where it
found none or could not ask.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_OPTIONS: Final = (
    "--disable-pip",
    "--require-hashes",
    "--progress-spinner",
    "off",
    "--format",
    "json",
)


@dataclass(frozen=True)
class Result:
    """What pip-audit found for one lock."""

    lock: str
    checked: int = 0
    vulnerable: list[str] = field(default_factory=list)
    """A line for each vulnerability."""
    skipped: list[str] = field(default_factory=list)
    """Packages that it could not look up."""
    failed: str = ""
    """Why it could look up nothing; empty when it answered."""

    def lines(self) -> list[str]:
        """The result as lines of text."""
        if self.failed:
            return [f"{self.lock}: not checked: {self.failed}"]
        lines = [
            f"{self.lock}: {self.checked} packages checked, {len(self.vulnerable)} vulnerabilities"
        ]
        lines += [f"  {line}" for line in self.vulnerable]
        if self.skipped:
            lines.append(
                "  not checked, because the index has no advisories for them: "
                f"{', '.join(self.skipped)}"
            )
        return lines


def result_of(lock: str, output: str, errors: str) -> Result:
    """What pip-audit's report says, or why there is none."""
    try:
        dependencies = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = errors.strip().splitlines()
        why = lines[-1] if lines else "pip-audit said nothing"
        return Result(lock, failed=why)

    skipped: list[str] = []
    vulnerable: list[str] = []
    for entry in dependencies:
        if "skip_reason" in entry:
            skipped.append(entry["name"])
        for advisory in entry.get("vulns", ()):
            sentence = _sentence(entry, advisory)
            vulnerable.append(sentence)

    return Result(
        lock,
        checked=len(dependencies) - len(skipped),
        vulnerable=vulnerable,
        skipped=skipped,
    )


def _sentence(entry: dict[str, Any], advisory: dict[str, Any]) -> str:
    package = f"{entry['name']} {entry['version']}"
    identifier = advisory["id"]
    versions = ", ".join(advisory["fix_versions"])
    if not versions:
        versions = "no version yet"
    return f"{package}: {identifier}, fixed in {versions}"


def audit(command: Sequence[str], lock: str) -> Result:
    """Run pip-audit on one lock."""
    # The Makefile gives the command.
    whole = [*command, *_OPTIONS, "-r", lock]
    done = subprocess.run(  # noqa: S603
        whole,
        capture_output=True,
        text=True,
        check=False,
    )
    return result_of(lock, done.stdout, done.stderr)


def main(arguments: Sequence[str]) -> int:
    """Audit each lock; 1 when a vulnerability is known."""
    split = list(arguments).index("--")
    locks = arguments[:split]
    command = arguments[split + 1 :]
    results = [audit(command, lock) for lock in locks]

    is_vulnerable = False
    is_checked = False
    for result in results:
        text = "\n".join(result.lines())
        print(text)  # noqa: T201 - the answer
        if result.vulnerable:
            is_vulnerable = True
        if result.checked:
            is_checked = True

    if not is_checked:
        print("audit: nothing was checked, because no index of advisories answered")  # noqa: T201 - the answer
    return 1 if is_vulnerable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
