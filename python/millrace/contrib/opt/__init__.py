"""tf.contrib.opt: more optimizers."""
from ... import lazy as _lazy

_WHERE = {
    "rules": "AdaMaxOptimizer AddSignOptimizer LazyAdamOptimizer NadamOptimizer PowerSignOptimizer VariableClippingOptimizer",
    "moving_average": "MovingAverageOptimizer",
    "weight_decay": "AdamWOptimizer DecoupledWeightDecayExtension MomentumWOptimizer extend_with_decoupled_weight_decay",
}
__getattr__ = _lazy.attributes(__name__, {name: module for module, names in _WHERE.items() for name in names.split()})
