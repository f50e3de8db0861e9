"""tf.data.Iterator: what the elements of a dataset are fetched from.

An iterator is a resource; get_next adds an operation that takes one element from it, so it is called once, outside of the
training loop.  A run that finds no more elements ends with OutOfRangeError.
"""

import warnings

from .. import logging
from ..framework import convert, dtypes, function, op_defs, ops
from ..framework.op_defs import call
from . import nest, structure
from .functions import dataset_op

GET_NEXT_CALL_WARNING_THRESHOLD = 32
GET_NEXT_CALL_WARNING_MESSAGE = (
    "An unusually high number of `Iterator.get_next()` calls was detected. This often indicates that `Iterator.get_next()` is "
    "being called inside a training loop, which will cause gradual slowdown and eventual resource exhaustion. If this is the "
    "case, restructure your code to call `next_element = iterator.get_next()` once outside the loop, and use `next_element` "
    "as the input to some computation that is invoked inside the loop.")


class Iterator:
    """The state of going through a dataset."""

    def __init__(self, iterator_resource, initializer, element_spec):
        self._iterator_resource, self._initializer, self.element_spec = iterator_resource, initializer, element_spec
        self._get_next_calls = 0
        self._string_handle = call("IteratorToStringHandle", None, resource_handle=iterator_resource)
        ops.add_to_collection("iterators", iterator_resource)

    @staticmethod
    def from_structure(output_types, output_shapes=None, shared_name=None, output_classes=None):
        """Makes an iterator that can be initialized with any dataset of this structure, with make_initializer."""
        specs = structure.from_legacy(output_types, output_shapes, output_classes)
        return Iterator(_resource(specs, shared_name), None, specs)

    @staticmethod
    def from_string_handle(string_handle, output_types, output_shapes=None, output_classes=None):
        """The iterator whose string_handle() is fed."""
        specs = structure.from_legacy(output_types, output_shapes, output_classes)
        handle = convert.convert_to_tensor(string_handle, dtypes.string, name="string_handle")
        return Iterator(dataset_op("IteratorFromStringHandleV2", specs, string_handle=handle), None, specs)

    @property
    def initializer(self):
        """The operation that restarts the iteration."""
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset, name=None):
        """An operation that begins an iteration over the dataset."""
        with ops.name_scope(name, "make_initializer") as scope:
            mine, theirs = self.element_spec, dataset.element_spec
            nest.assert_same_structure(mine, theirs)
            try:
                structure.check_same_types(mine, theirs)
            except (TypeError, ValueError) as e:
                raise TypeError("Expected output types %r but got dataset with output types %r. (%s)" %
                                (self.output_types, dataset.output_types, e)) from None
            if not structure.is_compatible(mine, theirs):
                raise TypeError("Expected output shapes compatible with %r but got dataset with output shapes %r." %
                                (self.output_shapes, dataset.output_shapes))
            with ops.colocate_with(self._iterator_resource.op):
                return call("MakeIterator", scope, dataset=dataset._apply_options(), iterator=self._iterator_resource)

    def get_next(self, name=None):
        """The next element, as tensors in the structure of the dataset's elements."""
        self._get_next_calls += 1
        if self._get_next_calls > GET_NEXT_CALL_WARNING_THRESHOLD:
            warnings.warn(GET_NEXT_CALL_WARNING_MESSAGE)
        with ops.colocate_with(self._iterator_resource.op):
            flat = op_defs.call("IteratorGetNext", name, iterator=self._iterator_resource,
                                output_types=structure.types(self.element_spec),
                                output_shapes=structure.shapes_of(self.element_spec))
        return structure.decode(self.element_spec, flat)

    def string_handle(self, name=None):
        """A string that identifies the iterator; feed it where from_string_handle is used."""
        if name is None:
            return self._string_handle
        return call("IteratorToStringHandle", name, resource_handle=self._iterator_resource)

    output_types = property(lambda self: structure.legacy_types(self.element_spec),
                            doc="The types of the parts of an element.")
    output_shapes = property(lambda self: structure.legacy_shapes(self.element_spec),
                             doc="The shapes of the parts of an element.")
    output_classes = property(lambda self: structure.legacy_classes(self.element_spec),
                              doc="The classes of the parts of an element: Tensor, SparseTensor or others.")


def _resource(specs, shared_name):
    return dataset_op("IteratorV2", specs, container="", shared_name=shared_name or "")


def initializable(dataset, shared_name=None):
    """Returns an iterator over a dataset whose initializer must be run first."""
    with ops.colocate_with(dataset._variant_tensor.op):
        iterator = Iterator(_resource(dataset.element_spec, shared_name), None, dataset.element_spec)
    iterator._initializer = iterator.make_initializer(dataset)
    return iterator


# ---- one shot ----

def one_shot(dataset):
    """A function creates the dataset when the iterator is first used; the function must not capture anything."""
    if dataset._graph is not ops.get_default_graph():
        logging.warning("The dataset was created in another graph than the default one, in which the iterator is expected. "
                        "Please ensure that all datasets in the pipeline are created in the same graph as the iterator.")
    def make_dataset():
        return dataset._apply_options(_Copier(ops.get_default_graph()).tensor(dataset._variant_tensor))

    try:
        factory = function.build(make_dataset, [], [], "_make_dataset", graph=dataset._graph)
    except ValueError as e:
        raise ValueError("Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()` does not "
                         "support "
                         "datasets that capture stateful objects, such as a `Variable` or `LookupTable`. In these cases, use "
                         "`Dataset.make_initializable_iterator()`. (Original error: %s)" % e) from None
    with dataset._graph.as_default():
        return Iterator(dataset_op("OneShotIterator", dataset.element_spec, dataset_factory=factory), None,
                        dataset.element_spec)


class _Copier:
    """Copies what a tensor is computed from into another graph."""

    def __init__(self, graph):
        self._graph, self._copies = graph, {}

    def tensor(self, t):
        return self._op(t.op).outputs[t.value_index]

    def _op(self, op):
        if op not in self._copies:
            for o in self._in_order(op):
                self._copies[o] = self._copy(o)
        return self._copies[op]

    def _in_order(self, op):
        """The operations that are not copied yet, each behind what it needs; without recursion, for chains may be long."""
        order, seen, stack = [], set(), [(op, False)]
        while stack:
            o, done = stack.pop()
            if done:
                order.append(o)
            elif o not in seen and o not in self._copies:
                seen.add(o)
                stack.append((o, True))
                stack.extend((t.op, False) for t in o.inputs)
                stack.extend((c, False) for c in o.control_inputs)
        return order

    def _copy(self, op):
        if op.type in ("Placeholder", "PlaceholderV2"):
            raise ValueError("Cannot capture a placeholder (name:%s, type:%s) by value." % (op.name, op.type))
        if any(t.dtype._is_ref_dtype or t.dtype is dtypes.resource for t in op.outputs):
            raise ValueError("Cannot capture a stateful node (name:%s, type:%s) by value." % (op.name, op.type))
        for f in op.graph._functions.values():
            f.add_to_graph(self._graph)
        inputs = [self._copies[t.op].outputs[t.value_index] for t in op.inputs]
        attrs = [(key, "p", value.SerializeToString()) for key, value in op.node_def.attr.items() if key != "_class"]
        with self._graph.control_dependencies(None), self._graph.control_dependencies([self._copies[c]
                                                                                       for c in op.control_inputs]):
            return self._graph._add(op.type, op.name, function._grouped(op, inputs), attrs)
