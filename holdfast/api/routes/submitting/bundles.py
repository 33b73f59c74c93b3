"""The routes of workspace bundles: taken in and given out by the hash of their content."""

from holdfast.api.bodies import Octets
from holdfast.api.route import Call, Narrowing, Reply, Route, Stream
from holdfast.errors import NotFound, Unavailable
from holdfast.model.access.roles import Role
from holdfast.services.objects import ObjectStore
from holdfast.services.runtime import Runtime
from holdfast.wire.bundles import BUNDLE_BYTES_MAX, OCTETS, StoredBundle, check_bundle_hash
from holdfast.wire.requests import Nothing

PATH = "/api/bundles/{bundle}"


async def store_bundle(call: Call[Octets, Nothing]) -> Reply:
    """Take in a workspace under the hash of its content; one that is known stays as it is."""
    bundle = check_bundle_hash(call.path["bundle"])
    stored = await _store_of(call.runtime).put(bundle, call.body.read(BUNDLE_BYTES_MAX))
    answer = StoredBundle(bundle, stored.size, stored.is_new)
    return Reply(answer, status=201 if stored.is_new else 200)


async def fetch_bundle(call: Call[None, Nothing]) -> Stream:
    """Give out a workspace; with HEAD, only say how large it is."""
    return await give_out(call.runtime, check_bundle_hash(call.path["bundle"]))


async def give_out(runtime: Runtime, bundle: str) -> Stream:
    """Send a bundle, if it is there."""
    store = _store_of(runtime)
    size = await store.find_size(bundle)
    if size is None:
        raise NotFound("bundle", bundle)
    return Stream(store.read(bundle), content_type=OCTETS.encode(), length=size)


def _store_of(runtime: Runtime) -> ObjectStore:
    if runtime.objects is None:
        raise Unavailable(
            "this server has no object store; start it with --object-store, a folder or s3://..."
        )
    return runtime.objects


ROUTES: tuple[Route, ...] = (
    Route(
        "PUT",
        PATH,
        store_bundle,
        StoredBundle,
        Role.SUBMIT,
        body=Octets,
        also={201: StoredBundle},
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "GET",
        PATH,
        fetch_bundle,
        None,
        Role.CONTENT,
        content_type=OCTETS,
        narrowing=Narrowing.FUNCTION,
    ),
)
