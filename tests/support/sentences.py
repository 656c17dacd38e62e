"""A test build of the product in which each sentence is a code, so that what decides by a sentence decides otherwise.

tools/docgen/sentences.py says what a sentence is. It becomes the place where it is written, as
`<placement.verdict:120:15>`, with the values in it behind that.
What is left as it is written, and why:

- docstrings and annotations: nobody reads them at run time;
- keys of a dictionary, cases of a `match`, arguments of `re` and of comparisons (`==`, `in`, `startswith`, ...): a text
  that other text is compared with is what others are known to say (Kueue's conditions, the kernel's files). As all that
  the product says is a code, none of its own sentences is ever equal to one;
- members of an enumeration, and of a `Literal`: they are codes;
- what is compared with a constant by its name: it is the same one whatever its words are;
- constants whose words are taken one by one (`"a b c".split()`): they are lists;
- the simulator: it plays the driver, the kernel and the API server, whose words are input.
"""

import ast
import builtins
import importlib.machinery
import re
import string
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any

from tests.support.paths import ROOT
from tools.docgen.sentences import COMPARING_METHODS, filled_in, is_sentence

CODE = re.compile(r"<[\w.]+:\d+:\d+>")
_PRODUCT = "toposcope."
_OTHERS = ("toposcope.simulator",)
_SAYING = {"format", "join"}
"""Methods of a constant that make a sentence of it."""
_EQUALITY = (ast.Eq, ast.NotEq)
_MEMBERSHIP = (ast.In, ast.NotIn)

_FIELD = "Value"
_PERCENT = re.compile(r"%(?:\(\w+\))?[-#0 +]*\d*(?:\.\d+)?[sdrfxi]")


def _literals() -> frozenset[str]:
    """The members of all `Literal` types of the product."""
    literals: set[str] = set()
    for file in (ROOT / "toposcope").rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        for members in re.findall(r"Literal\[([^\]]*)\]", source):
            literals.update(re.findall(r'"([^"]*)"', members))
    return frozenset(literals)


_LITERALS = _literals()
_written: dict[str, str] = {}
"""The sentences that are constants, by their codes."""


def as_written(value: Any) -> Any:
    """What a code, or each of several codes, stands for; other values as they are."""
    if isinstance(value, str):
        return _written.get(value, value)
    collection = type(value)
    if collection in (tuple, list, set, frozenset) and any(isinstance(part, str) for part in value):
        return collection(as_written(part) for part in value)
    return value


def as_looked_for(value: Any, within: Any) -> Any:
    """What is looked for in a text, by what its code stands for; in a collection as it is."""
    return as_written(value) if isinstance(within, str) else value


builtins.__as_looked_for__ = as_looked_for  # type: ignore[attr-defined]
builtins.__as_written__ = as_written  # type: ignore[attr-defined]  # what coded modules call


def _fields(text: str) -> list[str]:
    """The places of a template that `format` or `%` fill in."""
    fields = _PERCENT.findall(text)
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        return fields
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        field = name
        if conversion:
            field += f"!{conversion}"
        if spec:
            field += f":{spec}"
        fields.append("{" + field + "}")
    return fields


class _Coding(ast.NodeTransformer):
    """Replaces the sentences of a module by their codes."""

    def __init__(self, module: str) -> None:
        self._module = module

    def _code(self, node: ast.AST) -> str:
        module = self._module.removeprefix(_PRODUCT)
        return f"<{module}:{node.lineno}:{node.col_offset}>"  # type: ignore[attr-defined]

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        text = node.value
        if not isinstance(text, str) or text in _LITERALS:
            return node
        if not is_sentence(filled_in(text)):
            return node
        code = "|".join([self._code(node), *_fields(text)])
        _written[code] = text
        return ast.copy_location(ast.Constant(code), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        with_words = ""
        for part in node.values:
            with_words += str(part.value) if isinstance(part, ast.Constant) else _FIELD
        if not is_sentence(with_words):
            return self.generic_visit(node)
        parts: list[ast.expr] = [ast.Constant(self._code(node))]
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                parts += [ast.Constant("|"), self.visit(part)]
        return ast.copy_location(ast.JoinedStr(parts), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        returns = node.returns
        node.returns = None
        self.generic_visit(node)
        node.returns = returns
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id.endswith("Enum"):
                return node
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        node.values = [self.visit(value) for value in node.values]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        operators = (*_EQUALITY, *_MEMBERSHIP)
        if not any(isinstance(op, operators) for op in node.ops):
            return self.generic_visit(node)

        first = node.ops[0]
        sides = [node.left, *node.comparators]
        compared = self._all_compared(sides)
        is_single_membership = isinstance(first, _MEMBERSHIP) and len(node.ops) == 1
        if _names_a_constant(first, sides):
            # It is the same constant whatever its words are.
            compared = [_call("__as_written__", side) for side in compared]
        elif is_single_membership and isinstance(compared[0], ast.Name):
            compared[0] = _call("__as_looked_for__", *compared)
        node.left, *node.comparators = compared
        return node

    def _all_compared(self, nodes: Sequence[ast.expr], *, is_sought: bool = False) -> list[ast.expr]:
        return [self._compared(node, is_sought=is_sought) for node in nodes]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute):
            return self._method_call(node, node.func)
        if _name_of(node.func) == "cast":
            type_, value = node.args
            node.args = [type_, self.visit(value)]
            return node
        return self.generic_visit(node)

    def _method_call(self, node: ast.Call, method: ast.Attribute) -> ast.AST:
        is_constant = isinstance(method.value, ast.Constant)
        if isinstance(method.value, ast.Name) and method.value.id == "re":
            pattern, *others = node.args
            node.args = [self._compared(pattern, is_sought=True)]
            node.args += map(self.visit, others)
            return node
        if method.attr in COMPARING_METHODS:
            node.args = self._all_compared(node.args, is_sought=True)
            if not is_constant:
                method.value = self.visit(method.value)
            return node
        if is_constant and method.attr not in _SAYING:
            node.args = [self.visit(argument) for argument in node.args]
            return node
        return self.generic_visit(node)

    def _compared(self, node: ast.expr, *, is_sought: bool = False) -> ast.expr:
        """What others' text is compared with: literals as they are, and constants by what their codes stand for.

        What `is_sought` in a text is that by any name.
        """
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            return node
        if isinstance(node, (ast.Tuple, ast.Set, ast.List)):
            node.elts = self._all_compared(node.elts, is_sought=is_sought)
            return node
        if isinstance(node, ast.BinOp):
            node.left = self._compared(node.left, is_sought=is_sought)
            node.right = self._compared(node.right, is_sought=is_sought)
            return node
        visited: ast.expr = self.visit(node)
        if isinstance(visited, ast.Call) and is_sought:
            visited.args = self._all_compared(visited.args, is_sought=is_sought)
        name = _name_of(node)
        if name and (is_sought or name.isupper()):
            return _call("__as_written__", visited)
        return visited


def _name_of(node: ast.expr) -> str:
    """The name of a variable or attribute; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def _names_a_constant(operator: ast.cmpop, sides: Sequence[ast.expr]) -> bool:
    """Whether something is compared with a constant by its name, or looked for in one."""
    if isinstance(operator, _EQUALITY):
        return any(_name_of(side).isupper() for side in sides)
    if not isinstance(operator, _MEMBERSHIP):
        return False
    within = _name_of(sides[1])
    return within.isupper()


def _call(function: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), list(arguments), [])


def coded(source: str, module: str, path: str) -> CodeType:
    """A module with codes for its sentences."""
    tree = _Coding(module).visit(ast.parse(source, path))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return coded(self.get_data(path).decode(), fullname, path)


class _Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_PRODUCT) or fullname.startswith(_OTHERS):
            return None
        spec = super().find_spec(fullname, path, target)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def install() -> None:
    """Have the product's modules imported with codes for their sentences, from now on in this process."""
    early = [name for name in sys.modules if name.startswith(_PRODUCT)]
    assert not early, f"imported before: {early}"
    sys.meta_path.insert(0, _Finder)


def blanked(value: Any) -> Any:
    """A document without its sentences: a text of several words, or with a code in it, is only that."""
    if isinstance(value, str):
        is_text = " " in value or CODE.search(value)
        return "..." if is_text else value
    if isinstance(value, dict):
        return _blanked_fields(value)
    if isinstance(value, (list, tuple)):
        return [blanked(part) for part in value]
    return value


def _blanked_fields(document: dict[Any, Any]) -> dict[Any, Any]:
    blanked_fields = {}
    below_sentences = []
    for key, part in document.items():
        if blanked(key) == key:
            blanked_fields[key] = blanked(part)
        else:
            below_sentences.append(blanked(part))
    if below_sentences:
        blanked_fields["..."] = sorted(below_sentences, key=repr)
    return blanked_fields


def differences(plain: Any, coded_value: Any, at: str = "") -> Iterator[str]:
    """Where two documents are not alike."""
    if isinstance(plain, dict) and isinstance(coded_value, dict):
        keys = plain.keys() | coded_value.keys()
        for key in sorted(keys):
            yield from differences(plain.get(key), coded_value.get(key), f"{at}/{key}")
        return
    are_lists = isinstance(plain, list) and isinstance(coded_value, list)
    if are_lists and len(plain) == len(coded_value):
        pairs = zip(plain, coded_value, strict=True)
        for number, (plain_part, other_part) in enumerate(pairs):
            yield from differences(plain_part, other_part, f"{at}/{number}")
        return
    if plain != coded_value:
        yield f"{at}: {plain!r}, with codes {coded_value!r}"
