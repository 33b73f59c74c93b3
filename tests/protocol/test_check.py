"""The model checker's driver, without spin: what it runs, and what it makes of the output."""

import re
from pathlib import Path

import pytest

from protocol import check, locks
from protocol.check import BROKEN, PROPERTIES, SOUND, Check, find_problem, parse_output

PAGE = (check.MODELS.parent / "docs/decisions/0002-protocol-model.md").read_text(encoding="utf-8")
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in check.MODELS.glob("*.pml")}
MODES = {"LIVENESS", "FROZEN_MACHINE", "UNDELIVERED", "SEVERAL", "SOFT_CANCEL", "KEYLESS"}

CLEAN = """
(Spin Version 6.5.2 -- 6 December 2019)

Full statespace search for:
	never claim         	- (none specified)
	assertion violations	+
	cycle checks       	- (disabled by -DSAFETY)
	invalid end states	+

State-vector 140 byte, depth reached 188, errors: 0
   216221 states, stored
  1843813 states, matched

unreached in proctype Clock
	clock.pml:55, state 34, "-end-"
	(1 of 34 states)
unreached in init
	(0 of 9 states)

pan: elapsed time 1.01 seconds
"""

VIOLATED = """
pan:1: assertion violated  !(((activity[0]==3)&&(activity[1]==3))) (at depth 32)
pan: wrote claimed.pml.trail

(Spin Version 6.5.2 -- 6 December 2019)
Warning: Search not completed
	+ Breadth-First Search

Full statespace search for:
	never claim         	- (none specified)
	assertion violations	+
	invalid end states	+

State-vector 140 byte, depth reached 32, errors: 1
   629651 states, stored
"""

CYCLE = """
pan:1: acceptance cycle (at depth 38)
pan: wrote claimed.pml.trail

(Spin Version 6.5.2 -- 6 December 2019)
Warning: Search not completed

Full statespace search for:
	never claim         	+ (every_task_ends)
	assertion violations	+ (if within scope of claim)
	acceptance   cycles 	+ (fairness disabled)
	invalid end states	- (disabled by never claim)

State-vector 156 byte, depth reached 39, errors: 1
       14 states, stored
"""

SHALLOW = "error: max search depth too small\n" + CLEAN
OUT_OF_MEMORY = "pan: reached -DMEMLIM bound\n\t1.46711e+08 bytes used\n" + CLEAN.replace(
    "2019)\n", "2019)\nWarning: Search not completed\n"
)
BITSTATE = CLEAN.replace("Full statespace search", "Bit statespace search")
CUT_OFF = CLEAN[: CLEAN.index("State-vector")]

SAFE = Check("claimed", ("PROCESSES",))
UNSAFE = Check("claimed", ("PROCESSES",), "NO_FENCE")
ENDLESS = Check("claimed", ("ENDS",), "NO_REAPER")


def macros_asked_for(text: str) -> set[str]:
    """List the macros that a model's text looks at and does not define itself."""
    asked = set(re.findall(r"^#ifn?def (\w+)", text, re.MULTILINE))
    return asked - set(re.findall(r"^#define (\w+)", text, re.MULTILINE))


def texts_of(model: str) -> str:
    """Read a model together with what it includes."""
    text = SOURCES[f"{model}.pml"]
    return text + "".join(
        texts_of(Path(n).stem) for n in re.findall(r'^#include "(.+)"', text, re.M)
    )


def test_every_rule_that_a_model_can_break_is_broken_in_a_check() -> None:
    asked = set.union(*(macros_asked_for(text) for text in SOURCES.values()))
    rules = {name for name in asked if not name.startswith("CHECK_")} - MODES
    assert rules == {broken.variant for broken in BROKEN}


def test_every_property_is_proven_and_can_be_violated() -> None:
    asked = set.union(*(macros_asked_for(text) for text in SOURCES.values()))
    assert {f"CHECK_{name}" for name in PROPERTIES} - {"CHECK_ENDS"} == asked & {
        name for name in asked if name.startswith("CHECK_")
    }
    proven = {(one.model, name) for one in SOUND for name in one.properties}
    assert {name for _, name in proven} == set(PROPERTIES)
    # In each model anew: what one of them can violate may be an empty word in another.
    assert {(one.model, *one.properties) for one in BROKEN} == proven


def test_every_mode_of_a_model_can_show_a_broken_rule() -> None:
    modes, broken = (
        {(one.model, mode) for one in checks for mode in MODES & {*one.settings}}
        for checks in (SOUND, BROKEN)
    )
    assert modes == broken


@pytest.mark.parametrize("model", sorted({one.model for one in SOUND}))
def test_the_head_of_a_model_names_the_rules_that_are_broken_in_it(model: str) -> None:
    head = SOURCES[f"{model}.pml"].partition("*/")[0]
    named = re.findall(r"[A-Z_]{5,}", head.partition("Broken: ")[2])
    assert set(named) == {one.variant for one in BROKEN if one.model == model}


def test_the_page_tells_what_each_broken_rule_leads_to() -> None:
    table = PAGE.partition("\n| broken rule | model |")[2].partition("\n\n")[0]
    told = set()
    for row in table.splitlines()[2:]:
        _, rules, models, *_ = row.split("|")
        for model in models.replace("both", "claimed, placed").split(","):
            told |= {(model.strip(), rule.strip()) for rule in rules.split(",")}
    assert told == {(one.model, one.variant) for one in BROKEN}


@pytest.mark.parametrize("one", [*SOUND, *BROKEN], ids=lambda one: " ".join(one.macros))
def test_a_check_uses_only_macros_its_model_knows(one: Check) -> None:
    text = texts_of(one.model)
    for macro in one.macros:
        name = macro.removeprefix("-D").partition("=")[0]
        assert re.search(rf"\b{name}\b", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)), name


def test_a_broken_variant_is_judged_by_one_property_alone() -> None:
    assert all(len(broken.properties) == 1 for broken in BROKEN)


def test_every_model_file_is_part_of_a_check() -> None:
    used = "".join(texts_of(name) for name in {one.model for one in SOUND})
    assert all(text in used for text in SOURCES.values())


def test_a_clean_run_holds() -> None:
    reading = parse_output(CLEAN)
    assert (reading.states, reading.depth, reading.errors) == (216221, 188, 0)
    assert (reading.truncation, reading.unreached) == ("", 0)
    assert find_problem(SAFE, reading) == ""
    assert find_problem(UNSAFE, reading) == "no counterexample"


def test_a_violated_assertion_is_what_a_broken_variant_needs() -> None:
    reading = parse_output(VIOLATED)
    assert (reading.states, reading.depth, reading.errors) == (629651, 32, 1)
    assert find_problem(UNSAFE, reading) == ""
    assert find_problem(SAFE, reading).startswith("pan:1: assertion violated")
    assert find_problem(ENDLESS, reading).startswith("the wrong error")


def test_a_cycle_is_what_a_broken_liveness_needs() -> None:
    reading = parse_output(CYCLE)
    assert find_problem(ENDLESS, reading) == ""
    assert find_problem(UNSAFE, reading).startswith("the wrong error")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (SHALLOW, "max search depth too small"),
        (OUT_OF_MEMORY, "reached -DMEMLIM bound"),
        (
            CLEAN.replace("2019)\n", "2019)\nWarning: Search not completed\n"),
            "search not completed",
        ),
        (BITSTATE, "not a full search"),
        (CUT_OFF, "no summary"),
        ("", "no summary"),
    ],
)
def test_a_search_that_was_cut_short_proves_nothing(output: str, reason: str) -> None:
    reading = parse_output(output)
    assert reading.truncation == reason
    assert find_problem(SAFE, reading) == reason
    assert find_problem(UNSAFE, reading) == reason


def test_a_step_that_is_never_taken_spoils_the_proof() -> None:
    idle = CLEAN.replace('34, "-end-"', '33, "lease[a] = 3"')
    assert find_problem(SAFE, parse_output(idle)) == "1 steps of the model are never taken"


def test_large_counts_are_read_in_any_notation() -> None:
    assert parse_output(CLEAN.replace("216221", "1.0912391e+07")).states == 10912391


def test_the_order_of_locks_is_checked_along(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert all(is_expected for _, _, is_expected in check.check_locks())
    monkeypatch.setattr(locks, "OPERATIONS", {"one": "tasks, jobs", "other": "jobs, tasks"})
    [sound, *_] = check.check_locks()
    assert sound[2] is False
    check.print_locks(*sound)
    assert "UNEXPECTED: other holds jobs and waits for tasks" in capsys.readouterr().out


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.argv", ["check.py"])
    with pytest.raises(
        check.ToolMissing, match=r"spin and gcc not found.*apt-get install spin gcc"
    ):
        check.find_tools()
    assert check.main() == 2
