"""Pictures of models."""


def model_to_dot(model, show_shapes=False, show_layer_names=True, rankdir="TB", expand_nested=False, dpi=96, subgraph=False):
    """Raises ImportError: drawing models needs pydot, which this package does not use."""
    raise ImportError("Failed to import pydot, which is needed to draw models. model.summary() prints the layers")


def plot_model(model, to_file="model.png", show_shapes=False, show_layer_names=True, rankdir="TB", expand_nested=False, dpi=96):
    """Needs pydot and graphviz."""
    model_to_dot(model, show_shapes, show_layer_names, rankdir, expand_nested, dpi)
