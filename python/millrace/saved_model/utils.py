"""Tensors as TensorInfo messages, which signatures are made of."""
from ..framework import dtypes, ops
from ..framework.convert import convert_to_tensor
from ..framework.sparse import SparseTensor
from ..protos import TensorInfo


def build_tensor_info(tensor):
    """Makes the TensorInfo of a tensor, sparse or dense: names, type and shape."""
    info = TensorInfo()
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
        shape = tensor.get_shape()
    else:
        if not hasattr(tensor, "name"):
            tensor = convert_to_tensor(tensor)
        info.name = tensor.name
        shape = tensor.get_shape()
    info.dtype = int(dtypes.as_dtype(tensor.dtype).base_dtype)
    info.tensor_shape.CopyFrom(shape.as_proto())
    return info


def build_tensor_info_from_op(op):
    """Makes the TensorInfo of an operation without outputs."""
    info = TensorInfo(name=op.name, dtype=0)
    info.tensor_shape.unknown_rank = True
    return info


def get_tensor_from_tensor_info(tensor_info, graph=None, import_scope=None):
    """The tensor it names, in a graph and below import_scope."""
    graph = graph or ops.get_default_graph()

    def named(name):
        return graph.get_tensor_by_name(ops.prepend_name_scope(name, import_scope))
    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return named(tensor_info.name)
    if encoding == "coo_sparse":
        c = tensor_info.coo_sparse
        return SparseTensor(named(c.indices_tensor_name), named(c.values_tensor_name), named(c.dense_shape_tensor_name))
    raise ValueError("Invalid TensorInfo.encoding: %s" % encoding)


def get_element_from_tensor_info(tensor_info, graph=None, import_scope=None):
    """Returns the tensor or operation that a TensorInfo names."""
    graph = graph or ops.get_default_graph()
    return graph.as_graph_element(ops.prepend_name_scope(tensor_info.name, import_scope))


