"""Data sets from official files: formats, sums, what is missing, what is fetched."""

import functools
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import destiny
from destiny import datasets
from destiny.datasets import formats, locations
from destiny.errors import MissingExtraError, ProblemError, SettingsError
from destiny.experiments import file


def idx(array: np.ndarray) -> bytes:
    """An IDX file, written after its description by the authors of MNIST."""
    head = bytes([0, 0, 8, array.ndim]) + b"".join(int(k).to_bytes(4, "big") for k in array.shape)
    return head + array.tobytes()


def bytes_like(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


IMAGES, LABELS = bytes_like(7, 28, 28), bytes_like(7) % 10
CIFAR = bytes_like(4, 3074)
WORDS = bytes_like(6, 9) % 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with tiny files of every format, and the table of sums made theirs."""
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"X": scipy.sparse.csc_matrix(WORDS), "Y": np.array([[1], [2], [3]] * 2)})
    contents = {
        "cora-DS": {"cora/Cora_DS_uni.mat": buffer.getvalue()},
        "mnist": {
            "mnist/train-images-idx3-ubyte": idx(IMAGES),
            "mnist/train-labels-idx1-ubyte": idx(LABELS),
        },
        "cifar10": {
            f"cifar-10-batches-bin/data_batch_{k + 1}.bin": CIFAR[k : k + 1, :3073].tobytes()
            for k in range(4)
        },
        "cifar100": {"cifar-100-binary/train.bin": CIFAR.tobytes()},
    }
    table = {}
    for name, held in contents.items():
        for path, content in held.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(content)
        table[name] = tuple(locations.File(path, md5(content)) for path, content in held.items())
    monkeypatch.setattr(locations, "FILES", table)
    return tmp_path


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def test_mnist_is_mapped_and_transposed(folder):
    found = datasets.mnist(folder)
    assert isinstance(found.data, np.memmap)
    assert found.image == (28, 28)
    np.testing.assert_array_equal(found.data, IMAGES.reshape(7, 784))
    np.testing.assert_array_equal(found.labels, LABELS)


def test_gzipped_files_do_as_well(folder):
    for held in locations.FILES["mnist"]:
        plain = folder / held.path
        plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes(), 1))
        plain.unlink()
    np.testing.assert_array_equal(datasets.mnist(folder).data, IMAGES.reshape(7, 784))
    (folder / f"{locations.FILES['mnist'][0].path}.gz").write_bytes(b"not gzipped")
    with pytest.raises(ProblemError, match="cannot be read"):
        datasets.mnist(folder)


def test_cifar_leaves_the_labels_out_of_the_pixels(folder):
    ten, hundred = datasets.cifar10(folder), datasets.cifar100(folder)
    np.testing.assert_array_equal(ten.data, CIFAR[:, 1:3073])
    np.testing.assert_array_equal(ten.labels, CIFAR[:, 0])
    assert isinstance(hundred.data, np.memmap)
    np.testing.assert_array_equal(hundred.data, CIFAR[:, 2:])
    np.testing.assert_array_equal(hundred.labels, CIFAR[:, 1])  # the fine ones
    assert ten.image == hundred.image == (32, 32, 3)


def test_cora_takes_the_first_features(folder):
    found = datasets.cora("DS", features=4, folder=folder)
    np.testing.assert_array_equal(found.data, WORDS[:, :4])
    assert found.data.dtype == np.float64
    assert datasets.cora("DS", features=None, folder=folder).data.shape == (6, 9)
    with pytest.raises(SettingsError, match="features must be 1 to 9 on cora-DS; found 10"):
        datasets.cora("DS", features=10, folder=folder)
    with pytest.raises(SettingsError, match="DS, HA and PL; found 'OS'"):
        datasets.cora("OS")


def test_a_damaged_file_is_refused_by_its_sum(folder):
    path = folder / "cifar-100-binary/train.bin"
    content = bytearray(path.read_bytes())
    content[77] ^= 1
    path.write_bytes(content)
    with pytest.raises(ProblemError, match=r"train\.bin must have the MD5 sum .* put a whole copy there"):
        datasets.cifar100(folder)


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", "another beginning"), (b"\0\0\x0d\x01", "another beginning"), (idx(LABELS)[:-1], "found 6")],
)
def test_what_is_no_idx_file(tmp_path, content, found):
    for path, opened in ((tmp_path / "x", content), (tmp_path / "x.gz", gzip.compress(content))):
        path.write_bytes(opened)
        with pytest.raises(ProblemError, match=found):
            formats.read_idx(path)
    (tmp_path / "y.gz").write_bytes(b"not gzipped")
    with pytest.raises(ProblemError, match="cannot be read"):
        formats.read_idx(tmp_path / "y.gz")


def test_what_is_no_cifar_and_no_matlab_file(tmp_path):
    (tmp_path / "x").write_bytes(bytes(3074))
    with pytest.raises(ProblemError, match="rows of 3073 bytes; found 3074 bytes"):
        formats.read_cifar(tmp_path / "x", labels=1)
    with pytest.raises(ProblemError, match="must be a MATLAB file with X and Y"):
        formats.read_cora(tmp_path / "x")


def test_a_missing_file_says_which_from_where_and_into_which_folder(tmp_path):
    with pytest.raises(ProblemError) as told:
        locations.find("mnist", tmp_path, fetch=False)
    for part in (
        "train-images-idx3-ubyte must be there",
        "get it from https://",
        f"belongs into {tmp_path / 'mnist'}",
        "DESTINY_DATA",
    ):
        assert part in str(told.value)
    with pytest.raises(ProblemError, match="no address that serves it is known"):
        datasets.cora("HA", folder=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ProblemError, match="must be a folder; found a file"):
        datasets.mnist(tmp_path / "file")


def test_the_folder_is_the_one_given_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DESTINY_DATA", str(tmp_path / "variable"))
    assert locations.home("given") == Path("given")
    assert locations.home() == tmp_path / "variable"
    monkeypatch.delenv("DESTINY_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert locations.home() == tmp_path / "destiny"


@pytest.fixture
def server(tmp_path):
    """A web server on this machine."""
    root = tmp_path / "served"
    root.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield root, f"http://127.0.0.1:{running.server_address[1]}/"
        running.shutdown()


def test_what_is_missing_is_fetched_and_checked(server, tmp_path, monkeypatch):
    pytest.importorskip("pooch", reason="pooch is not installed")
    root, url = server
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        entry = tarfile.TarInfo("cifar-100-binary/train.bin")
        entry.size = CIFAR.nbytes
        tar.addfile(entry, io.BytesIO(CIFAR.tobytes()))
    zipped = gzip.compress(idx(IMAGES))
    (root / "c.tar.gz").write_bytes(archive.getvalue())
    (root / "images.gz").write_bytes(zipped)
    inside = locations.Remote(url + "c.tar.gz", md5(archive.getvalue()))
    home = tmp_path / "home"
    packed = locations.File("cifar-100-binary/train.bin", md5(CIFAR.tobytes()), inside)
    monkeypatch.setattr(locations, "FILES", {"cifar100": (packed,)})
    np.testing.assert_array_equal(datasets.cifar100(home).data, CIFAR[:, 2:])
    assert [p.name for p in home.iterdir()] == ["cifar-100-binary"]  # the archive is gone

    single = locations.File("images", md5(idx(IMAGES)), locations.Remote(url + "images.gz", md5(zipped)))
    assert locations.download(single, home).name == "images.gz"
    other = locations.File("images", "0", locations.Remote(url + "images.gz", "1" * 32))
    (home / "images.gz").unlink()
    with pytest.raises(ProblemError, match=r"could not be fetched \(ValueError\)"):
        locations.download(other, home)
    assert not (home / "images.gz").exists()


def test_without_pooch_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r'after pip install "\.\[data\]"'):
        datasets.mnist(tmp_path)


def test_an_experiment_file_may_name_a_data_set(folder):
    network = {"kind": "ring"}
    tables = {"problem": {"kind": "sdl", "dataset": "mnist", "p": 2, "agents": 3}, "network": network}
    asked = file.make(tables, Path(), "here", home=folder)
    assert asked.problem.shape == (784, 2)
    X = np.eye(784)[:, :2]
    whole = destiny.problems.SDL([IMAGES.reshape(7, 784)], 2)
    split = asked.problem.host(range(3)).value(np.stack([X] * 3)).sum()
    assert split == pytest.approx(whole.host([0]).value(X[None])[0])

    classes = {"problem": {"kind": "olsr", "dataset": "digits", "agents": 4, "p": 9}, "network": network}
    with pytest.raises(SettingsError, match="p is 9 but digits has 10 classes"):
        file.make(classes, Path(), "here")
    del classes["problem"]["p"]
    assert file.make(classes, Path(), "here").problem.shape == (64, 10)
    classes["problem"]["dataset"] = "iris"
    with pytest.raises(SettingsError, match=r"dataset must be one of .*digits.*; found 'iris'"):
        file.make(classes, Path(), "here")
    classes["problem"] |= {"dataset": "digits", "data": "A.npy", "targets": "D.npy"}
    with pytest.raises(SettingsError, match="needs one of data, synthetic, dataset; found data and dataset"):
        file.make(classes, Path(), "here")
