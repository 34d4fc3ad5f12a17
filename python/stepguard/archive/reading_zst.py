# SPDX-License-Identifier: Apache-2.0
"""Reading what is stored compressed, a bounded piece at a time: its owner may have put anything into the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

# At most 32 MiB come out of this much at once: a block of 4 bytes stands for at most 128 KiB (RFC 8878, 3.1.1.2).
_PIECE_BYTES = 1 << 10


class Damaged(ValueError):
    """What is stored is no zstd, or is cut off; the text says which."""


def decompressed(file: BinaryIO) -> Iterator[bytes]:
    """What the frames of a file stand for. Raises Damaged after the last piece that is whole, and OSError."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame = None
    piece = b""
    while piece or (piece := file.read(_PIECE_BYTES)):
        frame = frame or decompressor.decompressobj()
        try:
            out = frame.decompress(piece)
        except zstandard.ZstdError as error:
            raise Damaged(f"not what zstd wrote: {error}") from error
        piece = b""
        if out:
            yield out
        if frame.eof:
            piece, frame = frame.unused_data, None
    if frame is not None:
        raise Damaged("cut off")
