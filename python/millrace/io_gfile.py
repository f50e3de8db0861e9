"""tf.io.gfile: files and folders (file_io) by the newer names, which are Python's own."""
from . import file_io
from .framework import errors
from .file_io import FileIO as GFile  # noqa: F401


def copy(src, dst, overwrite=False):
    """Copies a file; an existing target is an error unless overwrite is True."""
    file_io.copy(src, dst, overwrite)


def exists(path):
    """Whether a file or folder with this path exists."""
    return file_io.file_exists(path)


def glob(pattern):
    """Returns the paths that match a pattern, or one of several."""
    return file_io.get_matching_files(pattern)


def isdir(path):
    """Whether the path is a folder."""
    return file_io.is_directory(path)


def listdir(path):
    """Returns the names of the entries of a folder."""
    return file_io.list_directory(path)


def makedirs(path):
    """Makes a folder and the parents it needs."""
    file_io.recursive_create_dir(path)


def mkdir(path):
    """Makes a folder whose parent exists."""
    file_io.create_dir(path)


def remove(path):
    """Deletes a file."""
    file_io.delete_file(path)


def rename(src, dst, overwrite=False):
    """Moves a file or folder; an existing target is an error unless overwrite is True."""
    file_io.rename(src, dst, overwrite)


def rmtree(path):
    """Deletes a file, or a folder with all it contains."""
    file_io.delete_recursively(path)


def stat(path):
    """Returns the length, the modification time and the kind of a file."""
    return file_io.stat(path)


def walk(top, topdown=True, onerror=None):
    """(folder, its folders, its files) of all below; a folder that is not there goes to onerror, or is passed over."""
    try:
        file_io.list_directory(top)
    except errors.NotFoundError as e:
        if onerror is not None:
            onerror(e)
        return
    yield from file_io.walk(top, topdown)
