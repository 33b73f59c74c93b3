"""The docs say what the code does: the diagram is the table's, and every name they use exists."""

import importlib
import re
from pathlib import Path

import pytest

from holdfast.model.work.states import TaskState
from holdfast.rules.lifecycle import EVENT_TYPES, RANK, mermaid

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LIFECYCLE = (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8")

_CODE = re.compile(r"`([^`\n]+)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w./-]+\.(?:py|sql|md|toml|pml)")
_DOTTED = re.compile(r"holdfast(?:\.\w+)+")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")

# Where a file may be that a page names in short.
FOLDERS = ("", "holdfast", "docs")


def spans(text: str) -> list[str]:
    """List what a page writes as code within its sentences."""
    return _CODE.findall(_FENCED.sub("", text))


def find_unknown_files(text: str) -> list[str]:
    """List the files a page names that do not exist."""
    names = [span for span in spans(text) if _FILE.fullmatch(span)]
    return [n for n in names if not any((ROOT / folder / n).exists() for folder in FOLDERS)]


def find_unknown_modules(text: str) -> list[str]:
    """List the modules, or things in modules, that a page names and that do not exist."""
    return [span for span in spans(text) if _DOTTED.fullmatch(span) and not resolves(span)]


def resolves(dotted: str) -> bool:
    """Tell whether a dotted name is a module, or something public in one."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if part.startswith("_") or not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def find_broken_links(text: str, folder: Path) -> list[str]:
    """List the links to files that do not exist."""
    links = _LINK.findall(_FENCED.sub("", text))
    return [link for link in links if "://" not in link and not (folder / link).exists()]


def test_the_diagram_is_the_one_that_the_table_gives() -> None:
    diagrams = re.findall(r"^```mermaid\n(.*?)\n```$", LIFECYCLE, re.MULTILINE | re.DOTALL)
    assert diagrams == [mermaid()]


def test_the_table_of_states_has_their_numbers_ranks_and_events() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| (\d+) \| (\d) \| (.*?) \|", LIFECYCLE, re.MULTILINE)
    assert {row[0] for row in rows} == {state.name for state in TaskState}
    assert len(rows) == len(TaskState)
    for name, number, rank, event in rows:
        state = TaskState[name]
        assert (int(number), int(rank)) == (state.value, RANK[state])
        assert f"`{EVENT_TYPES[state]}`" in event


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_in_a_page_resolves(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert find_unknown_files(text) == []
    assert find_unknown_modules(text) == []
    assert find_broken_links(text, page.parent) == []


def test_names_that_do_not_resolve_are_found() -> None:
    assert find_unknown_files("see `rules/nonsense.py`") == ["rules/nonsense.py"]
    assert find_unknown_files("see `rules/retry.py`, `tests/test_docs.py`, `README.md`") == []
    assert find_unknown_modules("see `holdfast.nonsense`") == ["holdfast.nonsense"]
    assert find_unknown_modules("see `holdfast.rules.retry.nonsense`") != []
    assert find_unknown_modules("see `holdfast.rules.retry.after_attempt`") == []
    assert find_broken_links("[x](nonsense.md)", ROOT) == ["nonsense.md"]
    assert find_broken_links("[x](README.md#top) [y](https://example.com)", ROOT) == []
