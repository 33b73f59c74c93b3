"""What the dashboard says: words for every action that is recorded, and commands that there are."""

import re

from tests.page_commands import ROOT, commands_in, find_problem

SOURCE = ROOT / "dashboard" / "src"
_RECORDED = re.compile(r"\bactor,\s*\"(\w+)\"|\baction=\"(\w+)\"")


def test_every_action_that_is_recorded_has_words() -> None:
    sources = [path.read_text() for path in (ROOT / "holdfast/operations").rglob("*.py")]
    recorded = {"".join(found) for text in sources for found in _RECORDED.findall(text)}
    assert len(recorded) > 30
    page = (SOURCE / "pages/actions/actions.tsx").read_text(encoding="utf-8")
    told = page.partition("const ACTIONS")[2].partition("};")[0]
    assert set(re.findall(r"^  (\w+): ", told, re.MULTILINE)) == recorded


def test_commands_that_are_shown_are_the_programs() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.tsx")]
    told = [command for text in texts for command in commands_in(text)]
    assert "limits set one-per-customer --per key --slots 1" in map(" ".join, told)
    assert [problem for command in told if (problem := find_problem(command))] == []
