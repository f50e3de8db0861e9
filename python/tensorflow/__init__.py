"""The package millrace by TensorFlow's name: `tensorflow` and `millrace` are one module, and so are their parts.

Private paths (tensorflow.python.framework.ops, tensorflow.core.framework.graph_pb2) are found by millrace.aliases.
"""
import sys

import millrace
from millrace import aliases, stand_ins

aliases.install()
stand_ins.install()
sys.modules[__name__] = millrace
