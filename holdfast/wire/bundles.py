"""Workspace bundles on the wire: how one is named, how large it may be, how an upload is answered.

A bundle is a zip of a folder. Its name is the SHA-256 of its content, so it never changes.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.errors import Invalid

BUNDLE_BYTES_MAX = 512 << 20
# What comes out of a bundle is held to bounds of its own: zeros compress a thousandfold.
UNPACKED_BYTES_MAX = 4 << 30
ENTRIES_MAX = 100_000
OCTETS = "application/octet-stream"
_PATTERN = "[0-9a-f]{64}"
_HASH = re.compile(_PATTERN)

BundleHash = Annotated[
    str,
    Meta(extra_json_schema={"pattern": f"^{_PATTERN}$", "examples": ["0123456789abcdef" * 4]}),
]


class StoredBundle(msgspec.Struct, frozen=True):
    """A bundle that the server holds; `is_new` if it did not hold it before this request."""

    bundle: BundleHash
    size: int
    is_new: bool


def check_bundle_hash(text: str) -> str:
    """Refuse what is no content hash."""
    if not _HASH.fullmatch(text):
        raise Invalid(
            "bundle", f"{text[:100]!r} is not a content hash; give what the upload of it has said"
        )
    return text


def bundle_path(bundle: str) -> str:
    """Say where the server keeps a bundle."""
    return f"/api/bundles/{bundle}"
