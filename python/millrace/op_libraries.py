"""Libraries of ops, compiled against the headers that tf.sysconfig reports."""
import hashlib
import os
import sys
import types

import _millrace

from . import protos
from .framework import errors, op_defs

__all__ = ["load_file_system_library", "load_library", "load_op_library"]


def load_op_library(library_filename):
    """Loads a library; a module with a function for each op that it adds, and OP_LIST."""
    if not os.path.exists(library_filename) and "/" in library_filename:
        raise errors.NotFoundError(None, None,
                                   "%s: cannot open shared object file: No such file or directory" % library_filename)
    added = protos.OpList.FromString(_millrace.load_library(library_filename))
    op_defs.forget_names()
    name = "millrace.loaded_" + hashlib.md5(added.SerializeToString()).hexdigest()
    module = sys.modules.get(name)
    if module is None:
        module = sys.modules[name] = types.ModuleType(name, "The ops of " + library_filename)
        module.OP_LIST, module.LIB_HANDLE = added, library_filename
        for d in added.op:
            setattr(module, op_defs.snake_case(d.name), op_defs.function_for(d.name))
    return module


def load_library(library_location):
    """Loads a library, or all of a folder."""
    if not os.path.exists(library_location):
        raise OSError(2, "The file or folder to load kernel libraries from does not exist.", library_location)
    paths = [library_location]
    if os.path.isdir(library_location):
        paths = sorted(os.path.join(library_location, f) for f in os.listdir(library_location) if f.endswith(".so"))
    for path in paths:
        load_op_library(path)


def load_file_system_library(library_filename):
    """Raises NotImplementedError: file systems cannot be added by libraries."""
    raise NotImplementedError("tf.load_file_system_library: libraries cannot add file systems")
