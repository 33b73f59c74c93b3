"""What this host has to give: found, unless its operator has set it."""

import os
import shutil
import subprocess
from pathlib import Path

from holdfast.errors import Invalid
from holdfast.model.resources import Capacity, parse_size

GPU_QUERY = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
GPU_SECONDS_MAX = 10


def find_capacity(
    folder: Path,
    *,
    cpu: float | None = None,
    memory: str | None = None,
    disk: str | None = None,
    gpu: str | None = None,
) -> Capacity:
    """Put together what was set and what is found; `gpu` is such as 2:H100."""
    count, model = find_gpus() if gpu is None else parse_gpu(gpu)
    if cpu is not None and not 0 <= cpu <= 100_000:
        raise Invalid("cpu", f"is {cpu:g}; use 0 to 100000")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Capacity(
        float(os.cpu_count() or 1) if cpu is None else cpu,
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if memory is None
        else parse_size(memory, "memory"),
        shutil.disk_usage(folder).free if disk is None else parse_size(disk, "disk"),
        count,
        model,
    )


def find_gpus() -> tuple[int, str | None]:
    """Count the GPUs and name their model; of several models, the first one's are counted."""
    if shutil.which(GPU_QUERY[0]) is None:
        return 0, None
    try:
        found = subprocess.run(
            GPU_QUERY, capture_output=True, text=True, timeout=GPU_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):  # a driver without a device
        return 0, None
    models = [line.strip() for line in found.stdout.splitlines() if line.strip()]
    return (models.count(models[0]), models[0]) if models else (0, None)


def parse_gpu(text: str) -> tuple[int, str | None]:
    """Read a number of GPUs and their model: 2, or 2:H100."""
    count, _, model = text.partition(":")
    if not count.isdecimal() or (":" in text and not model):
        raise Invalid("gpu", f"{text!r} is not a number of GPUs; write 2, or 2:H100")
    return int(count), model or None
