"""tf.resource_loader: files that lie beside the modules of a program."""
import os
import sys

__all__ = ["get_data_files_path", "get_path_to_datafile", "get_root_dir_with_all_resources", "load_resource",
           "readahead_file_path"]


def _folder_of(frame):
    return os.path.dirname(os.path.abspath(frame.f_code.co_filename))


def load_resource(path):
    """The bytes of a file, by its path from the folder of this package's parent."""
    with open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), path), "rb") as f:
        return f.read()


def get_data_files_path():
    """The folder of the module that calls."""
    return _folder_of(sys._getframe(1))


def get_root_dir_with_all_resources():
    """Returns the folder of the calling file."""
    return _folder_of(sys._getframe(1))


def get_path_to_datafile(path):
    """Returns a path relative to the folder of the calling file."""
    return os.path.join(_folder_of(sys._getframe(1)), path)


def readahead_file_path(path, readahead="128M"):
    """Returns the path as it is."""
    return path
