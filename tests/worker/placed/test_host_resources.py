"""What a host has to give: as its operator says, or as it is found."""

from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.model.resources import Capacity
from holdfast.worker.placed.host_resources import find_capacity, find_gpus, parse_gpu


def test_what_is_said_is_not_looked_for(tmp_path: Path) -> None:
    found = find_capacity(tmp_path, cpu=2.5, memory="1GB", disk="2GB", gpu="2:H100")
    assert found == Capacity(2.5, 10**9, 2 * 10**9, 2, "H100")


def test_what_is_not_said_is_found(tmp_path: Path) -> None:
    found = find_capacity(tmp_path / "new", gpu="0")
    assert found.cpu >= 1
    assert found.memory > 1 << 20
    assert found.disk > 0
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize(
    ("field", "said"),
    [("cpu", {"cpu": -1.0}), ("memory", {"memory": "much"}), ("gpu", {"gpu": "two"})],
)
def test_what_makes_no_sense_is_refused(field: str, said: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        find_capacity(tmp_path, **said)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "gpus"), [("0", (0, None)), ("2", (2, None)), ("4:A100-80GB", (4, "A100-80GB"))]
)
def test_gpus_are_a_number_and_a_model(text: str, gpus: tuple[int, str | None]) -> None:
    assert parse_gpu(text) == gpus


@pytest.mark.parametrize("text", ["", "H100", "2:", "-1", "1.5"])
def test_what_is_no_number_of_gpus_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="write 2, or 2:H100"):
        parse_gpu(text)


@pytest.mark.parametrize(
    ("script", "gpus"),
    [
        ("echo NVIDIA H100; echo NVIDIA H100", (2, "NVIDIA H100")),
        ("true", (0, None)),
        ("echo no device; exit 9", (0, None)),
    ],
)
def test_gpus_are_asked_for_from_their_driver(
    script: str, gpus: tuple[int, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_gpus() == gpus


def test_without_a_driver_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_gpus() == (0, None)
