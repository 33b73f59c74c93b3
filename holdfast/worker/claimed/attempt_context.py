"""The context of a function in this process. Most are short and ask for little of it."""

from collections.abc import Callable

from holdfast.client.codec import PayloadCodec
from holdfast.client.context import Connection, Context, Identity
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.function import describe_progress
from holdfast.worker.running.runnable import identify


class AttemptContext(Context):
    """A context that looks its attempt up when it is asked."""

    def __init__(
        self,
        attempt: Attempt,
        server: str,
        codec: PayloadCodec | None,
        *,
        connection: Callable[[], Connection],
    ) -> None:
        self.codec = codec
        self._attempt = attempt
        self._server = server
        self._connection = connection
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity:  # type: ignore[override]
        """Which attempt this is."""
        if self._identity is None:
            began_at = self._attempt.started_at
            run_seconds = 0.0 if began_at is None else boot_clock() - began_at
            self._identity = identify(self._attempt, self._server, run_seconds=run_seconds)
        return self._identity

    def _is_cancelled(self) -> bool:
        return self._attempt.stop is not None

    def _note_progress(self, fraction: float, message: str | None) -> None:
        self._attempt.progress = describe_progress(fraction, message)
