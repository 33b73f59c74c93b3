"""Where an attempt asks for what is its own."""

import msgspec
import pytest

from holdfast.wire.attempt_calls import TaskProgressRequest, given_results_path, own_bundle_path

LEASE = {"task_id": "7.0", "attempt": 0, "lease_token": "3f0c7c0e-7c4a-4f39-9a55-0a1d5f0f8a51"}


def test_what_is_its_own_is_no_route_of_users() -> None:
    assert given_results_path("7") == "/internal/given-results/7"
    assert own_bundle_path("ab") == "/internal/own-bundle/ab"


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_progress_is_from_0_to_1(fraction: float) -> None:
    good = msgspec.convert(LEASE | {"fraction": 1.0}, TaskProgressRequest, strict=False)
    assert (good.fraction, good.message) == (1.0, None)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(LEASE | {"fraction": fraction}, TaskProgressRequest, strict=False)
