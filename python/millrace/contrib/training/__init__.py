"""tf.contrib.training: what helps a training along; each part is imported when it is first asked for."""
from ... import lazy as _lazy

_WHERE = {
    "hparam": "HParams parse_values",
    "device_setter": "GreedyLoadBalancingStrategy RandomStrategy byte_size_load_fn",
}
__getattr__ = _lazy.attributes(__name__, {name: module for module, names in _WHERE.items() for name in names.split()})
