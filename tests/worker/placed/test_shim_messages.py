"""Orders of a shim: those that make no sense are refused before anything is started."""

import math
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Invalid
from holdfast.worker.placed.shim_handle import Shim
from tests.worker.shimmed import a_script, launching


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("token", {"token": "a/b"}),
        ("token", {"token": ""}),
        ("deadline", {"deadline": math.inf}),
        ("deadline", {"deadline": math.nan}),
        ("memory", {"memory": -1}),
        ("memory", {"memory": 2**70}),
        ("cpu", {"cpu": math.nan}),
        ("output_bytes_max", {"output_bytes_max": 100}),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused(
    tmp_path: Path, field: str, changes: dict[str, Any]
) -> None:
    with launching() as launcher, pytest.raises(Invalid) as refused:
        await Shim.start(launcher, tmp_path / "folder", a_script("exit 0", **changes))
    assert refused.value.field == field
    assert os.listdir(tmp_path) == []


def test_an_order_that_makes_sense_is_not() -> None:
    a_script("exit 0").check()
    a_script("exit 0", memory=2**40, cpu=0.5, output_bytes_max=4096).check()
