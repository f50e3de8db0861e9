"""Files by TensorFlow's rules: errors are tf.errors, files are opened at the first read or write, text is UTF-8.

tf.gfile and tf.io.gfile have these functions by other names.
"""
import errno
import fnmatch
import glob as _glob
import os
import shutil
import tempfile
import zlib

from .compat import as_bytes, as_str_any, path_to_str
from .framework import errors

_CLASSES = {
    errno.ENOENT: errors.NotFoundError, errno.EEXIST: errors.AlreadyExistsError,
    errno.EACCES: errors.PermissionDeniedError, errno.EPERM: errors.PermissionDeniedError,
    errno.EROFS: errors.PermissionDeniedError, errno.ENOTDIR: errors.FailedPreconditionError,
    errno.EISDIR: errors.FailedPreconditionError, errno.ENOTEMPTY: errors.FailedPreconditionError,
    errno.EINVAL: errors.InvalidArgumentError, errno.ENAMETOOLONG: errors.InvalidArgumentError,
    errno.ENOSPC: errors.ResourceExhaustedError, errno.EMFILE: errors.ResourceExhaustedError,
    errno.EBUSY: errors.UnavailableError,
}


def as_path(name):
    """A name as the system knows it: without file://, which is the only file system there is."""
    path = as_str_any(path_to_str(name))
    scheme, found, rest = path.partition("://")
    if not found or "/" in scheme:
        return path
    if scheme != "file":
        raise errors.UnimplementedError(None, None, "File system scheme '%s' not implemented (file: '%s')" % (scheme, path))
    return rest


class _Errors:
    """Around calls of the system: what they raise becomes an OpError that names the path."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        return self

    def __exit__(self, kind, e, trace):
        if kind is not None and issubclass(kind, OSError):
            cls = _CLASSES.get(e.errno, errors.UnknownError)
            raise cls(None, None, "%s; %s" % (self._path, os.strerror(e.errno) if e.errno else e)) from None
        return False


class FileIO:
    """A file for reading ("r"), writing ("w", "a") or both ("r+", "w+", "a+"); with "b" it gives bytes, else text.

    Reading and writing have a place in the file each, as in TensorFlow; writing begins a new file unless it appends.
    """

    def __init__(self, name, mode="r"):
        plain = mode.replace("b", "")
        if plain not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.InvalidArgumentError(None, None, "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+': %r" % mode)
        self._reader = self._writer = None
        self._name, self._mode, self._binary, self._path = name, mode, "b" in mode, as_path(name)
        self._reads, self._writes, self._appends = plain[0] == "r" or "+" in plain, plain != "r", plain[0] == "a"

    name = property(lambda self: self._name, doc="The path of the file.")
    mode = property(lambda self: self._mode, doc="The mode the file was opened with.")

    def _to_read(self):
        if not self._reads:
            raise errors.PermissionDeniedError(None, None, "File isn't open for reading")
        if self._reader is None:
            with _Errors(self._path):
                self._reader = open(self._path, "rb")
        return self._reader

    def _to_write(self):
        if not self._writes:
            raise errors.PermissionDeniedError(None, None, "File isn't open for writing")
        if self._writer is None:
            with _Errors(self._path):
                self._writer = open(self._path, "ab" if self._appends else "wb")
        return self._writer

    def _text(self, data):
        return data if self._binary else data.decode("utf-8")

    def size(self):
        """Returns the size of the file in bytes."""
        return stat(self._path).length

    def read(self, n=-1):
        """Reads n bytes or characters, or the rest of the file for -1."""
        f = self._to_read()
        with _Errors(self._path):
            return self._text(f.read(n))

    def readline(self):
        """Reads a line, with its end; an empty result is the end of the file."""
        f = self._to_read()
        with _Errors(self._path):
            return self._text(f.readline())

    def readlines(self):
        """Reads all remaining lines into a list."""
        return list(self)

    def __iter__(self):
        return self

    def __next__(self):
        """Returns the next line."""
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def write(self, file_content):
        """Writes to the file."""
        f = self._to_write()
        with _Errors(self._path):
            f.write(as_bytes(file_content))
            if self._reads:
                f.flush()

    def seek(self, offset=None, whence=0, position=None):
        """Sets the position to read from next."""
        if offset is None:
            if position is None:
                raise TypeError("seek(): offset argument required")
            offset = position
        elif position is not None:
            raise TypeError("seek(): offset and position may not be set simultaneously.")
        if whence not in (0, 1, 2):
            raise errors.InvalidArgumentError(None, None, "Invalid whence argument: %s" % whence)
        f = self._to_read()
        with _Errors(self._path):
            f.seek(offset, whence)

    def tell(self):
        """Returns the current position in the file."""
        return (self._to_read() if self._reads else self._to_write()).tell()

    def flush(self):
        """Passes what was written to the operating system."""
        if self._writer is not None:
            with _Errors(self._path):
                self._writer.flush()

    def close(self):
        """Closes the file."""
        with _Errors(self._path):
            for f in (self._reader, self._writer):
                if f is not None:
                    f.close()
        self._reader = self._writer = None

    def seekable(self):
        """Returns True."""
        return True

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __del__(self):
        for f in (getattr(self, "_reader", None), getattr(self, "_writer", None)):
            if f is not None:
                f.close()


class FileStatistics:
    """The length, the modification time and the kind of a file."""

    def __init__(self, length, mtime_nsec, is_directory):
        self.length, self.mtime_nsec, self.is_directory = length, mtime_nsec, is_directory


# ---- single files ----

def file_exists(filename):
    """Whether a file or folder with this path exists."""
    return os.path.exists(as_path(filename))


def stat(filename):
    """Returns the length, the modification time and the kind of a file."""
    path = as_path(filename)
    with _Errors(path):
        s = os.stat(path)
    return FileStatistics(s.st_size, s.st_mtime_ns, os.path.isdir(path))


def delete_file(filename):
    """Deletes a file."""
    path = as_path(filename)
    with _Errors(path):
        os.remove(path)


def read_file_to_string(filename, binary_mode=False):
    """Returns the contents of a file: bytes with binary_mode, else a string."""
    with FileIO(filename, "rb" if binary_mode else "r") as f:
        return f.read()


def write_string_to_file(filename, file_content):
    """Replaces the contents of a file with a string."""
    with FileIO(filename, "w") as f:
        f.write(file_content)


def atomic_write_string_to_file(filename, contents, overwrite=True):
    """Readers see the old file or the whole new one."""
    path = as_path(filename)
    if not overwrite and os.path.exists(path):
        raise errors.AlreadyExistsError(None, None, "file already exists: %s" % path)
    with _Errors(path):
        handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".tmp", dir=os.path.dirname(path) or ".")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(as_bytes(contents))
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise


def copy(oldpath, newpath, overwrite=False):
    """Copies a file; an existing target is an error unless overwrite is True."""
    old, new = as_path(oldpath), as_path(newpath)
    if not overwrite and os.path.exists(new):
        raise errors.AlreadyExistsError(None, None, "file already exists: %s" % new)
    with _Errors(old):
        shutil.copyfile(old, new)


def rename(oldname, newname, overwrite=False):
    """Moves a file or folder; an existing target is an error unless overwrite is True."""
    old, new = as_path(oldname), as_path(newname)
    if not overwrite and os.path.exists(new):
        raise errors.AlreadyExistsError(None, None, "file already exists: %s" % new)
    with _Errors(old):
        os.replace(old, new)


def filecmp(filename_a, filename_b):
    """Whether two files have the same contents."""
    if stat(filename_a).length != stat(filename_b).length:
        return False
    return read_file_to_string(filename_a, True) == read_file_to_string(filename_b, True)


def file_crc32(filename, block_size=1 << 24):
    """Returns the CRC-32 of a file, in hexadecimal."""
    crc = 0
    with FileIO(filename, "rb") as f:
        for block in iter(lambda: f.read(block_size), b""):
            crc = zlib.crc32(block, crc)
    return hex(crc & 0xFFFFFFFF)


# ---- folders ----

def is_directory(dirname):
    """Whether the path is a folder."""
    return os.path.isdir(as_path(dirname))


def create_dir(dirname):
    """Makes a folder whose parent exists."""
    path = as_path(dirname)
    with _Errors(path):
        os.mkdir(path)


def recursive_create_dir(dirname):
    """Makes a folder and the parents it needs."""
    path = as_path(dirname)
    with _Errors(path):
        os.makedirs(path, exist_ok=True)


def delete_recursively(dirname):
    """Deletes a file, or a folder with all it contains."""
    path = as_path(dirname)
    with _Errors(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def list_directory(dirname):
    """Returns the names of the entries of a folder."""
    path = as_path(dirname)
    if not os.path.isdir(path):
        raise errors.NotFoundError(None, None, "Could not find directory %s" % path)
    with _Errors(path):
        return sorted(os.listdir(path))


def get_matching_files(filename):
    """The files that a pattern, or any of several, matches; `*` stops at a slash."""
    patterns = [filename] if isinstance(filename, (str, bytes)) or hasattr(filename, "__fspath__") else list(filename)
    return [path for p in patterns for path in sorted(_matches(as_path(p)))]


def _matches(pattern):
    # Names that begin with a dot are names like others to TensorFlow, not to Python.
    folder, last = os.path.split(pattern)
    if not any(c in last for c in "*?["):
        return _glob.glob(pattern)
    found = []
    for d in _matches(folder) if any(c in folder for c in "*?[") else [folder]:
        try:
            names = os.listdir(d or ".")
        except OSError:
            continue
        found += [os.path.join(d, n) for n in names if fnmatch.fnmatchcase(n, last)]
    return found


def walk(top, in_order=True):
    """(folder, its folders, its files) for each folder; the outer ones first, or last."""
    top = as_path(top)
    try:
        names = list_directory(top)
    except errors.NotFoundError:
        return
    folders = [n for n in names if is_directory(os.path.join(top, n))]
    here = (top, folders, [n for n in names if n not in folders])
    if in_order:
        yield here
    for folder in folders:
        yield from walk(os.path.join(top, folder), in_order)
    if not in_order:
        yield here
