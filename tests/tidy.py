"""What the tidy test counts and looks for: each check takes text or a tree and lists problems."""

import ast
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "holdfast" / "dashboard"
# Written by Postgres, for reading.
SCHEMA = ROOT / "holdfast" / "store" / "schema.sql"

COLUMNS_MAX = {".py": 100, ".sql": 120}
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
COMMENT_LINES_MAX = 6
PUBLIC_METHODS_MAX = 12
POSITIONAL_MAX = 3

BANNED_WORDS = frozenset(
    {"manager", "helper", "util", "common", "base", "impl", "info", "data"}
    | {"managers", "helpers", "utils"}
)
BANNED_VERBS = frozenset({"handle", "process", "manage", "do"})
# The specification's own name for a field of the backoff.
ALLOWED_NAMES = frozenset({"base", "data_received"})

_COMMENT = {".py": "#", ".sql": "--"}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TO_DO = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!.*(?:#|issue )\d+)")
_MACHINE_PATH = re.compile(r"(?<![\w.:])/(?:home|work|Users)/\w")
# A state compared with a number, set to one, or one by default.
_BARE_STATE = re.compile(
    r"state(?:_before)?(?:::\w+)?\)?\s+(?:=|<>|[<>]=?|(?:not\s+)?in\s+\([^()]*?|(?:not\s+)?between"
    r"|is\s+(?:not\s+)?distinct\s+from|when)\s*\(?\b\d"
    r"|case\s+[\w.]*state\s(?:(?!\bend\b)[^;])*?\bwhen\s+\d+\s+then"
    r"|state\s+smallint[^,]*default\s+\d|coalesce\([\w.]*state,\s*\d"
)
_REGISTRY = re.compile(r"https?://\S*(?:pythonhosted|pypi|npmjs|artifactory|nexus|/simple\b)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_files(*suffixes: str, under: str = "") -> list[Path]:
    """List the files that belong to the project, without what tools leave behind."""
    return [
        path
        for path in _list_all()
        if path.is_relative_to(ROOT / under) and (not suffixes or path.suffix in suffixes)
    ]


@cache
def _list_all() -> list[Path]:
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if name not in ("__pycache__", "node_modules")
            and (name[0] != "." or name == ".ci")
            and Path(folder, name) != BUILT
        ]
        found += [path for name in names if (path := Path(folder, name)).is_file()]
    return sorted(found)


def find_long_lines(text: str, suffix: str) -> list[str]:
    """Find lines wider than their kind of file allows."""
    most = COLUMNS_MAX[suffix]
    return [
        f"line {number} has {len(line)} columns, more than {most}"
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > most
    ]


def find_long_file(text: str) -> list[str]:
    """Find a file with too many lines."""
    count = len(text.splitlines())
    return [f"has {count} lines, more than {FILE_LINES_MAX}"] if count > FILE_LINES_MAX else []


def find_long_comments(text: str, suffix: str) -> list[str]:
    """Find comments that go on for too many lines."""
    problems = []
    length = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip().startswith(_COMMENT[suffix]):
            length += 1
            continue
        if length > COMMENT_LINES_MAX:
            problems.append(f"the comment before line {number} has {length} lines")
        length = 0
    return problems


@cache
def walk(tree: ast.AST) -> tuple[ast.AST, ...]:
    """List all that is in a tree, once for all checks."""
    return tuple(ast.walk(tree))


def functions_of(tree: ast.AST) -> Iterator[Function]:
    """Walk over every function and method."""
    for node in walk(tree):
        if isinstance(node, Function):
            yield node


def find_long_functions(tree: ast.AST) -> list[str]:
    """Find functions with too many lines."""
    return [
        f"{function.name} has {length} lines, more than {FUNCTION_LINES_MAX}"
        for function in functions_of(tree)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    ]


def find_large_classes(tree: ast.AST) -> list[str]:
    """Find classes with too many public methods."""
    problems = []
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [item.name for item in node.body if isinstance(item, Function)]
            count = sum(not name.startswith("_") for name in methods)
            if count > PUBLIC_METHODS_MAX:
                problems.append(f"{node.name} has {count} public methods")
    return problems


def find_long_signatures(tree: ast.AST) -> list[str]:
    """Find functions that take more than a few arguments by position."""
    methods = {
        id(item)
        for node in walk(tree)
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, Function)
        and not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in item.decorator_list)
    }
    problems = []
    for function in functions_of(tree):
        count = len(function.args.posonlyargs) + len(function.args.args)
        count -= id(function) in methods
        if count > POSITIONAL_MAX:
            problems.append(
                f"{function.name} takes {count} arguments by position; make those after the "
                "third keyword-only"
            )
    return problems


def find_working_asserts(tree: ast.AST) -> list[str]:
    """Find asserts that do something: `python -O` would leave it undone."""
    return [
        f"line {node.lineno} does something within an assert; do it before"
        for node in walk(tree)
        if isinstance(node, ast.Assert)
        and any(isinstance(part, ast.Await | ast.NamedExpr) for part in ast.walk(node.test))
    ]


def words_of(name: str) -> list[str]:
    """Split a name in snake_case or CamelCase into its words."""
    return [word.lower() for word in _WORDS.findall(name)]


def names_of(tree: ast.AST) -> Iterator[str]:
    """Walk over every name that a file gives to something."""
    for node in walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(asname=str(name)):
                yield name


def find_banned_names(tree: ast.AST) -> list[str]:
    """Find names with words that say nothing, and functions whose verb says nothing."""
    problems = set()
    for name in set(names_of(tree)) - ALLOWED_NAMES:
        for word in BANNED_WORDS.intersection(words_of(name)):
            problems.add(f"{name}: {word!r} says nothing")
    for function in functions_of(tree):
        if words_of(function.name)[:1] and words_of(function.name)[0] in BANNED_VERBS:
            problems.add(f"{function.name}: {words_of(function.name)[0]!r} says nothing")
    return sorted(problems)


def find_banned_file_name(path: Path) -> list[str]:
    """Find a file whose name says nothing."""
    return [f"{word!r} says nothing" for word in sorted(BANNED_WORDS & set(words_of(path.stem)))]


def find_to_dos(text: str) -> list[str]:
    """Find notes to oneself that no issue keeps."""
    lines = enumerate(text.splitlines(), 1)
    return [f"line {number}: {line.strip()}" for number, line in lines if _TO_DO.search(line)]


def find_places(text: str) -> list[str]:
    """Find folders of one machine and addresses of package registries."""
    return [
        f"line {number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if _MACHINE_PATH.search(line) or _REGISTRY.search(line)
    ]


def test_file_of(module: Path) -> Path:
    """Say where the tests of a module are: `rules/retry.py` has `tests/rules/test_retry.py`."""
    return Path("tests", *module.parts[1:-1], f"test_{module.name}")


def imported_modules(tree: ast.AST) -> set[str]:
    """List the dotted names that a file imports, or names in its texts."""
    found = set()
    for node in walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found |= {module} | {f"{module}.{alias.name}" for alias in names}
            case ast.Constant(value=str(text)) if re.fullmatch(r"\w+(\.\w+)+(:\w+)?", text):
                found.add(text.partition(":")[0])
    return found


def find_foreign_imports(tree: ast.AST, package: str) -> list[str]:
    """Find imports of anything but the standard library and one package."""
    found = []
    for node in walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.ImportFrom():
                modules = ["."]
            case _:
                continue
        found += [
            f"line {node.lineno}: imports {name}"
            for name in modules
            if name.partition(".")[0] not in sys.stdlib_module_names
            and not f"{name}.".startswith(f"{package}.")
        ]
    return found


def find_bare_states(sql: str) -> list[str]:
    """Find states that stand in SQL by number; `{FAILED}` says which one is meant."""
    code = re.sub("--.*", "", sql)
    return [
        f"line {code.count(chr(10), 0, match.start()) + 1}: {' '.join(match[0].split())}"
        for match in _BARE_STATE.finditer(code)
    ]


def find_unused_statements(sql: str, sources: list[str]) -> list[str]:
    """Find named statements that no source speaks of."""
    names = re.findall(r"^-- name: (\w+)$", sql, re.MULTILINE)
    spoken = {name for source in sources for name in re.findall(r"[\"'](\w+)[\"']", source)}
    return [f"nobody calls {name}" for name in names if name not in spoken]
