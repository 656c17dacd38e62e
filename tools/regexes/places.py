"""Every regular expression of a source tree and how it is applied, found without importing.

A pattern may be written where it is used, or be a constant of the module or of another one;
constants are put together from text, f-strings, `+`, `.join`, `re.escape` and the `.pattern` of
other constants.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.regexes.automaton import Mode

_MODES: Final = {
    "match": Mode.MATCH,
    "fullmatch": Mode.FULLMATCH,
    "search": Mode.SEARCH,
    "findall": Mode.SEARCH,
    "finditer": Mode.SEARCH,
    "split": Mode.SEARCH,
    "sub": Mode.SEARCH,
    "subn": Mode.SEARCH,
}
_ANY_WAY: Final = frozenset((Mode.SEARCH, Mode.FULLMATCH))
"""How a pattern counts that is handed on: the strictest of each kind."""
_UNUSED: Final = frozenset((Mode.MATCH,))
_MARK: Final = re.compile(r"# linear: (\S.*)")
_ESCAPED: Final = "escaped"
"""Stands for text that `re.escape` has escaped."""


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern in the source; `pattern` is None where it is not a constant."""

    path: str
    line: int
    pattern: str | bytes | None
    flags: int
    modes: frozenset[Mode]
    reason: str
    """Why the pattern is linear although the search says otherwise.

    The text is that of the comment `# linear: WHY` beside it.
    """
    source: str
    """The expression as it stands there."""


@dataclass
class _Module:
    name: str
    path: str
    tree: ast.Module
    reasons: Mapping[int, str]
    """By line."""
    comments: frozenset[int]
    """Lines with nothing but a comment."""
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Local name to module and name there."""
    used: dict[str, set[Mode]] = field(default_factory=dict)
    """How each name is applied; a name that is handed on is applied in any way."""
    functions: dict[str, str] = field(default_factory=dict)
    """Functions of `re` that the module imports by name."""


class _NotConstantError(Exception):
    """The value of an expression is known only when the program runs."""


def regexes(root: Path, package: str) -> list[Regex]:
    """The patterns of all modules below `root / package`, in the order of files and lines."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        relative = path.relative_to(root)
        parts = relative.with_suffix("").parts
        name = ".".join(parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = _module(name, str(relative), text)

    finder = _Finder(modules)
    patterns: list[Regex] = []
    for module in modules.values():
        of_module = list(finder.of(module))
        of_module.sort(key=lambda regex: regex.line)
        patterns += of_module
    return patterns


def _module(name: str, path: str, text: str) -> _Module:
    tree = ast.parse(text)
    module = _Module(name, path, tree, *_comments(text))
    for statement in tree.body:
        _collect(module, statement)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            _note_imports(module, node.module, node.names)
    _Uses(module.used).visit(tree)
    return module


def _comments(text: str) -> tuple[dict[int, str], frozenset[int]]:
    """Reasons by the line of their mark, and lines that are nothing but a comment."""
    reasons = {}
    alone = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start
        mark = _MARK.match(token.string)
        if mark:
            reasons[line] = mark[1]
        if not token.line[:column].strip():
            alone.add(line)
    return reasons, frozenset(alone)


def _note_imports(module: _Module, source: str, aliases: Sequence[ast.alias]) -> None:
    for alias in aliases:
        local = alias.asname or alias.name
        module.imported[local] = (source, alias.name)
        if source == "re":
            module.functions[local] = alias.name


def _collect(module: _Module, node: ast.stmt) -> None:
    """Note the constant that a statement of the module defines."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            module.constants[name] = value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            module.constants[name] = value


class _Uses(ast.NodeVisitor):
    """How each name is applied."""

    def __init__(self, used: dict[str, set[Mode]]) -> None:
        self._used = used

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.value, ast.Name):
            self.generic_visit(node)
            return
        modes = self._used.setdefault(node.value.id, set())
        if mode := _MODES.get(node.attr):
            modes.add(mode)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._used.setdefault(node.id, set()).update(_ANY_WAY)


class _Finder:
    def __init__(self, modules: Mapping[str, _Module]) -> None:
        self._modules = modules

    def of(self, module: _Module) -> Iterator[Regex]:
        """The patterns that a module has compiled or applies."""
        targets = {id(value): name for name, value in _assigned(module.tree)}
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            name = _function(module, node)
            if name:
                yield self._regex(module, node, name, targets.get(id(node)))

    def _modes_of(self, module: _Module, name: str, target: str | None) -> frozenset[Mode]:
        if name in _MODES:
            return frozenset((_MODES[name],))
        return self._modes(module, target)

    def _regex(self, module: _Module, call: ast.Call, name: str, target: str | None) -> Regex:
        arguments = {word.arg: word.value for word in call.keywords}
        pattern = call.args[0] if call.args else arguments["pattern"]
        flags = arguments.get("flags")
        if flags is None and name == "compile" and len(call.args) > 1:
            flags = call.args[1]
        try:
            value = self._value(module, pattern)
            number = _flags(flags)
        except _NotConstantError:
            value = None
            number = 0
        return Regex(
            path=module.path,
            line=call.lineno,
            pattern=value,
            flags=number,
            modes=self._modes_of(module, name, target),
            reason=_reason(module, call),
            source=ast.unparse(pattern),
        )

    def _modes(self, module: _Module, target: str | None) -> frozenset[Mode]:
        """How the compiled pattern of this name is applied, here and where it is imported."""
        if target is None:
            return _ANY_WAY
        modes = set(module.used.get(target, ()))
        for importer in self._modules.values():
            for local, origin in importer.imported.items():
                if origin == (module.name, target):
                    modes |= importer.used.get(local, set())
        return frozenset(modes) or _UNUSED

    def _value(self, module: _Module, node: ast.expr) -> Any:
        """The text that an expression stands for. Raises _NotConstantError."""
        match node:
            case ast.Constant(str() | bytes() as text):
                value: Any = text
            case ast.Name(name):
                value = self._named(module, name)
            case ast.BinOp(left, ast.Add(), right):
                value = self._value(module, left) + self._value(module, right)
            case ast.JoinedStr(parts):
                value = "".join(self._value(module, part) for part in parts)
            case ast.FormattedValue(inner) | ast.Attribute(inner, "pattern"):
                value = self._value(module, inner)
            case ast.Tuple(parts) | ast.List(parts):
                value = tuple(self._items(module, parts))
            case ast.Call():
                value = self._called(module, node)
            case _:
                raise _NotConstantError
        return value

    def _called(self, module: _Module, call: ast.Call) -> Any:
        match call:
            case ast.Call(ast.Attribute(separator, "join"), [parts]):
                return self._value(module, separator).join(self._value(module, parts))
            case ast.Call(ast.Attribute(ast.Name("re"), "compile"), [pattern, *_]):
                return self._value(module, pattern)
            case ast.Call(ast.Attribute(ast.Name("re"), "escape"), [_]):
                return _ESCAPED
        raise _NotConstantError

    def _items(self, module: _Module, parts: Iterable[ast.expr]) -> Iterator[Any]:
        for part in parts:
            if isinstance(part, ast.Starred):
                yield from self._value(module, part.value)
            else:
                yield self._value(module, part)

    def _named(self, module: _Module, name: str) -> Any:
        if name in module.constants:
            return self._value(module, module.constants[name])
        where, there = module.imported.get(name, ("", ""))
        if where in self._modules:
            return self._named(self._modules[where], there)
        raise _NotConstantError


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Every name that an expression is assigned to as it is."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.id, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _function(module: _Module, call: ast.Call) -> str:
    """The function of `re` that is called with a pattern; empty for other calls."""
    match call.func:
        case ast.Attribute(ast.Name("re"), name):
            pass
        case ast.Name(local) if local in module.functions:
            name = module.functions[local]
        case _:
            return ""
    return name if name in _MODES or name in ("compile", "Scanner", "template") else ""


def _flags(node: ast.expr | None) -> int:
    match node:
        case None:
            return 0
        case ast.BinOp(left, ast.BitOr(), right):
            return _flags(left) | _flags(right)
        case ast.Attribute(ast.Name("re"), name) if name in re.RegexFlag.__members__:
            return int(re.RegexFlag[name])
    raise _NotConstantError


def _reason(module: _Module, call: ast.Call) -> str:
    """The mark on one of the call's lines, or in the lines of comments above it."""
    last = call.end_lineno or call.lineno
    for line in range(call.lineno, last + 1):
        if line in module.reasons:
            return module.reasons[line]
    line = call.lineno - 1
    while line in module.comments:
        if line in module.reasons:
            return module.reasons[line]
        line -= 1
    return ""
