"""The terms of a schedule, as they are stored."""

import msgspec
import pytest

from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.schedules import CATCH_UP_MAX, ScheduleTerms


def test_what_is_left_out_is_not_stored_and_means_the_default() -> None:
    assert msgspec.json.encode(ScheduleTerms(cron="@daily")) == b'{"cron":"@daily"}'
    terms = read_tolerantly('{"cron":"@daily","of_tomorrow":1}', ScheduleTerms)
    assert (terms.tz, terms.catch_up, terms.overlap, terms.late_max) == ("UTC", "skip", "skip", 60)
    assert terms.catch_up_max <= CATCH_UP_MAX


def test_an_unknown_policy_is_no_policy() -> None:
    with pytest.raises(msgspec.ValidationError, match="overlap"):
        msgspec.convert({"cron": "@daily", "overlap": "both"}, ScheduleTerms)
