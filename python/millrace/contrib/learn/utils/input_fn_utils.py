"""Functions that give an exported model its features."""

import collections

from ....framework import dtypes
from ....ops import array, parsing


class InputFnOps(collections.namedtuple("InputFnOps", ["features", "labels", "default_inputs"])):
    """Features, and the tensors that are fed for them."""

    receiver_tensors = property(lambda self: self.default_inputs)
    receiver_tensors_alternatives = None


def build_parsing_serving_input_fn(feature_spec, default_batch_size=None):
    """For serialized Examples."""
    def input_fn():
        examples = array.placeholder(dtypes.string, [default_batch_size], name="input_example_tensor")
        return InputFnOps(parsing.parse_example(examples, feature_spec), None, {"examples": examples})
    return input_fn


def build_default_serving_input_fn(features, default_batch_size=None):
    """For the features as they are."""
    def input_fn():
        fed = {}
        for name, t in features.items():
            shape = t.shape.as_list()
            shape[0] = default_batch_size
            fed[name] = array.placeholder(t.dtype, shape, name=t.op.name)
        return InputFnOps(fed, None, dict(fed))
    return input_fn
