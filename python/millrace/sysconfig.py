"""tf.sysconfig: where the headers and the library are, to compile ops against them."""
import glob
import os

import _millrace

from .version import CXX11_ABI_FLAG

__all__ = ["get_include", "get_lib", "get_compile_flags", "get_link_flags"]


def _root():
    """PREFIX, or the folder of the build: the extension is at share/millrace/python below it."""
    here = os.path.dirname(os.path.abspath(_millrace.__file__))
    return os.path.dirname(os.path.dirname(os.path.dirname(here)))


def get_include():
    """Returns the folder of the header files."""
    root = _root()
    if os.path.isdir(os.path.join(root, "include")):
        return os.path.join(root, "include")
    return os.path.join(os.path.dirname(os.path.dirname(root)), "include")  # the build tree is build/VARIANT of the sources


def get_lib():
    """Returns the folder of the library: lib/, or the multiarch folder below it that holds it."""
    lib = os.path.join(_root(), "lib")
    below = glob.glob(os.path.join(lib, "*", "libtensorflow.so.2"))
    if below and not os.path.exists(os.path.join(lib, "libtensorflow.so.2")):
        return os.path.dirname(below[0])
    return lib


def get_compile_flags():
    """Returns the flags for compiling with the header files."""
    return ["-I%s" % get_include(), "-D_GLIBCXX_USE_CXX11_ABI=%d" % CXX11_ABI_FLAG]


def get_link_flags():
    """Returns the flags for linking with the library."""
    return ["-L%s" % get_lib(), "-l:libtensorflow.so.2"]
