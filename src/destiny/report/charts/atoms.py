"""The columns of a dictionary as little pictures, side by side in one PNG."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array
from destiny.report.sources.folder import Run, read_solution
from destiny.report.sources.results import Panel

MOST = 64  # pictures; more are too small to see
GAP = 1  # pixels between them
Pixels = NDArray[np.uint8]


def picture_shape(features: int, image: Any) -> tuple[int, int, int] | None:
    """(height, width, channels) as the folder says, or a square where the number of features is one."""
    if image:
        height, width, *rest = (int(side) for side in image)
        found = height, width, rest[0] if rest else 1
        if math.prod(found) != features or found[2] not in (1, 3):
            raise ValueError(f"pictures of {image} pixels do not have {features} numbers")
        return found
    side = math.isqrt(features)
    return (side, side, 1) if side * side == features and side >= 4 else None


def chosen(panel: Panel) -> tuple[Run, Array] | None:
    """The answer to show: that of the least objective, among those whose solution is there."""
    found = [(run, X) for run in panel.first.runs if (X := read_solution(run)) is not None]

    def objective(pair: tuple[Run, Array]) -> float:
        value = pair[0].entry.get("objective")
        return float(value) if isinstance(value, int | float) else math.inf

    return min(found, key=objective) if found else None


def sheet(X: Array, shape: tuple[int, int, int]) -> Pixels:
    """Columns of X as pictures in rows, ``(height, width, 3)``: grey is zero, each by its largest entry."""
    height, width, channels = shape
    atoms = X.T[:MOST]
    # By its largest entry with its sign: an atom and its negative are the same one.
    largest = np.take_along_axis(atoms, np.abs(atoms).argmax(axis=1)[:, None], axis=1)
    atoms = atoms / np.where(largest == 0, 1.0, largest)
    # Planes of colour lie one after the other in a column.
    pictures = atoms.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    columns = min(len(pictures), max(1, round(math.sqrt(2 * len(pictures)))))
    rows = -(-len(pictures) // columns)
    out = np.full((rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, 3), 255, dtype=np.uint8)
    for k, picture in enumerate(pictures):
        top, left = GAP + k // columns * (height + GAP), GAP + k % columns * (width + GAP)
        out[top : top + height, left : left + width] = np.round(127.5 + 127.5 * picture)
    return out


def png(pixels: Pixels) -> bytes:
    """A PNG file of RGB pixels."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def data_uri(pixels: Pixels) -> str:
    """The picture inside a page."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()
