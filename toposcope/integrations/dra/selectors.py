"""CEL selectors of devices, as far as they can be evaluated exactly.

They may compare attributes and use `&&`, `||` and `!`. Any other expression, and any CEL error such
as a missing attribute, evaluates to `None`. As in CEL, `false && error` is false and `true ||
error` is true. Brackets within more than 32 others, and expressions longer than an API server
takes, are `None` too.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

from toposcope.errors import ToposcopeError
from toposcope.integrations.dra.devices import DraDevice, Version

_TOKEN: Final = re.compile(
    r"""\s+|"[^"\\\n]*"|'[^'\\\n]*'"""
    r"|&&|\|\||[=!]=|[!()\[\],.]"
    r"|[0-9]+\b(?![.\w])|[A-Za-z_][A-Za-z_0-9]*",
    re.ASCII,
)
_PYTHON: Final = {"&&": "and", "||": "or", "!": "~", "true": "True", "false": "False"}
_MAX_CHARACTERS: Final = 10 << 10
"""The longest expression, in characters, that the API server accepts (resource.k8s.io,
CELSelectorExpressionMaxLength).
"""
_MAX_BRACKET_DEPTH: Final = 32
_NOT: Final = "!"
_OPENING: Final = ("(", "[")
_CLOSING: Final = (")", "]")
_FOREIGN: Final = frozenset(
    {"and", "or", "not", "is", "if", "else", "lambda", "for", "await", "True", "False", "None"}
)
"""Words with a meaning in Python but not in CEL."""


class _UndecidedError(ToposcopeError):
    """An error in CEL, or an unsupported expression."""


def matches(expression: str, device: DraDevice) -> bool | None:
    """Whether the selector matches the device; None for a CEL error or if unknown."""
    tree = _parsed(expression)
    if tree is None or any(isinstance(value, tuple) for value in device.attributes.values()):
        return None
    try:
        result = _value(tree, device)
    except _UndecidedError:
        return None
    return result if isinstance(result, bool) else None


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> ast.expr | None:
    """The expression as a Python tree; None if it is unsupported.

    Python's precedences are CEL's once `!` is an operator that binds.
    """
    if len(expression) > _MAX_CHARACTERS:
        return None
    tokens = _tokens(expression)
    if tokens is None or _depth(tokens) > _MAX_BRACKET_DEPTH:
        return None

    words = [_PYTHON.get(token, token) for token in _folded(tokens)]
    try:
        return ast.parse(" ".join(words), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        return None


def _tokens(expression: str) -> list[str] | None:
    """The tokens without the space between them; None if one is unsupported."""
    tokens = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            return None
        token = match[0]
        if token in _FOREIGN:
            return None
        if not token.isspace():
            tokens.append(token)
        at = match.end()

    return tokens


def _depth(tokens: Iterable[str]) -> int:
    """The largest depth of brackets."""
    deepest = depth = 0
    for token in tokens:
        if token in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif token in _CLOSING:
            depth -= 1
    return deepest


def _folded(tokens: Iterable[str]) -> Iterator[str]:
    """The tokens, with each run of `!` shortened to one or two.

    `!!!a` is `!a`, and `!!a` is an error if `a` is not a boolean.
    """
    for token, row in groupby(tokens):
        words = list(row)
        if token == _NOT:
            yield from words[: 2 - len(words) % 2]
        else:
            yield from words


def _value(tree: ast.expr, device: DraDevice) -> Any:
    value: Any = None
    match tree:
        case ast.BoolOp(op, parts):
            value = _logical(parts, device, decisive=isinstance(op, ast.Or))
        case ast.UnaryOp(ast.Invert(), part):
            value = not _boolean(part, device)
        case ast.Compare(left, [op], [right]):
            value = _compared(left, op, right, device)
        case ast.Constant(str() | int() as constant):
            value = constant
        case ast.Attribute(ast.Name("device"), "driver"):
            value = device.driver
        case ast.Call(ast.Name("has"), [ast.Attribute() as attribute], []):
            value = _attribute(attribute, device) is not None
        case ast.Attribute() | ast.Subscript():
            value = _attribute(tree, device)

    if value is None:
        raise _UndecidedError
    return value


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr, device: DraDevice) -> bool:
    """`==`, `!=`, and `in` a list or the attributes of a domain."""
    match left, op, right:
        case ast.Constant(str() as name), ast.In(), ast.Subscript() as domain:
            return device.attribute(f"{_domain(domain)}/{name}") is not None
        case _, ast.In(), ast.List(parts):
            attribute = _value(left, device)
            values = [_value(part, device) for part in parts]
            return any(_equal(attribute, value) for value in values)
        case _, ast.Eq() | ast.NotEq(), _:
            equal = _equal(_value(left, device), _value(right, device))
            return equal == isinstance(op, ast.Eq)
    raise _UndecidedError


def _logical(parts: list[ast.expr], device: DraDevice, *, decisive: bool) -> bool:
    """`||` is decided by a part that is true, `&&` by one that is false."""
    undecided = False
    for part in parts:
        try:
            if _boolean(part, device) is decisive:
                return decisive
        except _UndecidedError:
            undecided = True

    if undecided:
        raise _UndecidedError
    return not decisive


def _boolean(part: ast.expr, device: DraDevice) -> bool:
    value = _value(part, device)
    if not isinstance(value, bool):
        raise _UndecidedError
    return value


def _equal(a: Any, b: Any) -> bool:
    """CEL's equality: values of different types differ. Undecided for a version and a text."""
    if isinstance(a, Version) or isinstance(b, Version):
        raise _UndecidedError
    return type(a) is type(b) and a == b


def _attribute(tree: ast.expr, device: DraDevice) -> Any:
    """The value of `device.attributes["domain"].name` or `["name"]`; None if missing."""
    match tree:
        case ast.Attribute(ast.Subscript() as domain, name) | ast.Subscript(
            ast.Subscript() as domain, ast.Constant(str() as name)
        ):
            return device.attribute(f"{_domain(domain)}/{name}")
    raise _UndecidedError


def _domain(tree: ast.Subscript) -> str:
    match tree:
        case ast.Subscript(
            ast.Attribute(ast.Name("device"), "attributes"), ast.Constant(str() as domain)
        ):
            return domain
    raise _UndecidedError
