"""The limits of a server: what a refusal says of one."""

import pytest

from holdfast.model.limits.server_limits import LIMITS, ServerLimits


@pytest.mark.parametrize("name", LIMITS)
def test_a_refusal_names_the_limit_its_value_and_the_setting(name: str) -> None:
    limits = ServerLimits(stored_bytes_max=7)
    refusal = limits.refusal(name, "ada", retry_after=3)
    text = str(refusal)
    assert text.startswith(f"{name}: {getattr(limits, name):,} ")
    assert f"--{name.replace('_', '-')} (HOLDFAST_{name.upper()})" in text
    assert "(ada)" in text
    assert (refusal.limit, refusal.maximum) == (name, getattr(limits, name))
    assert (refusal.setting, refusal.retry_after) == (f"--{name.replace('_', '-')}", 3)


def test_there_is_a_name_for_every_limit() -> None:
    assert set(LIMITS) == set(ServerLimits.__dataclass_fields__)
