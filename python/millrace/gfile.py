"""tf.gfile: files and folders (file_io) by the names of 1.x."""
from .file_io import FileIO as GFile
from .file_io import (copy as Copy, create_dir as MkDir, delete_file as Remove, delete_recursively as DeleteRecursively,
                      file_exists as Exists, get_matching_files as Glob, is_directory as IsDirectory,
                      list_directory as ListDirectory, recursive_create_dir as MakeDirs, rename as Rename, stat as Stat,
                      walk as Walk)

__all__ = ["GFile", "FastGFile", "Open", "Copy", "MkDir", "Remove", "DeleteRecursively", "Exists", "Glob", "IsDirectory",
           "ListDirectory", "MakeDirs", "Rename", "Stat", "Walk"]


class FastGFile(GFile):
    """The same."""


Open = GFile
