"""tf.version.  Scripts look at VERSION to learn which interface they have, so it is TensorFlow's; MILLRACE is our own."""
import _millrace

VERSION = __version__ = "1.15.0"
MILLRACE, C_API = _millrace.version()
GIT_VERSION = __git_version__ = "millrace-" + MILLRACE
COMPILER_VERSION = __compiler_version__ = "gcc"
GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER, GRAPH_DEF_VERSION_MIN_PRODUCER = 1087, 0, 0  # what the library writes
CXX11_ABI_FLAG = __cxx11_abi_flag__ = 1
MONOLITHIC_BUILD = __monolithic_build__ = 0
