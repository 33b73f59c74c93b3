"""A codec that encrypts: Fernet of the library `cryptography`, with keys that can be rotated.

CLINIC_KEYS holds the keys, the newest first, with blanks between them. The first one encrypts, and
all of them decrypt. new_key.py makes one.
"""

import os

from cryptography.fernet import Fernet, MultiFernet


class FernetCodec:
    """Encrypts, and proves on the way back that nobody has changed anything."""

    name = "fernet"

    def __init__(self, keys: list[str]) -> None:
        if not keys:
            raise ValueError("there is no key; set CLINIC_KEYS")
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def encode(self, content: bytes) -> bytes:
        """Encrypt a payload by the newest key."""
        return self._fernet.encrypt(content)

    def decode(self, content: bytes) -> bytes:
        """Decrypt a payload by whichever key it was encrypted."""
        return self._fernet.decrypt(content)


codec = FernetCodec(os.environ.get("CLINIC_KEYS", "").split())
