"""Resources other than variables, such as tables: lists and initializes them."""
from ..framework import ops
from ..framework.convert import constant, convert_to_tensor
from ..framework.op_defs import raw


def register_resource(handle, create_op, is_initialized_op, is_shared=True):
    """Notes a resource, so that initialize_resources and report_uninitialized_resources know it."""
    key = ops.GraphKeys.RESOURCES if is_shared else ops.GraphKeys.LOCAL_RESOURCES
    ops.add_to_collection(key, _Resource(handle, create_op, is_initialized_op))


class _Resource:
    def __init__(self, handle, create, is_initialized):
        self.handle, self.create, self.is_initialized = handle, create, is_initialized


def shared_resources():
    return ops.get_collection(ops.GraphKeys.RESOURCES)


def local_resources():
    return ops.get_collection(ops.GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list, name="init"):
    from .control_flow import group
    if resource_list:
        return group(*[r.create for r in resource_list], name=name)
    return raw.no_op(name=name)


def report_uninitialized_resources(resource_list=None, name="report_uninitialized_resources"):
    """The names of the handles that are not ready."""
    chosen = shared_resources() + local_resources() if resource_list is None else resource_list
    if not chosen:
        return constant([], "string")
    from .array import boolean_mask, stack
    with ops.name_scope(name):
        ready = stack([convert_to_tensor(r.is_initialized) for r in chosen])
        return boolean_mask(constant([r.handle.name for r in chosen]), raw.logical_not(ready))
