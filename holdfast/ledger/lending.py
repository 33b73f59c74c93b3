"""Whoever stores work may hand it to those who wait for it, in the same transaction.

A poller that found nothing lends its claim to whoever has news for it. The claim is answered by
what was stored, or it goes back, and the poller looks by itself as if a bell had been rung.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Loan(Protocol):
    """A claim that waits: what it asks for, and where its answer goes."""

    @property
    def request(self) -> Any:
        """Tell what is asked for."""

    def give(self, claims: list[Any]) -> None:
        """Answer it; what is given is leased, and committed."""


class Lending(Protocol):
    """Where claims wait."""

    def borrow(self, queue: str) -> AbstractContextManager[Loan | None]:
        """Borrow the claim that has waited longest for a queue; it goes back with the block."""


class NobodyWaits:
    """A ledger without pollers around it."""

    def borrow(self, queue: str) -> AbstractContextManager[Loan | None]:
        """Lend nothing."""
        del queue
        return nullcontext()
