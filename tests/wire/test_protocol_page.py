"""docs/worker-protocol.md says what is spoken in fact: routes, fields by name, examples, codes."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import errors
from holdfast.api.errors import ForeignHost, UnsupportedMediaType, status_of
from holdfast.api.routes.workers import attempt_calls as attempt_routes
from holdfast.api.routes.workers import worker_protocol, worker_reports
from holdfast.model.work.outcomes import STAGES, STATUSES
from holdfast.store.database import LockTimeout
from holdfast.wire import answers, attempt_calls, cluster, events, functions, requests, signals
from holdfast.wire.answers import ClaimedJob
from holdfast.wire.cluster import HEARTBEAT_PATH, SECRET_HEADER, PlacedJob

SHAPES = (attempt_calls, requests, events, answers, cluster, functions, signals)
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "worker-protocol.md").read_text("utf-8")
TABLES = re.findall(r"^\*\*.+\*\*, `(\w+)`.*:\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
EXAMPLES = re.findall(r"^```json (\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CODES = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| ([0-9, ]+) \|", PAGE, re.MULTILINE)
KINDS: list[type[errors.HoldfastError]] = [
    errors.Invalid,
    errors.TooLarge,
    errors.Unauthenticated,
    errors.NotAllowed,
    errors.NotFound,
    errors.KeyReused,
    errors.IllegalMove,
    errors.LeaseConflict,
    errors.Unavailable,
    errors.Overloaded,
    errors.Stopping,
    LockTimeout,
    UnsupportedMediaType,
    ForeignHost,
]


def find_struct(name: str) -> Any:
    """Find a shape by the name that the page gives it."""
    found = {getattr(module, name, None) for module in SHAPES} - {None}
    assert len(found) == 1, f"{name} is no shape, or several"
    return found.pop()


def assert_within(part: Any, whole: Any, where: str = "") -> None:
    """See that nothing of an example was left out when it was read: that field would be unknown."""
    if isinstance(part, dict):
        for name, value in part.items():
            assert name in whole, f"{where}.{name} is unknown"
            assert_within(value, whole[name], f"{where}.{name}")
    elif isinstance(part, list):
        for index, value in enumerate(part):
            assert_within(value, whole[index], f"{where}[{index}]")


def read_again(text: str | bytes, shape: Any) -> Any:
    """Read an example as its shape, and return what is left of it."""
    return msgspec.json.decode(msgspec.json.encode(msgspec.json.decode(text, type=shape)))


@pytest.mark.parametrize(("name", "table"), TABLES, ids=[name for name, _ in TABLES])
def test_a_table_has_the_fields_of_its_shape(name: str, table: str) -> None:
    rows = table.splitlines()[2:]
    named = [field for row in rows for field in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(find_struct(name).__struct_fields__)


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_can_be_read(name: str, text: str) -> None:
    example = msgspec.json.decode(text)
    assert_within(example, read_again(text, find_struct(name)))
    for entries, shape in (("claims", ClaimedJob), ("tasks_to_run", PlacedJob)):
        for entry in example.get(entries, []):
            if entry["job"] is not None:
                assert_within(entry["job"], read_again(msgspec.json.encode(entry["job"]), shape))


def test_every_route_of_workers_is_on_the_page() -> None:
    for route in (*worker_protocol.ROUTES, *worker_reports.ROUTES):
        assert route.path in PAGE
    for route in attempt_routes.ROUTES:
        assert route.path.replace("{given}", "{job_id}") in PAGE
    assert f"POST {HEARTBEAT_PATH}" in PAGE
    assert SECRET_HEADER in PAGE


def test_every_code_is_on_the_page_with_its_status() -> None:
    told = {
        code: set(statuses.split(", "))
        for codes, statuses in CODES
        for code in re.findall(r"\w+", codes)
    }
    for kind in KINDS:
        assert str(status_of(kind.__new__(kind))) in told.pop(kind.code)
    assert told == {"internal": {"500"}}


def test_every_status_and_stage_is_on_the_page() -> None:
    for status in STATUSES:
        assert f"\n| `{status}` |" in PAGE
    for stage in STAGES:
        assert f"`{stage}`" in PAGE


def test_there_is_something_to_check() -> None:
    assert len(TABLES) >= 13
    assert len(EXAMPLES) >= 9
