"""Pickles, opened. They outlive the names of modules: what is public is looked up in `holdfast`."""

import base64
import pickle
from importlib import import_module
from io import BytesIO
from typing import Any


def unpickle(text: str) -> Any:
    """Open what was pickled and put into base64."""
    return _Unpickler(BytesIO(base64.b64decode(text))).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("holdfast."):
            # By name, because the package offers more than this layer may import.
            public = import_module("holdfast")
            if name in public.__all__:
                return getattr(public, name)
        return super().find_class(module, name)
