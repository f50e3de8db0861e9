"""slim.model_analyzer: how large a model is."""

__all__ = ["analyze_ops", "analyze_vars", "tensor_description"]


def tensor_description(var):
    """Returns the type and shape of a variable as text."""
    shape = "x".join("?" if d is None else str(d) for d in var.shape.as_list())
    return "(%s %s)" % (var.dtype.base_dtype.name, shape)


def analyze_ops(graph, print_info=False):
    """The number of elements of all tensors whose shape is known."""
    if print_info:
        print("---------\nOperations: name -> (type shapes) [size]\n---------")
    total = 0
    for op in graph.get_operations():
        sizes = [t.shape.num_elements() or 0 if t.shape.is_fully_defined() else 0 for t in op.outputs]
        total += sum(sizes)
        if print_info:
            print(op.name, "->", ", ".join(tensor_description(t) if t.shape.ndims is not None else "(?)" for t in op.outputs),
                  "[%d]" % sum(sizes))
    if print_info:
        print("---------\nTotal size: %d" % total)
    return total


def analyze_vars(variables, print_info=False):
    """(elements, bytes) of variables."""
    if print_info:
        print("---------\nVariables: name (type shape) [size]\n---------")
    size = byte_size = 0
    for v in variables:
        n = v.shape.num_elements()
        size += n
        byte_size += n * v.dtype.base_dtype.size
        if print_info:
            print(v.name, tensor_description(v), "[%d, bytes: %d]" % (n, n * v.dtype.base_dtype.size))
    if print_info:
        print("Total size of variables: %d\nTotal bytes of variables: %d" % (size, byte_size))
    return size, byte_size
