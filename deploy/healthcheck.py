"""Ask the server of this container whether it can work; the exit code says so to Docker.

It asks over loopback, so whose certificate answers is not looked at, and a proxy is not asked.
"""

import os
import ssl
import sys
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

SECONDS_MAX = 4


def main() -> int:
    """Ask for /readyz; any other answer than 200 is an error."""
    port = os.environ.get("HOLDFAST_PORT", "7878")
    scheme = "https" if os.environ.get("HOLDFAST_TLS_CERT") else "http"
    context = ssl._create_unverified_context()
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    address = f"{scheme}://127.0.0.1:{port}/readyz"
    try:
        with opener.open(address, timeout=SECONDS_MAX):
            return 0
    except OSError as error:
        sys.stderr.write(f"{address}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
