"""Functions that datasets apply to their elements, built into functions of the graph."""

import warnings

from ..framework import function, op_defs, ops
from . import structure


def unpacked(value):
    """The arguments that a user's function gets for an element: the parts of a plain tuple, or the element."""
    return value if type(value) is tuple else (value,)


def built(func, specs, what, several=False):
    """(function of the graph, specs of what func returns) for elements of these specs.

    With `several`, specs is a tuple of the specs of arguments that are not taken apart.
    """
    made, outer_seed = {}, ops.get_default_graph().seed

    def flat(*components):
        arguments = structure.decode(specs, components)
        returned = func(*(arguments if several else unpacked(arguments)))
        if returned is None:
            raise TypeError("Unsupported return value from function passed to %s: None." % what)
        if isinstance(returned, list):  # such as the results of a py_func: not to be stacked
            returned = tuple(returned)
        try:
            values = structure.as_values(returned)
        except (TypeError, ValueError) as e:
            raise TypeError("Unsupported return value from function passed to %s: %s. (%s)" % (what, returned, e)) from e
        made["specs"] = structure.specs_of(values)
        encoded = structure.encode(values)
        if ops.get_collection(ops.GraphKeys.TABLE_INITIALIZERS):
            warnings.warn("Creating resources inside a function passed to %s is not supported. Create each resource outside "
                          "the function, and capture it inside the function to use it." % what, stacklevel=5)
        graph = ops.get_default_graph()
        if outer_seed and graph.seed == outer_seed and graph._seed_used:
            warnings.warn("Seed %s from outer graph might be getting used by function %s, if the random op has not been "
                          "provided any seed. Explicitly set the seed in the function if this is not the intended "
                          "behavior." % (outer_seed, getattr(func, "__name__", type(func).__name__)), stacklevel=5)
        return encoded

    f = function.build(flat, structure.types(specs), structure.shapes_of(specs), "Dataset_" + what.replace(".", "_"))
    return f, made["specs"]


def returns_scalar(specs, dtype):
    """Whether a function returns one scalar of a type."""
    return not structure.is_nest(specs) and specs.dtype is dtype and specs.shape.is_compatible_with([])


def dataset_op(op_type, specs, **arguments):
    """The variant of a dataset whose elements are of these specs."""
    return op_defs.call(op_type, None, output_types=structure.types(specs), output_shapes=structure.shapes_of(specs),
                        **arguments)
