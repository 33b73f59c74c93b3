"""Variables that no setting has are refused; those of others are left alone."""

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.app import app
from holdfast.cli.variables import OF_CHECKOUTS, OTHERS, check_variables, list_variables
from holdfast.errors import Invalid
from tests.cli.program import run

SOURCES = Path(holdfast.__file__).parent
# What an attempt is given, and names that are only parts of others or examples.
OF_ATTEMPTS = re.compile(
    r"HOLDFAST_(TASK_ID|TASK_INDEX|JOB_ID|ATTEMPT|NAME|NUM_TASKS|INPUT|INPUT_FILE|LEASE_TOKEN"
    r"|CORRELATION_ID|DATASET|DATASET_VERSION|OUTPUTS|OUTPUT_VERSION|OUTPUT_VERSIONS|DEVICES"
    r"|GANG_\w+|PORT_\w*|MARK|WORKER|SCHEDULE|SCHEDULED_AT)"
)


def test_a_slip_is_named_with_what_is_near() -> None:
    ended = run("jobs", HOLDFAST_SERVR="http://x")
    assert (ended.code, ended.out) == (2, "")
    assert "HOLDFAST_SERVR: is no setting; did you mean HOLDFAST_SERVER?" in ended.err
    with pytest.raises(Invalid, match="HOLDFAST_ZZZZZZZZZ: is no setting; take it out"):
        check_variables(app, {"HOLDFAST_ZZZZZZZZZ": "1"})


def test_who_asks_for_help_gets_it() -> None:
    assert run("jobs", "--help", HOLDFAST_SERVR="http://x").code == 0


@pytest.mark.parametrize(
    "variables",
    [
        {"HOLDFAST_SERVER": "x", "HOLDFAST_LIVE_TASKS_MAX": "3", "HOLDFAST_TOKEN": "x"},
        {"HOLDFAST_TASK_ID": "1.0", "HOLDFAST_WHATEVER": "of a job"},
        {"HOLDFAST_SERVICE_HOST": "10.0.0.1", "HOLDFAST_SERVICE_PORT_HTTP": "1"},
        {"HOLDFAST_API_PORT": "tcp://10.0.0.1:1", "HOLDFAST_API_PORT_1_TCP_ADDR": "10.0.0.1"},
        {"HOLDFAST_PROMTOOL": "/opt/promtool", "HOLDFAST_PROMETHEUS": "/opt/prometheus"},
        {"OTHER": "x"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_is_known_or_set_by_others_is_left_alone(variables: dict[str, str]) -> None:
    check_variables(app, variables)


def test_whatever_the_program_reads_is_known() -> None:
    named = {
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r"[\"'](HOLDFAST_[A-Z_]+)[\"']", path.read_text(encoding="utf-8"))
    }
    unknown = named - set(list_variables(app)) - OTHERS.keys() - {"HOLDFAST_"}
    unknown = {name for name in unknown if not OF_ATTEMPTS.fullmatch(name)}
    assert unknown - OF_CHECKOUTS == set()
