"""tf.contrib.training: what helps a training along; each part is imported when it is first asked for."""
from ... import lazy as _lazy

_WHERE = {
    "hparam": "HParams parse_values",
    "bucketing": "bucket bucket_by_sequence_length",
    "device_setter": "GreedyLoadBalancingStrategy RandomStrategy byte_size_load_fn",
    "..train.checkpoints": "checkpoints_iterator wait_for_new_checkpoint",
    "train_op": "add_gradients_summaries clip_gradient_norms clip_gradient_norms_fn create_train_op multiply_gradients",
}
__getattr__ = _lazy.attributes(__name__, {name: module for module, names in _WHERE.items() for name in names.split()})
