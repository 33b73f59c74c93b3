"""A plan follows from its seed, and leaves no kind of fault out."""

import pytest

from chaos.faults.plan import LEAD_SECONDS, PROFILES, draw

PROFILE_NAMES = sorted(PROFILES)


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_the_same_seed_draws_the_same_plan(profile: str) -> None:
    assert draw(7, profile, 120) == draw(7, profile, 120)
    assert draw(7, profile, 120) != draw(8, profile, 120)


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_no_kind_of_fault_comes_twice_before_each_has_come(profile: str) -> None:
    kinds = [fault.kind for fault in draw(3, profile, 600)]
    size = len(PROFILES[profile])
    assert len(kinds) > 2 * size
    assert len(set(kinds[:size])) == len(set(kinds[size : 2 * size])) == len(set(kinds))


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_faults_are_as_their_kind_allows_and_in_order(profile: str) -> None:
    faults = draw(5, profile, 300)
    times = [fault.at for fault in faults]
    assert times == sorted(times)
    assert times[0] == LEAD_SECONDS
    assert times[-1] < 300
    for fault in faults:
        allowed = [kind for kind in PROFILES[profile] if kind.name == fault.kind]
        assert any(
            fault.target in kind.targets
            and kind.seconds[0] <= fault.seconds <= kind.seconds[1]
            and fault.amount in kind.amounts
            for kind in allowed
        ), fault


def test_a_shorter_run_begins_like_a_longer_one() -> None:
    shorter = draw(9, "queue", 30)
    assert draw(9, "queue", 90)[: len(shorter)] == shorter


def test_a_fault_is_a_line_that_says_what_breaks_and_how_long() -> None:
    line = str(draw(1, "queue", 30)[3])
    assert line == "   4.01  link delays worker-6 to servers for 1.90 s (0.05)"
