"""What a host has to give: as its operator says, or as it is found."""

from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.model.workers.resources import Capacity
from holdfast.worker.placed.host_resources import choose_gpus, find_capacity, parse_gpu


def test_what_is_said_is_not_looked_for(tmp_path: Path) -> None:
    found = find_capacity(tmp_path, cpu=2.5, memory="1GB", disk="2GB", gpu="2:H100")
    assert found == Capacity(2.5, 10**9, 2 * 10**9, 2, "H100", ["0", "1"])


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


@pytest.mark.parametrize("text", ["", "H100", "2:", "-1", "1.5", "two"])
def test_what_is_no_number_of_gpus_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="write 2, or 2:H100"):
        parse_gpu(text)


@pytest.mark.parametrize("text", ["1025", "9" * 5000])
def test_more_gpus_than_anybody_has_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="use 0 to 1024"):
        parse_gpu(text)


TWO = "echo 0, GPU-a1, H100; echo 1, GPU-b2, H100"
MIXED = "echo 0, GPU-a1, T4; echo 1, GPU-b2, H100; echo 2, GPU-c3, T4"
Found = tuple[list[str], str | None]


@pytest.mark.parametrize(
    ("script", "said", "visible", "gpus"),
    [
        (TWO, None, None, (["0", "1"], "H100")),
        (TWO, "1", None, (["0"], None)),
        (TWO, "3", None, (["0", "1", "2"], None)),
        (TWO, "0", None, ([], None)),
        (TWO, None, "1", (["1"], "H100")),
        (TWO, None, "GPU-b", (["1"], "H100")),
        (TWO, None, "", ([], None)),
        (MIXED, None, None, (["0", "2"], "T4")),
        (MIXED, "1:H100", None, (["1"], "H100")),
        (MIXED, "2:A100", None, (["0", "1"], "A100")),
        ("true", None, None, ([], None)),
        ("true", "2", None, (["0", "1"], None)),
        ("true", "2:A100", "6,7", (["6", "7"], "A100")),
        ("echo no device; exit 9", None, None, ([], None)),
    ],
)
def test_devices_are_those_of_the_driver_or_as_many_as_was_said(
    script: str,
    said: str | None,
    visible: str | None,
    gpus: Found,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert choose_gpus(said) == gpus


def test_without_a_driver_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_gpus(None) == ([], None)
