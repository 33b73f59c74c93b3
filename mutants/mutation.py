"""A planted bug is data: a piece of the real code, what it becomes, and the tests that must see."""

from dataclasses import dataclass
from pathlib import Path


class Misfit(Exception):
    """A mutation that does not fit the code any more."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One place in one file: text that stands there exactly once, and what replaces it."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug somebody could have written: what users would see, where it is, who must notice.

    Every entry of `red` is a test, or a file of tests, and in each of them something must fail.
    `survives` says why nothing can, of a mutation that is kept for the record.
    """

    name: str
    does: str
    edits: tuple[Edit, ...]
    red: tuple[str, ...]
    survives: str = ""

    @property
    def shapes_databases(self) -> bool:
        """Whether a database that the code makes is another one by it."""
        return any(
            edit.file.startswith(("holdfast/store/", "holdfast/embedded/"))
            and not edit.file.startswith("holdfast/store/sql/")
            for edit in self.edits
        )


def mutation(
    name: str, does: str, *edits: tuple[str, str, str], red: tuple[str, ...], survives: str = ""
) -> Mutation:
    """Write a mutation down; an edit is a file below `holdfast`, its text, the text after it."""
    places = tuple(Edit(f"holdfast/{file}", old, new) for file, old, new in edits)
    return Mutation(name, does, places, tuple(f"tests/{test}" for test in red), survives)


def mutate(mutation: Mutation, checkout: Path) -> dict[Path, str]:
    """Work out the files of a checkout as the mutation leaves them.

    Raises Misfit if one of its texts is not there exactly once.
    """
    changed: dict[Path, str] = {}
    for edit in mutation.edits:
        path = checkout / edit.file
        if not path.is_file():
            raise Misfit(f"{mutation.name}: there is no {edit.file}; name the file it is in now")
        text = changed[path] if path in changed else path.read_text(encoding="utf-8")
        count = text.count(edit.old)
        if count != 1:
            raise Misfit(
                f"{mutation.name}: {edit.old[:60]!r} is {count} times in {edit.file}; "
                "write down what stands there now, exactly once"
            )
        changed[path] = text.replace(edit.old, edit.new)
    return changed
