"""tf.keras: layers and models over the graph.

A model's training, test and prediction are parts of the default graph that are run in the session of tf.keras.backend.
"""

from .. import lazy as _lazy

__version__ = "2.2.4-tf"

_LATER = {"Input": "engine.network", "Model": "engine.training", "Sequential": "engine.sequential"}
__getattr__ = _lazy.attributes(
    __name__, _LATER, "activations applications backend callbacks constraints datasets estimator initializers layers losses "
    "metrics models optimizers preprocessing regularizers utils wrappers")
__dir__ = _lazy.listing(__name__, _LATER)
