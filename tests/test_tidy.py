"""The numbers of the house style, kept by counting."""

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests import tidy
from tests.tidy import ROOT, list_files

# In one process: a file is read and parsed once.
pytestmark = pytest.mark.xdist_group("tidy")

TEXT_KINDS = (
    *(".py", ".sql", ".md", ".toml", ".lock", ".pml", ".sh", ".yml", ".yaml", ""),
    *(".ts", ".tsx", ".css", ".html", ".json", ".mjs", ".proto"),
)


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def assert_none(problems: list[str]) -> None:
    assert not problems, "\n" + "\n".join(problems)


def assert_tidy(paths: list[Path], check: Callable[[Path], list[str]]) -> None:
    """Run a check over files; each problem carries the name of its file."""
    assert paths, "a check that looks at nothing finds nothing"
    assert_none(
        [f"{path.relative_to(ROOT)}: {problem}" for path in paths for problem in check(path)]
    )


@cache
def parse(path: Path) -> ast.AST:
    return ast.parse(read(path))


def python() -> list[Path]:
    return list_files(".py")


def package() -> list[Path]:
    return list_files(".py", under="holdfast")


def modules() -> list[Path]:
    return [path for path in package() if path.name != "__init__.py"]


def code() -> list[Path]:
    return [path for path in list_files(".py", ".sql") if path != tidy.SCHEMA]


def test_lines_fit_the_screen() -> None:
    assert_tidy(code(), lambda path: tidy.find_long_lines(read(path), path.suffix))


def test_files_are_short() -> None:
    assert_tidy(code(), lambda path: tidy.find_long_file(read(path)))


def test_functions_are_short() -> None:
    assert_tidy(python(), lambda path: tidy.find_long_functions(parse(path)))


def test_comments_are_short() -> None:
    assert_tidy(code(), lambda path: tidy.find_long_comments(read(path), path.suffix))


def test_classes_are_small() -> None:
    assert_tidy(package(), lambda path: tidy.find_large_classes(parse(path)))


def test_more_than_three_arguments_are_given_by_name() -> None:
    assert_tidy(package(), lambda path: tidy.find_long_signatures(parse(path)))


def test_asserts_do_nothing() -> None:
    outside = [path for path in python() if path.relative_to(ROOT).parts[0] != "tests"]
    assert_tidy(outside, lambda path: tidy.find_working_asserts(parse(path)))


def test_names_say_something() -> None:
    assert_tidy(python(), lambda path: tidy.find_banned_names(parse(path)))


def test_file_names_say_something() -> None:
    assert_tidy(list_files(), tidy.find_banned_file_name)


def test_every_module_has_its_test_file() -> None:
    missing = [
        f"{path.relative_to(ROOT)} has no {wanted}"
        for path in modules()
        if not (ROOT / (wanted := tidy.test_file_of(path.relative_to(ROOT)))).exists()
    ]
    assert_none(missing)


def test_every_statement_has_a_caller() -> None:
    sources = [read(path) for path in package()]
    files = list_files(".sql", under="holdfast/store/sql")
    assert_tidy(files, lambda path: tidy.find_unused_statements(read(path), sources))


def test_states_stand_in_sql_by_name() -> None:
    files = [path for path in list_files(".sql", under="holdfast/store") if path != tidy.SCHEMA]
    assert_tidy(files, lambda path: tidy.find_bare_states(read(path)))


def test_every_file_of_statements_is_read() -> None:
    sources = "".join(read(path) for path in package())
    folder = ROOT / "holdfast/store/sql"
    names = [path.relative_to(folder).with_suffix("") for path in folder.rglob("*.sql")]
    assert_none([str(name) for name in names if f'load_statements("{name}")' not in sources])


def test_every_module_has_an_importer() -> None:
    """A test alone does not make a module needed; other modules, benchmarks or entry points do.

    The operations are the list of what Holdfast does: each is needed for its own sake.
    """
    needed = set()
    for path in python():
        if path.relative_to(ROOT).parts[0] != "tests":
            needed |= {(name, path) for name in tidy.imported_modules(parse(path))}
    scripts = read(ROOT / "pyproject.toml")
    unneeded = []
    for path in modules():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        is_imported = any(found == name and by != path for found, by in needed)
        is_operation = name.startswith("holdfast.operations.")
        if not is_imported and not is_operation and f'"{name}:' not in scripts:
            unneeded.append(name)
    assert_none(unneeded)


def test_programs_beside_a_worker_import_the_standard_library_and_each_other() -> None:
    assert_tidy(
        list_files(".py", under="holdfast/worker/processes"),
        lambda path: tidy.find_foreign_imports(parse(path), "holdfast.worker.processes"),
    )


def test_every_aid_of_the_tests_is_used() -> None:
    needed = set()
    for path in list_files(".py", under="tests"):
        needed |= tidy.imported_modules(parse(path))
    aids = [
        path
        for path in list_files(".py", under="tests")
        if not path.name.startswith("test_") and path.name not in ("__init__.py", "conftest.py")
    ]
    text = "".join(read(path) for path in list_files(".py", under="tests"))
    unused = [
        str(path.relative_to(ROOT))
        for path in aids
        if ".".join(path.relative_to(ROOT).with_suffix("").parts) not in needed
        and f"from .{path.stem} import" not in text
        and f'"{path.name}"' not in text
    ]
    assert_none(unused)


def test_notes_to_oneself_have_an_issue() -> None:
    assert_tidy(list_files(*TEXT_KINDS), lambda path: tidy.find_to_dos(read(path)))


def test_no_file_knows_a_machine_or_a_registry() -> None:
    assert_tidy(list_files(*TEXT_KINDS), lambda path: tidy.find_places(read(path)))


def test_the_lock_file_works_with_any_registry() -> None:
    assert "://" not in read(ROOT / "requirements.lock")
    assert not (ROOT / "uv.lock").exists()


# The checks themselves: each finds what it is for, and nothing in what is in order.

GOOD = '''
class Small:
    """A class."""

    def one(self, first, second, third, *, fourth): ...
    @staticmethod
    def two(first, second, third): ...

# A comment,
# and another line.
assert Small, "an assert"
def load_metadata(database, basement): ...
'''


@pytest.mark.parametrize(
    "check",
    [
        tidy.find_long_functions,
        tidy.find_large_classes,
        tidy.find_long_signatures,
        tidy.find_working_asserts,
        tidy.find_banned_names,
    ],
)
def test_what_is_in_order_is_left_alone(check: Callable[[ast.AST], list[str]]) -> None:
    assert check(ast.parse(GOOD)) == []


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (tidy.find_long_functions, "def long():\n" + "    x = 1\n" * 60),
        (tidy.find_long_functions, "async def long():\n" + "    x = 1\n" * 60),
        (tidy.find_long_functions, "class C:\n  def long(self):\n" + "    x = 1\n" * 60),
        (
            tidy.find_large_classes,
            "class C:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(13)),
        ),
        (tidy.find_long_signatures, "def f(a, b, c, d): ..."),
        (tidy.find_long_signatures, "def f(a, b, /, c, d=1): ..."),
        (tidy.find_long_signatures, "class C:\n    def f(self, a, b, c, d): ..."),
        (tidy.find_long_signatures, "class C:\n    @staticmethod\n    def f(a, b, c, d): ..."),
        (tidy.find_long_signatures, "def f():\n    async def g(a, b, c, d): ..."),
        (tidy.find_working_asserts, "async def f():\n    assert await g()"),
        (tidy.find_working_asserts, "async def f():\n    assert not (await g()).x, 1"),
        (tidy.find_working_asserts, "assert (x := f()) is not None"),
        (tidy.find_banned_names, "class JobManager: ..."),
        (tidy.find_banned_names, "class BaseStore: ..."),
        (tidy.find_banned_names, "def load_data(): ..."),
        (tidy.find_banned_names, "def load(job_info): ..."),
        (tidy.find_banned_names, "some_data = 1"),
        (tidy.find_banned_names, "self.data = 1"),
        (tidy.find_banned_names, "import json as json_helper"),
        (tidy.find_banned_names, "for data in []: ..."),
        (tidy.find_banned_names, "def handle_request(): ..."),
        (tidy.find_banned_names, "def _process(): ..."),
        (tidy.find_banned_names, "def do(): ..."),
        (tidy.find_banned_names, "async def manage_jobs(): ..."),
    ],
)
def test_what_is_out_of_order_is_found(check: Callable[[ast.AST], list[str]], source: str) -> None:
    assert len(check(ast.parse(source))) == 1


def test_limits_themselves_are_still_in_order() -> None:
    assert tidy.find_long_functions(ast.parse("def f():\n" + "    x = 1\n" * 59)) == []
    methods = "".join(f"    def m{n}(self): ...\n" for n in range(12))
    assert tidy.find_large_classes(ast.parse(f"class C:\n{methods}    def _n(self): ...")) == []
    assert tidy.find_long_lines("x" * 100, ".py") == tidy.find_long_lines("x" * 120, ".sql") == []
    assert tidy.find_long_file("x\n" * 400) == []
    assert tidy.find_long_comments("# x\n" * 6 + "x\n" + "# x\n" * 6, ".py") == []


def test_long_texts_are_found() -> None:
    assert len(tidy.find_long_lines("short\n" + "x" * 101, ".py")) == 1
    assert len(tidy.find_long_lines("x" * 121, ".sql")) == 1
    assert len(tidy.find_long_file("x\n" * 401)) == 1
    assert len(tidy.find_long_comments("    # x\n" * 7 + "x = 1", ".py")) == 1
    assert len(tidy.find_long_comments("-- x\n" * 7, ".sql")) == 1


@pytest.mark.parametrize("name", ["utils.py", "job_manager.py", "common.sql", "database_impl.py"])
def test_an_empty_file_name_is_found(name: str) -> None:
    assert tidy.find_banned_file_name(Path(name))
    assert not tidy.find_banned_file_name(Path("database.py"))


@pytest.mark.parametrize("halves", [("TO", "DO"), ("FIX", "ME"), ("XX", "X")])
def test_a_note_without_an_issue_is_found(halves: tuple[str, str]) -> None:
    word = "".join(halves)
    assert tidy.find_to_dos(f"x = 1  # {word}: later")
    assert not tidy.find_to_dos(f"x = 1  # {word} #12: later")
    assert not tidy.find_to_dos(f"x = 1  # {word} (issue 12): later")


@pytest.mark.parametrize("folder", ["home", "work", "Users"])
def test_a_folder_of_one_machine_is_found(folder: str) -> None:
    assert tidy.find_places(f'path = "/{folder}/me/x"')
    assert not tidy.find_places(f'url = "https://example.com/{folder}/me"')
    assert not tidy.find_places(f'path = "/{folder}"')


@pytest.mark.parametrize("host", ["files.{}hosted.org/packages", "{}-index.org/simple/x"])
def test_an_address_of_a_registry_is_found(host: str) -> None:
    assert tidy.find_places(f"x @ {'https'}://{host.format('python')}/x.whl")


def test_an_unused_statement_is_found() -> None:
    sql = "-- name: one\nselect 1;\n-- name: two\nselect 2;\n"
    assert tidy.find_unused_statements(sql, ['_JOBS["one"]']) == ["nobody calls two"]
    assert tidy.find_unused_statements(sql, ['_JOBS["one"]', "_JOBS['two']"]) == []


@pytest.mark.parametrize(
    "sql",
    [
        "where tasks.state = 9",
        "set state = 3, seq = 1",
        "where state <> 4",
        "where state_before > 3",
        "state in (2, 9)",
        "state not in ({ASSIGNED}, 3)",
        "state\n between 4 and 8",
        "tasks.state is distinct from 10",
        "case ended.state when 4 then null",
        "case ended.state when {SUCCEEDED} then null\n when 6 then 'x' end",
        "state smallint not null default 1,",
        "coalesce(kinds.state, 1)",
    ],
)
def test_a_state_by_number_is_found(sql: str) -> None:
    assert len(tidy.find_bare_states(sql)) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "where state = {ASSIGNED} and seq = 9",
        "state in ({LIVE}) and attempt in (1, 2)",
        "state between {PENDING} and {DEAD_LETTERED}",
        "where dataset_versions.state = 'open' limit 1",
        "where state = $1",
        "select 1 -- state = 9",
        "case state when {FAILED} then 1 end, case times when 0 then 2 end",
        "(moves)[old.state + 1]",
    ],
)
def test_a_state_by_name_is_left_alone(sql: str) -> None:
    assert tidy.find_bare_states(sql) == []


def test_imports_are_seen_in_every_form() -> None:
    source = 'import a.b\nfrom c.d import e\nrun("-m", "f.g")'
    assert {"a.b", "c.d", "c.d.e", "f.g"} <= tidy.imported_modules(ast.parse(source))


def test_a_modules_tests_are_where_it_is() -> None:
    assert tidy.test_file_of(Path("holdfast/rules/retry.py")) == Path("tests/rules/test_retry.py")
    assert tidy.test_file_of(Path("holdfast/errors.py")) == Path("tests/test_errors.py")


def test_foreign_imports_are_found_wherever_they_stand() -> None:
    fine = "import os.path\nfrom a.b import c\nimport a.b.c\n"
    assert tidy.find_foreign_imports(ast.parse(fine), "a.b") == []
    foreign = "import a\nfrom a import b\ndef f():\n    import msgspec\n    from . import x\n"
    assert len(tidy.find_foreign_imports(ast.parse(foreign), "a.b")) == 4
