"""What is left in a crash of a process that holds secrets."""

import resource
import subprocess
import sys

SHOW = """
import resource
from holdfast.cli.core_files import forbid_core_files
forbid_core_files()
forbid_core_files()
print(*resource.getrlimit(resource.RLIMIT_CORE))
"""


def show(soft: int, hard: int) -> list[int]:
    """Forbid core files in a process with these limits; returns the limits then."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))

    shown = subprocess.check_output([sys.executable, "-c", SHOW], text=True, preexec_fn=limit)
    return [int(number) for number in shown.split()]


def test_no_core_file_is_written_or_collected_and_a_task_may_have_its_own_again() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    assert show(hard, hard) == [1, hard]
    assert show(0, 0) == [0, 0]
