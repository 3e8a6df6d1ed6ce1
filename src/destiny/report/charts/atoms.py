"""The columns of a dictionary as small pictures, side by side in one PNG."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array
from destiny.report.sources.folder import MethodResults, read_solution
from destiny.report.sources.results import PanelResults

MOST = 64  # pictures; more are too small to see
GAP = 1  # pixels between them
Pixels = NDArray[np.uint8]


def picture_shape(features: int, image: Any) -> tuple[int, int, int] | None:
    """Return (height, width, channels): ``image`` if given, a square if ``features`` is one, otherwise None.

    Raises ValueError if ``image`` does not have as many numbers as there are features.
    """
    if image:
        height, width, *rest = (int(side) for side in image)
        shape = height, width, rest[0] if rest else 1
        if math.prod(shape) != features or shape[2] not in (1, 3):
            raise ValueError(f"pictures of {image} pixels do not have {features} numbers")
        return shape
    side = math.isqrt(features)
    return (side, side, 1) if side * side == features and side >= 4 else None


def best_run(panel: PanelResults) -> tuple[MethodResults, Array] | None:
    """Return the run with the smallest objective and its X; None if no solution can be read."""
    solutions = [(run, X) for run in panel.first.runs if (X := read_solution(run)) is not None]

    def objective(pair: tuple[MethodResults, Array]) -> float:
        value = pair[0].entry.get("objective")
        return float(value) if isinstance(value, int | float) else math.inf

    return min(solutions, key=objective) if solutions else None


def sheet(X: Array, shape: tuple[int, int, int]) -> Pixels:
    """Return the columns of X as pictures in a grid, ``(height, width, 3)``; zero is mid-gray."""
    height, width, channels = shape
    atoms = X.T[:MOST]
    # Divided by the largest entry with its sign: an atom and its negative are the same one.
    largest = np.take_along_axis(atoms, np.abs(atoms).argmax(axis=1)[:, None], axis=1)
    atoms = atoms / np.where(largest == 0, 1.0, largest)
    # A column holds one color plane after the other.
    pictures = atoms.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    columns = min(len(pictures), max(1, round(math.sqrt(2 * len(pictures)))))
    rows = -(-len(pictures) // columns)
    out = np.full((rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, 3), 255, dtype=np.uint8)
    for k, picture in enumerate(pictures):
        top, left = GAP + k // columns * (height + GAP), GAP + k % columns * (width + GAP)
        out[top : top + height, left : left + width] = np.round(127.5 + 127.5 * picture)
    return out


def png(pixels: Pixels) -> bytes:
    """Return RGB pixels as the content of a PNG file."""
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
    """Return the picture as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()
