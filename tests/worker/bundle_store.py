"""A server that holds bundles, and bundles by hand: what a worker builds from."""

import hashlib
import io
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.client.bundle import pack
from holdfast.client.context import Lease
from holdfast.client.transport import Transport
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.claiming.claim import claim as claim_tasks
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.wire.bundles import StoredBundle, bundle_path


@dataclass
class Store:
    """A server's bundles, and a connection to it."""

    transport: Transport
    folder: Path
    temporary: Path
    ledger: Ledger | None = None

    async def upload(self, workspace: Path) -> str:
        """Upload a folder."""
        file = self.temporary / "packed.zip"
        return await self.put(file, pack(workspace, file).hash)

    async def upload_zip(self, entries: Sequence[tuple[str | zipfile.ZipInfo, str]]) -> str:
        """Upload a zip with names that no client of ours would pack."""
        content = zip_of(entries)
        file = self.temporary / "packed.zip"
        file.write_bytes(content)
        return await self.put(file, hashlib.sha256(content).hexdigest())

    async def lease_for(self, bundle: str) -> Lease:
        """Hold the lease of an attempt whose job has a bundle, as only placed work has."""
        assert self.ledger is not None, "this store is somebody else's"
        fields = {"entrypoint": {"function": "app:work"}, "queue": "q"}
        job_id = (await submit_one(self.ledger, Submission(parse_spec(fields), None))).job_id
        [claims] = await claim_tasks(self.ledger, [ClaimRequest("w1", ("q",), 1)])
        assert not isinstance(claims, Exception), claims
        [claim] = claims
        spec = msgspec.structs.replace(claim.job.spec, bundle=bundle)
        self.ledger.specs.remember(job_id, claim.job._replace(spec=spec))
        return Lease(str(claim.task_id), claim.attempt, claim.lease_token)

    async def put(self, file: Path, bundle: str) -> str:
        """Upload a file."""
        await self.transport.call("PUT", bundle_path(bundle), StoredBundle, body=file)
        return bundle


@asynccontextmanager
async def open_store(database_url: str, folder: Path) -> AsyncIterator[Store]:
    """Serve bundles for the time of a block."""
    options = Options(database_url, object_store=str(folder / "objects"))
    async with serve(options, Address(port=0)) as server, Transport(server.url) as transport:
        yield Store(transport, folder / "objects", folder, server.runtime.ledger)


def zip_of(entries: Sequence[tuple[str | zipfile.ZipInfo, str]]) -> bytes:
    """Pack names and texts as they are."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for name, text in entries:
            packed.writestr(name, text)
    return content.getvalue()


def an_entry(name: str, mode: int) -> zipfile.ZipInfo:
    """Name an entry of a kind: a link, a pipe, a device."""
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = mode << 16
    return entry


def write_wheel(folder: Path, version: str = "1.0") -> Path:
    """Write a package `tiny` that anybody can install without a network."""
    folder.mkdir(exist_ok=True)
    known = f"tiny-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    names = ["tiny.py", *(f"{known}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt"))]
    record = "".join(f"{name},,\n" for name in [*names, f"{known}/RECORD"])
    wheel = folder / f"tiny-{version}-py3-none-any.whl"
    wheel.write_bytes(
        zip_of(
            [
                ("tiny.py", f"VERSION = {version!r}\ndef main(): print('tiny', VERSION)\n"),
                (f"{known}/METADATA", metadata),
                (f"{known}/WHEEL", kind),
                (f"{known}/entry_points.txt", "[console_scripts]\ntiny = tiny:main\n"),
                (f"{known}/RECORD", record),
            ]
        )
    )
    return wheel
