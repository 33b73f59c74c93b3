"""The flags of a server's limits."""

import pytest

from holdfast.cli.limits import DEFAULT_LIMITS, LimitFlags
from holdfast.errors import Invalid
from holdfast.model.limits.server_limits import LIMITS, ServerLimits


def test_without_flags_the_limits_are_those_of_every_server() -> None:
    assert DEFAULT_LIMITS.limits() == ServerLimits()


def test_every_limit_has_a_flag_and_help_says_its_default() -> None:
    fields = LimitFlags.__dataclass_fields__
    assert set(fields) == set(LIMITS)
    for name in LIMITS:
        [setting] = fields[name].type.__metadata__  # type: ignore[union-attr]
        assert setting.env_var == (f"HOLDFAST_{name.upper()}",)
        assert f": {getattr(ServerLimits(), name):,.0f}" in setting.help


@pytest.mark.parametrize("name", LIMITS)
def test_what_nobody_could_keep_to_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match=f"{name}: is -1; use more than 0"):
        LimitFlags(**{name: -1}).limits()


def test_none_for_owners_is_no_limit_and_none_for_a_server_is_refused() -> None:
    assert LimitFlags(live_tasks_max=0, stored_bytes_max=0).limits().live_tasks_max == 0
    with pytest.raises(Invalid, match="connections_max"):
        LimitFlags(connections_max=0).limits()
