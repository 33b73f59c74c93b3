"""What this host has to give: found, unless its operator has set it."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import Invalid
from holdfast.model.workers.resources import GPU_MAX, Capacity, parse_size

GPU_QUERY = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
GPU_SECONDS_MAX = 10


class Gpu(NamedTuple):
    """One GPU that was found: its number, the id that its maker gave it, and its model."""

    number: str
    uuid: str
    model: str


def find_capacity(
    folder: Path,
    *,
    cpu: float | None = None,
    memory: str | None = None,
    disk: str | None = None,
    gpu: str | None = None,
) -> Capacity:
    """Put together what was set and what is found; `gpu` is such as 2:H100."""
    devices, model = choose_gpus(gpu)
    if cpu is not None and not 0 <= cpu <= 100_000:
        raise Invalid("cpu", f"is {cpu:g}; use 0 to 100000")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Capacity(
        float(os.cpu_count() or 1) if cpu is None else cpu,
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if memory is None
        else parse_size(memory, "memory"),
        shutil.disk_usage(folder).free if disk is None else parse_size(disk, "disk"),
        len(devices),
        model,
        devices,
    )


def choose_gpus(text: str | None) -> tuple[list[str], str | None]:
    """Name the devices that are to be given out, and their model.

    All that are found of the first one's model, or as many as `text` says; where fewer are found
    than that, those this process may see, or else numbers from 0 on.
    """
    if text is None:
        found = find_gpus()
        model = found[0].model if found else None
        return [gpu.number for gpu in found if gpu.model == model], model
    count, model = parse_gpu(text)
    if not count:
        return [], model
    named = [gpu.number for gpu in find_gpus() if model in (None, gpu.model)]
    for devices in (named, _list_visible() or []):
        if len(devices) >= count:
            return devices[:count], model
    return [str(number) for number in range(count)], model


def find_gpus() -> list[Gpu]:
    """Ask the driver for the GPUs that this process may see."""
    if shutil.which(GPU_QUERY[0]) is None:
        return []
    try:
        answer = subprocess.run(
            GPU_QUERY, capture_output=True, text=True, timeout=GPU_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):  # a driver without a device
        return []
    lines = [[part.strip() for part in line.split(",", 2)] for line in answer.stdout.splitlines()]
    found = [Gpu(*parts) for parts in lines if len(parts) == len(Gpu._fields)]
    visible = _list_visible()
    if visible is None:
        return found
    return [gpu for gpu in found if _is_named(gpu, visible)]


def parse_gpu(text: str) -> tuple[int, str | None]:
    """Read a number of GPUs and their model: 2, or 2:H100."""
    count, _, model = text.partition(":")
    if not count.isdecimal() or (":" in text and not model):
        raise Invalid("gpu", f"{text!r} is not a number of GPUs; write 2, or 2:H100")
    if len(count) > len(str(GPU_MAX)) or int(count) > GPU_MAX:
        raise Invalid("gpu", f"is {text}; use 0 to {GPU_MAX}")
    return int(count), model or None


def _list_visible() -> list[str] | None:
    """List what this process was told to see of the devices; None if it was told nothing."""
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        if (text := os.environ.get(name)) is not None:
            return [part.strip() for part in text.split(",") if part.strip()]
    return None


def _is_named(gpu: Gpu, visible: list[str]) -> bool:
    """Tell whether a GPU is among those named, by its number or the beginning of its id."""
    return gpu.number in visible or any(
        name.startswith("GPU-") and gpu.uuid.startswith(name) for name in visible
    )
