"""tf.io.gfile: files and folders (file_io) by the newer names, which are Python's own."""
from . import file_io
from .framework import errors
from .file_io import FileIO as GFile  # noqa: F401


def copy(src, dst, overwrite=False):
    file_io.copy(src, dst, overwrite)


def exists(path):
    return file_io.file_exists(path)


def glob(pattern):
    return file_io.get_matching_files(pattern)


def isdir(path):
    return file_io.is_directory(path)


def listdir(path):
    return file_io.list_directory(path)


def makedirs(path):
    file_io.recursive_create_dir(path)


def mkdir(path):
    file_io.create_dir(path)


def remove(path):
    file_io.delete_file(path)


def rename(src, dst, overwrite=False):
    file_io.rename(src, dst, overwrite)


def rmtree(path):
    file_io.delete_recursively(path)


def stat(path):
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
