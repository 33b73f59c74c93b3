"""An attempt's lease by our own clock, what is asked of it, and what it reports."""

import msgspec
import pytest

from holdfast.wire.requests import Progress
from holdfast.worker.claimed.attempt import JobCache, StopMode
from holdfast.worker.processes.clock import boot_clock
from tests.worker.claims import a_claim, a_job, an_attempt


def test_the_lease_counts_from_the_moment_the_request_was_sent() -> None:
    attempt = an_attempt(claim=a_claim(remaining=30.0), sent_at=100.0)
    assert attempt.expires_at == 130.0
    attempt.renew(110.0, 30.0)
    assert attempt.expires_at == 140.0


def test_an_answer_about_an_earlier_moment_takes_nothing_away() -> None:
    attempt = an_attempt(claim=a_claim(remaining=30.0), sent_at=100.0)
    attempt.renew(95.0, 30.0)
    assert attempt.expires_at == 130.0


@pytest.mark.parametrize(("remaining", "wait"), [(30.0, 15.0), (120.0, 30.0), (1.0, 0.5)])
def test_it_is_renewed_at_half_of_its_time_and_every_thirty_seconds(
    remaining: float, wait: float
) -> None:
    attempt = an_attempt(claim=a_claim(remaining=remaining), sent_at=100.0)
    assert not attempt.is_due(100.0 + wait - 0.01, with_progress=True)
    assert attempt.is_due(100.0 + wait, with_progress=True)


@pytest.mark.parametrize("lease", [0.5, 30.0, 120.0])
def test_code_is_asked_then_killed_then_the_watchdog_comes_all_before_the_end(lease: float) -> None:
    attempt = an_attempt(claim=a_claim(remaining=lease), sent_at=100.0, lease=lease)
    assert attempt.renew_at < attempt.stop_at < attempt.kill_at < attempt.fatal_at
    assert attempt.fatal_at < attempt.expires_at
    assert attempt.expires_at - attempt.stop_at <= 5.0


def test_a_process_learns_of_every_change_of_its_deadline() -> None:
    attempt = an_attempt(sent_at=100.0)
    told: list[float] = []
    attempt.on_renewed = told.append
    attempt.renew(120.0, 30.0)
    attempt.lose(125.0)
    assert told == [147.5, 127.5]


def test_a_lost_lease_leaves_just_the_time_to_stop() -> None:
    attempt = an_attempt(sent_at=100.0)
    attempt.lose(101.0)
    assert attempt.stop_at == 101.0
    attempt.lose(103.0)
    assert attempt.stop_at == 101.0


def test_a_request_to_stop_only_ever_becomes_stricter() -> None:
    modes: list[StopMode] = ["soft", "timeout", "hard", "lost"]
    for first in range(4):
        for second in range(4):
            attempt = an_attempt()
            assert attempt.ask_to_stop(modes[first], 1.0, by=1.0)
            assert attempt.ask_to_stop(modes[second], 2.0, by=2.0) is (second > first)
            assert attempt.stop == modes[max(first, second)]
            assert attempt.stop_by == (2.0 if second > first else 1.0)


@pytest.mark.parametrize("mode", ["hard", "lost"])
def test_nothing_is_renewed_once_it_must_go(mode: StopMode) -> None:
    attempt = an_attempt(claim=a_claim(remaining=10.0), sent_at=100.0)
    attempt.started_at = 101.0
    attempt.progress = Progress(0.5)
    assert attempt.ask_to_stop(mode, 105.0)
    assert not attempt.is_due(109.0, with_progress=True)
    attempt.renew(106.0, 30.0)  # by an answer that was under way
    assert attempt.expires_at == 110.0
    assert attempt.stuck_at is not None
    assert 105.0 < attempt.stuck_at < attempt.kill_at < attempt.fatal_at < 110.0


@pytest.mark.parametrize("mode", ["soft", "timeout"])
def test_a_lease_is_renewed_during_its_grace(mode: StopMode) -> None:
    attempt = an_attempt(claim=a_claim(remaining=30.0), sent_at=100.0)
    assert attempt.ask_to_stop(mode, 105.0, by=135.0)
    assert attempt.is_due(116.0, with_progress=False)
    attempt.renew(116.0, 30.0)
    assert (attempt.expires_at, attempt.stuck_at) == (146.0, None)


def test_a_long_lease_does_not_keep_what_must_go() -> None:
    attempt = an_attempt(claim=a_claim(remaining=120.0), sent_at=100.0, lease=120.0)
    deadlines: list[float] = []
    attempt.on_renewed = deadlines.append
    assert attempt.ask_to_stop("hard", 110.0)
    assert attempt.kill_at == 130.0
    assert attempt.stuck_at == 115.0
    assert deadlines == [130.0]  # a process, too
    assert attempt.ask_to_stop("lost", 114.0)
    assert attempt.stuck_at == 115.0


def test_two_preemptions_make_it_suspect() -> None:
    suspicions = [an_attempt(claim=a_claim(preemption_count=n)).is_suspect for n in range(4)]
    assert suspicions == [False, False, True, True]


def test_a_start_is_reported_soon_and_once() -> None:
    attempt = an_attempt(sent_at=100.0)
    assert attempt.report().state is None
    attempt.started_at = 101.0
    assert not attempt.is_due(101.04, with_progress=True)
    assert attempt.is_due(101.06, with_progress=True)
    assert attempt.report().state == "RUNNING"
    attempt.start_reported = True
    assert not attempt.is_due(101.06, with_progress=True)
    assert attempt.report().state is None


def test_an_end_makes_the_report_of_a_start_needless() -> None:
    attempt = an_attempt(sent_at=100.0)
    attempt.started_at = 101.0
    attempt.is_over = True
    assert not attempt.is_due(105.0, with_progress=True)


def test_progress_is_reported_until_it_was_heard() -> None:
    attempt = an_attempt(sent_at=100.0)
    attempt.progress = first = Progress(0.1)
    assert not attempt.is_due(101.0, with_progress=False)
    assert attempt.is_due(101.0, with_progress=True)
    assert attempt.report().progress is first
    assert attempt.report().progress is first
    attempt.progress_reported = first
    assert attempt.report().progress is None
    assert not attempt.is_due(101.0, with_progress=True)


def test_progress_that_is_said_while_an_earlier_word_is_on_its_way_is_reported_next() -> None:
    attempt = an_attempt(sent_at=100.0)
    attempt.progress = Progress(0.1)
    sent = attempt.report()
    attempt.progress = later = Progress(0.2)
    attempt.progress_reported = sent.progress
    assert attempt.report().progress is later


def test_usage_is_reported_when_there_is_some_and_then_every_ten_seconds() -> None:
    attempt = an_attempt()
    attempt.start_reported = True
    now = boot_clock()
    assert not attempt.is_due(now, with_progress=False)
    attempt.usage.note({"cpu_seconds": 1})
    assert attempt.is_due(now, with_progress=False)
    first = attempt.report().usage
    assert first == {"cpu_seconds": 1}
    attempt.usage.note_reported(first, now)
    attempt.usage.note({"cpu_seconds": 1})
    assert attempt.report().usage is None, "it is no news"
    attempt.usage.note({"cpu_seconds": 2})
    assert not attempt.is_due(now + 9, with_progress=False)
    assert attempt.is_due(now + 10, with_progress=False)
    attempt.is_over = True
    assert not attempt.is_due(now + 10, with_progress=False), "its end says it"


def test_usage_of_a_process_that_has_ended_is_left_to_the_report_of_its_end() -> None:
    attempt = an_attempt()
    attempt.start_reported = True
    now = boot_clock()
    attempt.usage.note({"cpu_seconds": 1})
    sent = attempt.report().usage
    attempt.usage.note_all({"cpu_seconds": 2})
    assert not attempt.is_due(now, with_progress=False)
    attempt.usage.note_reported(sent, now)
    assert not attempt.is_due(now + 10, with_progress=False)
    assert attempt.usage.latest == {"cpu_seconds": 2}


def test_a_server_that_cannot_take_a_report_is_left_in_peace_for_a_moment() -> None:
    attempt = an_attempt(sent_at=100.0, lease=30.0)
    attempt.started_at = 100.0
    attempt.postpone_report(120.0)
    assert not attempt.is_due(120.9, with_progress=True)
    assert attempt.is_due(121.0, with_progress=True)
    hasty = an_attempt(sent_at=100.0, lease=1.2)
    hasty.postpone_report(120.0)
    assert hasty.is_due(120.1, with_progress=True)


def _text(name: str, size: int = 0) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(a_job(name=name, environment={"X": "x" * size})))


def test_a_job_is_decoded_once() -> None:
    cache = JobCache()
    assert cache.decode(_text("one")) is cache.decode(_text("one"))
    assert cache.decode(_text("two")).name == "two"


def test_the_jobs_that_are_kept_are_few() -> None:
    cache = JobCache(jobs_max=10)
    for number in range(100):
        assert cache.decode(_text(str(number))).name == str(number)
        assert len(cache) <= 10


def test_the_jobs_that_are_kept_are_not_large_together() -> None:
    cache = JobCache(bytes_max=10_000)
    for number in range(100):
        assert cache.decode(_text(str(number), size=3_000)).name == str(number)
        assert len(cache) <= 3
    assert cache.decode(_text("huge", size=20_000)).name == "huge"
    assert len(cache) == 1


def test_a_job_of_a_kind_we_do_not_know_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        JobCache().decode(msgspec.Raw(b'{"job_id": 3}'))
