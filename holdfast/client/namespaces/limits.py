"""`client.limits`: how much of a queue, type, owner or key may run at once, or start in a time."""

from collections.abc import Coroutine
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.errors import Invalid
from holdfast.model.limits.usage_limits import parse_rate
from holdfast.wire.limits import (
    LIST_PATH,
    LimitChange,
    LimitDetail,
    LimitListQuery,
    LimitPage,
    LimitQuery,
    LimitRequest,
    limit_path,
)
from holdfast.wire.status import Changed


class Limits(Namespace):
    """Limits of use, by their names."""

    @both
    def list(self, *, count_max: int = COUNT_MAX) -> Coroutine[Any, Any, LimitPage]:
        """List limits with what is held of them and what waits for them."""
        return read_some(
            self._client.read, LIST_PATH, LimitPage, query=LimitListQuery(), count_max=count_max
        )

    @both
    def get(
        self,
        name: str,
        *,
        value: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Coroutine[Any, Any, LimitDetail]:
        """Show a limit with its buckets, a page of them, or the one of a value."""
        query = LimitQuery(value, page_size, page_token)
        return self._client.read(limit_path(name), LimitDetail, query=query)

    @both
    def put(
        self,
        name: str,
        per: str,
        *,
        slots: int | None = None,
        rate: str | None = None,
        window: bool = False,
        burst: float | None = None,
        only_for: str | None = None,
        in_queue: str | None = None,
        in_type: str | None = None,
    ) -> Coroutine[Any, Any, LimitChange]:
        """Set a limit per queue, type, owner, key or name: so many slots, or a rate such as 10/s.

        A rate is a token bucket, or with `window` a sliding window.
        """
        most, period, kind = _amounts(slots, rate, window=window)
        body = LimitRequest(
            per,
            most,
            kind=kind,
            period=period,
            burst=burst,
            only_for=only_for,
            in_queue=in_queue,
            in_type=in_type,
        )
        return self._client.change(limit_path(name), body, LimitChange, method="PUT")

    @both
    async def delete(self, name: str) -> bool:
        """Delete a limit; what it held back is put in line again. False if there was none."""
        return (await self._client.change(limit_path(name), None, Changed, method="DELETE")).changed


def _amounts(
    slots: int | None, rate: str | None, *, window: bool
) -> tuple[float, float | None, str]:
    if (slots is None) == (rate is None):
        raise Invalid("slots", "or a rate is what a limit is about; give one of the two")
    if rate is None:
        assert slots is not None
        return float(slots), None, "concurrency"
    return *parse_rate(rate), "window" if window else "bucket"
