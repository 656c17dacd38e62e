"""Find functions that do too much in one place, which ruff does not see.

    python -m tools.density [FOLDER_OR_FILE...]

ruff's C901 counts statements alone. Here a function's paths are 1 plus one for each `if`, loop,
`except`, `case`, conditional expression, each `and` and `or`, and each `for` and `if` of a
comprehension; a function may have 10. A comprehension may neither have two loops nor hold another
one. Where a function needs more, the line of its `def` says why: `# dense: WHY`.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_PATHS: Final = 10
MARK: Final = "# dense:"
FOLDERS: Final = (Path("toposcope"), Path("tools"))

_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES: Final = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
    ast.IfExp,
    ast.comprehension,
)


@dataclass(frozen=True)
class Problem:
    """One function that is too dense."""

    path: Path
    line: int
    function: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.function} {self.message}"


def main(arguments: Sequence[str]) -> int:
    """Print the problems of the given folders and files, or of all; 1 if there are any."""
    chosen = [Path(argument) for argument in arguments] or FOLDERS
    problems = []
    for file in _modules(chosen):
        text = file.read_text()
        problems += problems_of(file, text)

    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _modules(paths: Sequence[Path]) -> list[Path]:
    """Every file among the paths, and every module of the folders among them."""
    modules = []
    for path in paths:
        if path.is_dir():
            modules += sorted(path.rglob("*.py"))
        else:
            modules.append(path)
    return modules


def problems_of(path: Path, text: str) -> list[Problem]:
    """Everything too dense in the text of one file."""
    lines = text.splitlines()
    problems = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, _FUNCTIONS):
            continue
        if MARK in _signature(node, lines):
            continue
        own_nodes = list(_own(node))
        for message in _messages(own_nodes):
            problem = Problem(path, node.lineno, node.name, message)
            problems.append(problem)
    return problems


def _messages(nodes: Sequence[ast.AST]) -> Iterator[str]:
    paths = paths_of(nodes)
    if paths > MOST_PATHS:
        yield f"has {paths} paths, more than {MOST_PATHS}: split it, or name steps of it"

    for node in nodes:
        if not isinstance(node, _COMPREHENSIONS):
            continue
        line = node.lineno
        if len(node.generators) > 1:
            yield f"has a comprehension of two loops on line {line}: write a loop"
        elif _holds_comprehension(node):
            yield f"has a comprehension in a comprehension on line {line}: name the inner one"


def paths_of(nodes: Sequence[ast.AST]) -> int:
    """How many paths lead through these nodes of one function."""
    paths = 1
    for node in nodes:
        if isinstance(node, _BRANCHES):
            paths += 1
        if isinstance(node, ast.comprehension):
            paths += len(node.ifs)
        if isinstance(node, ast.BoolOp):
            paths += len(node.values) - 1
    return paths


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions in it."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            pending.extend(ast.iter_child_nodes(node))


def _holds_comprehension(outer: ast.AST) -> bool:
    for node in ast.walk(outer):
        if node is not outer and isinstance(node, _COMPREHENSIONS):
            return True
    return False


def _signature(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: Sequence[str]) -> str:
    """The lines from `def` to where the body begins, with their comments."""
    first = function.lineno - 1
    body = function.body[0].lineno
    return "\n".join(lines[first:body])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
