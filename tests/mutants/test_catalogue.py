"""Every planted bug still fits the code: its text is there once, and its tests are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from mutants.catalogue import MUTATIONS
from mutants.mutation import Mutation, mutate

ROOT = Path(__file__).resolve().parents[2]


@cache
def list_tests(file: str) -> frozenset[str]:
    """List the tests of a file that run without being asked for."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not any("nightly" in ast.unparse(mark) for mark in node.decorator_list)
    )


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_planted_bug_fits_the_code_and_its_tests_are_there(mutation: Mutation) -> None:
    for path, text in mutate(mutation, ROOT).items():
        assert text != path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            ast.parse(text)
        else:
            assert path.suffix == ".sql"
            assert text.count("$$") % 2 == text.count("(") - text.count(")") == 0
    assert mutation.red
    for entry in mutation.red:
        file, _, name = entry.partition("::")
        assert name in list_tests(file), entry


def test_each_has_a_name_of_its_own_and_one_sentence() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names) >= 40
    for mutation in MUTATIONS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", mutation.name)
        assert mutation.does.endswith(".")
        assert "|" not in mutation.does + mutation.survives
