"""A graph made smaller for use: only what its outputs need, without nodes that are for training.

Products and additions are put together when the graph is run, so it stays readable here.
"""
from .. import graph_util
from .strip_unused_lib import strip_unused


def optimize_for_inference(input_graph_def, input_node_names, output_node_names, placeholder_type_enum, toco_compatible=False):
    part = strip_unused(input_graph_def, input_node_names, output_node_names, placeholder_type_enum)
    return graph_util.remove_training_nodes(part, list(output_node_names))
