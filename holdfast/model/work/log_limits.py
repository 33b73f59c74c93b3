"""How much is kept of the output of one attempt: its beginning, and its end.

0 ── head, kept ── HEAD_BYTES ── left out, if there is more ── end - TAIL_BYTES ── tail, kept ── end

Bytes keep their offsets, so whoever reads sees by them how many are left out.
"""

HEAD_BYTES = 8 << 20
TAIL_BYTES = 8 << 20


def describe_left_out(byte_count: int, *, before: bytes = b"\n") -> bytes:
    """Say, in a line of its own after the bytes before it, how much of a log is left out there."""
    line = b"[%d bytes of output are left out here]\n" % byte_count
    return line if before.endswith((b"\n", b"\r")) or not before else b"\n" + line
