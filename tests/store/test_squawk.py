"""Migrations that would hold others up are refused before they are ever run."""

import pytest

from holdfast.store.migrate import Migration, load_schema
from tests.store.squawk import LAST_BEFORE_ROLLING_UPGRADES, read_with_squawk

IGNORED = "-- Nobody has read it since migration 30.\n-- squawk-ignore ban-drop-column\n"
OUTSIDE = "-- outside a transaction\n"
BUILD = "create index concurrently jobs_by_region on holdfast.jobs (region);\n"
STATE_CHECK = "alter table holdfast.tasks add constraint c check (state <> {FAILED}) not valid;"


def read(text: str) -> str:
    return read_with_squawk([Migration(99, "ours", f"-- compatible with 23\n{text}")])


def test_our_migrations_pass() -> None:
    assert read_with_squawk(load_schema().migrations[LAST_BEFORE_ROLLING_UPGRADES:]) == ""


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("alter table holdfast.jobs add column region text not null;", "adding-required-field"),
        ("create index on holdfast.jobs (owner);", "require-concurrent-index-creation"),
        ("drop index holdfast.jobs_by_owner;", "require-concurrent-index-deletion"),
        (BUILD * 2, "ban-concurrent-index-creation-in-transaction"),
        (
            "alter table holdfast.jobs add constraint short check (length(owner) < 10);",
            "constraint-missing-not-valid",
        ),
        ("alter table holdfast.jobs alter column owner type bytea;", "changing-column-type"),
        (
            "alter table holdfast.jobs alter column trace_id set not null;",
            "adding-not-nullable-field",
        ),
        ("alter table holdfast.jobs rename column owner to team;", "renaming-column"),
        ("alter table holdfast.jobs drop column owner;", "ban-drop-column"),
        ("drop table holdfast.jobs;", "ban-drop-table"),
        (STATE_CHECK, "syntax-error"),  # names of states are numbers by now
    ],
)
def test_what_would_hold_others_up_or_break_them_is_refused(statement: str, rule: str) -> None:
    found = read(statement)
    assert rule in found
    assert "0099_ours.sql:2" in found


def test_what_is_done_with_care_passes() -> None:
    assert read("alter table holdfast.jobs add column region text;") == ""
    assert read("alter table holdfast.jobs add column n int not null default 0;") == ""
    assert read(OUTSIDE + BUILD) == ""
    assert read(f"{IGNORED}alter table holdfast.jobs drop column old_region;") == ""
