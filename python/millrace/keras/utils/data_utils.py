"""Sequences of batches, and files that would come from elsewhere."""

import hashlib
import os


class Sequence:
    """The base of sequences of batches: a subclass defines __getitem__ and __len__."""

    use_sequence_api = True

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def on_epoch_end(self):
        """Is called after each epoch."""

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]


def _file_hash(path, algorithm):
    h = hashlib.sha256() if algorithm == "sha256" else hashlib.md5()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 16), b""):
            h.update(block)
    return h.hexdigest()


def _hash_fits(path, wanted, algorithm):
    if algorithm == "auto":
        algorithm = "sha256" if len(wanted) == 64 else "md5"
    return _file_hash(path, algorithm) == wanted


def get_file(fname, origin, untar=False, md5_hash=None, file_hash=None, cache_subdir="datasets", hash_algorithm="auto",
             extract=False, archive_format="auto", cache_dir=None):
    """The path of a file that is in the cache (~/.keras) already.  Millrace itself fetches nothing from the network."""
    cache_dir = cache_dir or os.path.join(os.path.expanduser("~"), ".keras")
    folder = os.path.join(cache_dir, cache_subdir)
    path = os.path.join(folder, fname + ".tar.gz" if untar else fname)
    wanted = file_hash or md5_hash
    if not os.path.exists(path):
        raise FileNotFoundError("%s does not exist, and millrace does not download files: download it from %s to that path" %
                                (path, origin))
    if wanted and not _hash_fits(path, wanted, "md5" if file_hash is None else hash_algorithm):
        raise ValueError("%s is not the requested file: its hash differs from %s" % (path, wanted))
    if untar or extract:
        _extract(path, folder, archive_format)
    return os.path.join(folder, fname) if untar else path


def _extract(path, folder, archive_format):
    """Of the formats that are named ("auto" is all), the one that the file has; a file of none stays as it is."""
    import tarfile
    import zipfile
    formats = ("tar", "zip") if archive_format == "auto" else (archive_format,) if isinstance(archive_format, str) else (
        archive_format or ())
    unknown = set(formats) - {"tar", "zip"}
    if unknown:
        raise ValueError("archive_format must be auto, tar, zip or None, got %s" % sorted(unknown))
    if "tar" in formats and tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    elif "zip" in formats and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
