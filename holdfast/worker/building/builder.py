"""What a placed attempt needs before its command can start: its workspace and its environment."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.client.context import Lease
from holdfast.client.transport import Transport
from holdfast.worker.building.bundles import Bundles
from holdfast.worker.building.caches import BuildUnavailable, Hold, in_thread
from holdfast.worker.building.environments import Environments
from holdfast.worker.building.unpacking import unpack

CACHE_BYTES_MAX = 10 << 30
ENVIRONMENTS_MAX = 20


class Built(NamedTuple):
    """What was built; `hold` keeps the environment from being evicted, and may be inherited."""

    workspace: Path | None
    python: Path | None
    metrics: dict[str, float | bool]
    hold: Hold | None = None


class Builder:
    """Builds for the attempts of a worker, with caches that other workers of the host may share."""

    def __init__(
        self,
        folder: Path,
        transport: Transport,
        *,
        bundle_bytes_max: int = CACHE_BYTES_MAX,
        environments_max: int = ENVIRONMENTS_MAX,
    ) -> None:
        self._bundles = Bundles(folder / "bundles", transport, bytes_max=bundle_bytes_max)
        self._environments = Environments(
            folder / "environments", environments_max=environments_max
        )

    async def build(
        self, bundle: str | None, requirements: Sequence[str], lease: Lease, *, into: Path
    ) -> Built:
        """Unpack the bundle into a new folder, and find or make the environment.

        The bundle is fetched by the lease of the attempt. Raises BuildFailed where the job is at
        fault, BuildUnavailable where this host, the server or the store is.
        """
        metrics: dict[str, float | bool] = {}
        try:
            if bundle is not None:
                await self._unpack(bundle, lease, into, metrics=metrics)
            workspace = None if bundle is None else into
            if not requirements:
                return Built(workspace, None, metrics)
            began_at = time.monotonic()
            environment = await self._environments.open(requirements)
            metrics["environment_ms"] = _ms_since(began_at)
            metrics["environment_cached"] = environment.was_cached
            return Built(workspace, environment.python, metrics, environment.hold)
        except OSError as error:
            raise BuildUnavailable(f"this worker cannot build: {error}") from error

    def release(self, built: Built) -> None:
        """Say that the attempt has ended: its environment may be evicted. Its workspace stays."""
        if built.hold is not None:
            built.hold.close()

    async def _unpack(
        self, bundle: str, lease: Lease, into: Path, *, metrics: dict[str, float | bool]
    ) -> None:
        began_at = time.monotonic()
        fetched = await self._bundles.fetch(bundle, lease)
        try:
            metrics["fetch_ms"] = _ms_since(began_at)
            metrics["bundle_cached"] = fetched.was_cached
            metrics["bytes"] = fetched.size
            began_at = time.monotonic()
            await in_thread(partial(unpack, fetched.hold, into))
            metrics["unpack_ms"] = _ms_since(began_at)
        finally:
            fetched.hold.close()


def _ms_since(began_at: float) -> float:
    return round((time.monotonic() - began_at) * 1000, 3)
