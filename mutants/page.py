"""The page of planted bugs: what was tried last, and what turned red."""

import re
from collections.abc import Sequence
from pathlib import Path

from mutants.catalogue import MUTATIONS
from mutants.mutation import Mutation
from mutants.trial import Result

PAGE = "docs/mutants.md"
NAMED_MAX = 2  # of the tests that turned red; the others are counted

_HEAD = """\
# Planted bugs

`./run mutants` plants {count} bugs in the real code, one at a time, each in a copy of the checkout:
a lock left out, a budget that is not counted, an answer before its commit. Of each it is written
down which tests must see it, and it is seen whether they turn red, after they were green without
it. What nothing notices is a hole in the tests: it gets a test, or a reason why it cannot be seen.
The bugs are data, in `mutants/catalogue`; a text that is not found exactly once in its file fails
`tests/mutants/test_catalogue.py`, so none is lost when the code moves on. The protocol's models
have broken variants of their own ([decision 2](decisions/0002-protocol-model.md)).

As many are tried at once as there are cores, each with a Postgres of its own, whose files are a
copy of one that was made once, unless the bug is in how databases are made. Where one test must
see a bug, its first failure ends the trial.

This page is written by `./run mutants --page`; seconds are those of the run that wrote it.

| bug | what it would do | where | what turned red | seconds |
|---|---|---|---|---|
"""
_SURVIVORS = """
## Survivors

What changes nothing that anybody could see, and why.

| bug | why nothing notices |
|---|---|
"""
_NOT_TRIED = "not tried yet"
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| .* \| (.*) \| ([\d.]+) \|$", re.MULTILINE)


def read_found(page: str) -> dict[str, tuple[str, str]]:
    """Read from a page what turned red by each bug, and how long that took."""
    rows = _ROW.findall(page)
    return {name: (red, seconds) for name, red, seconds in rows if red != _NOT_TRIED}


def describe_red(names: Sequence[str]) -> str:
    """Name the first tests that turned red, and count the others."""
    if not names:
        return "nothing"
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(f"`{name}`" for name in names[:NAMED_MAX]) + more


def compose(mutations: Sequence[Mutation], found: dict[str, tuple[str, str]]) -> str:
    """Write the page of mutations, with what was found by those that were tried."""
    rows = []
    for mutation in mutations:
        red, seconds = found.get(mutation.name, (_NOT_TRIED, "0"))
        where = ", ".join(dict.fromkeys(f"`{edit.file}`" for edit in mutation.edits))
        rows.append(f"| `{mutation.name}` | {mutation.does} | {where} | {red} | {seconds} |\n")
    page = _HEAD.format(count=len(mutations)) + "".join(rows)
    survivors = [mutation for mutation in mutations if mutation.survives]
    if survivors:
        page += _SURVIVORS
        page += "".join(f"| `{each.name}` | {each.survives} |\n" for each in survivors)
    return page


def write_page(path: Path, results: Sequence[Result]) -> None:
    """Write the page anew; of bugs that were not tried this time, what it said stays."""
    found = read_found(path.read_text(encoding="utf-8")) if path.exists() else {}
    for result in results:
        found[result.mutation.name] = (describe_red(result.red), f"{result.seconds:.0f}")
    path.write_text(compose(MUTATIONS, found), encoding="utf-8")
