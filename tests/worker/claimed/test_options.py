"""What a worker is, where nothing else is said."""

import socket
from pathlib import Path

from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.claimed.options import WorkerOptions


def test_a_worker_is_named_after_its_host_and_woken_by_its_server() -> None:
    options = WorkerOptions(
        server="http://server:1", queues=("q",), folder=Path("/tmp"), allowed=EVERYTHING
    )
    assert options.name == socket.gethostname()
    assert options.isolation == "auto"
    assert options.open_inbox is None
