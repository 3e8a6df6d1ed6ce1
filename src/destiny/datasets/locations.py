"""The files of the data sets: folder, checksums and addresses."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from destiny.errors import INSTALL, MissingExtraError, ProblemError

VARIABLE = "DESTINY_DATA"


@dataclass(frozen=True)
class Remote:
    """Address of a file, of the file gzipped, or of an archive that has it."""

    url: str
    md5: str


@dataclass(frozen=True)
class File:
    """A file of a data set; ``path`` is relative to the data folder."""

    path: str
    md5: str  # of the plain file; the same content gzipped, under its name and .gz, does as well
    remote: Remote | None = None

    @property
    def archived(self) -> bool:
        """Whether the address is that of an archive."""
        return self.remote is not None and self.remote.url.endswith(".tar.gz")


MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"  # the site named in the paper no longer serves them
CIFAR = "https://www.cs.toronto.edu/~kriz/"
CIFAR_10 = Remote(CIFAR + "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
CIFAR_100 = Remote(CIFAR + "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8")


def _mnist(name: str, md5: str, gz_md5: str) -> File:
    return File(f"mnist/{name}", md5, Remote(f"{MNIST}{name}.gz", gz_md5))


# MD5 sums of Cora are those of our copies: none is published.
FILES: dict[str, tuple[File, ...]] = {
    "cora-DS": (File("cora/Cora_DS_uni.mat", "e64ebfbb7b7df4b746952f6f278f951a"),),
    "cora-HA": (File("cora/Cora_HA_uni.mat", "966c7572d1da0b3f8c34cba2ad55b674"),),
    "cora-PL": (File("cora/Cora_PL_uni.mat", "303c07b3f48f2620212d9d267373265f"),),
    "mnist": (
        _mnist(
            "train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873"
        ),
        _mnist(
            "train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432"
        ),
    ),
    "cifar10": tuple(
        File(f"cifar-10-batches-bin/data_batch_{k}.bin", md5, CIFAR_10)
        for k, md5 in enumerate(
            (
                "5dd7e06a14cb22eb9f671a540d1b7c25",
                "5ea93a67294ea407fff1d09f752e9692",
                "942cd6a4bcdd0dd3c604fbe906cb4421",
                "ae636b3ba5c66a11e91e8cb52e771fcb",
                "53f37980c15c3d472c316c40844f3f0d",
            ),
            start=1,
        )
    ),
    "cifar100": (File("cifar-100-binary/train.bin", "6172c7755cfe09b2fe270c85cebc1b15", CIFAR_100),),
}


def home(folder: str | Path | None = None) -> Path:
    """The data folder: ``folder``, the variable DESTINY_DATA, or the user's cache, in this order."""
    if folder is not None:
        return Path(folder)
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "destiny"


def find(name: str, folder: str | Path | None = None, fetch: bool = True) -> list[Path]:
    """Paths of the files of a data set, checked by their MD5 sums; ``fetch`` downloads missing ones."""
    place = home(folder)
    return [_find_one(file, place, fetch) for file in FILES[name]]


def _find_one(file: File, place: Path, fetch: bool) -> Path:
    if place.exists() and not place.is_dir():
        raise ProblemError(f"the data folder must be a folder; found a file: {place}")
    plain, zipped = place / file.path, place / f"{file.path}.gz"
    path = plain if plain.is_file() or not zipped.is_file() else zipped
    if not path.is_file():
        if not fetch:
            raise ProblemError(missing(file, place))
        path = download(file, place)
    if (md5 := checksum(path)) != file.md5:
        cure = "put a whole copy there" if file.remote is None else "delete it, and it is fetched again"
        raise ProblemError(
            f"the content of {path} must have the MD5 sum {file.md5}; found {md5}: the file is damaged or "
            f"another version; {cure}"
        )
    return path


def missing(file: File, place: Path, why: str = "found none") -> str:
    """A sentence on a missing file: its path, its source and the folder it belongs in."""
    if file.remote is None:
        source = "no address that serves it is known (Section 4.4 of the paper names its source)"
    else:
        source = f"get it from {file.remote.url}" + (" and unpack it" if file.archived else "")
    return (
        f"{place / file.path} must be there; {why}; {source}; it belongs into {(place / file.path).parent}, "
        f"or name the folder that has it with --data or {VARIABLE}"
    )


def download(file: File, place: Path) -> Path:
    """Download a file and return its path; raise an error that says how to get it otherwise."""
    if file.remote is None:
        raise ProblemError(missing(file, place))
    try:
        import pooch
    except ImportError as error:
        raise MissingExtraError(
            missing(file, place, f"it is fetched for you after {INSTALL.format(extra='data')}")
        ) from error
    target = (place / file.path).parent
    name = file.remote.url.rpartition("/")[2]
    try:
        path = Path(
            pooch.retrieve(
                file.remote.url,
                known_hash=f"md5:{file.remote.md5}",
                fname=name,
                path=place if file.archived else target,
            )
        )
    except Exception as error:  # whatever the network, the proxy or the disk came up with
        why = f"it could not be fetched ({type(error).__name__})"
        raise ProblemError(missing(file, place, why)) from error
    if file.archived:
        with tarfile.open(path) as archive:
            archive.extractall(place, filter="data")
        path.unlink()
        return place / file.path
    return path


def checksum(path: Path) -> str:
    """The MD5 sum of a file's content, after decompression."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with opener(path, "rb") as stream:
            while part := stream.read(2**20):
                digest.update(part)
    except (OSError, EOFError, zlib.error) as error:
        raise ProblemError(f"{path} cannot be read: {error}") from error
    return digest.hexdigest()
