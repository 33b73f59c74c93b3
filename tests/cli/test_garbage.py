"""How often a process looks for garbage, in one of its own."""

import subprocess
import sys


def test_garbage_is_searched_for_rarely_and_not_among_what_is_loaded() -> None:
    assert _collect() == ["True", "5000", "True"]


def test_what_imported_code_has_chosen_is_kept() -> None:
    assert _collect("gc.set_threshold(123)") == ["True", "123", "True"]
    assert _collect("gc.disable()") == ["False", "5000", "True"]


def _collect(chosen: str = "") -> list[str]:
    lines = (
        "import gc, asyncio, holdfast.cli.garbage as garbage",
        chosen,
        "garbage.collect_garbage_rarely(5000)",
        "print(gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 10_000)",
    )
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ended.stdout.split()
