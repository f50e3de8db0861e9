"""Contexts: the branches of conditionals and the loops that new operations are made in.

A graph knows no "cond" and "while": there are only Switch and Merge, Enter, Exit and NextIteration.  A context sees to it
that an operation made under it gets what it needs to be part of its branch or loop: a value from outside comes in through a
Switch (in a branch) or an Enter (in a loop), and an operation without inputs waits for the pivot, a value that is there when
the branch is taken, or once an iteration.

The graph asks the innermost context before it adds an operation (take_inputs) and tells it afterwards (op_added).  What a
context knows of: `_values`, all tensors that may be used in it as they are, and `_external`, those that stand for one from
outside. Inner contexts tell outer ones of all that is made in them.
"""

from ..framework import convert, ops


def add_op(op_type, name, inputs, attrs=(), controls=None):
    """An operation added as it is: no conversion; its name under the present scope."""
    return ops.graph_of(ops._flat(inputs))._add(op_type, name, inputs, list(attrs), controls)


def _type(t):
    return ("T", "t", int(t.dtype.base_dtype))


def switch_of(data, pred, name="Switch"):
    """(false side, true side) of a value; on the device of the value."""
    kind = "RefSwitch" if data.dtype._is_ref_dtype else "Switch"
    with data.graph.colocate_with(data.op, ignore_existing=True):
        return add_op(kind, name, [data, pred], [_type(data)]).outputs


def merge_of(inputs, name="Merge"):
    """(the value that is there, the number of its input)"""
    kind = "RefMerge" if all(x.dtype._is_ref_dtype for x in inputs) else "Merge"
    return add_op(kind, name, [list(inputs)], [_type(inputs[0]), ("N", "i", len(inputs))]).outputs


def enter_of(data, frame, is_constant, parallel_iterations, name="Enter", controls=None):
    kind = "RefEnter" if data.dtype._is_ref_dtype and is_constant else "Enter"
    return add_op(kind, name, [data], [_type(data), ("frame_name", "s", frame), ("is_constant", "b", is_constant),
                                       ("parallel_iterations", "i", parallel_iterations)], controls).outputs[0]


def exit_of(data, name="Exit"):
    return add_op("RefExit" if data.dtype._is_ref_dtype else "Exit", name, [data], [_type(data)]).outputs[0]


def next_iteration_of(data, name="NextIteration"):
    kind = "RefNextIteration" if data.dtype._is_ref_dtype else "NextIteration"
    return add_op(kind, name, [data], [_type(data)]).outputs[0]


def identity_of(data, name="Identity"):
    kind = "RefIdentity" if data.dtype._is_ref_dtype else "Identity"
    return add_op(kind, name, [data], [_type(data)]).outputs[0]


def output_context(op):
    """The context that an operation's outputs are in: those of an Exit are outside of its loop."""
    context = op._control_flow_context
    return context.outer_context if context is not None and op.type in ("Exit", "RefExit") else context


class ControlFlowContext:
    """One branch or one loop."""

    def __init__(self):
        self._graph = ops.get_default_graph()
        self._outer = self._graph._control_flow_context
        self._name = ""
        self._values, self._external = set(), {}
        self._former, self._nested = [], []
        if self._outer is not None:
            self._outer._nested.append(self)

    outer_context = property(lambda self: self._outer)
    name = property(lambda self: self._name)
    back_prop = property(lambda self: True)
    grad_state = None

    def enter(self):
        self._former.append(self._graph._control_flow_context)
        self._graph._control_flow_context = self

    def exit(self):
        self._graph._control_flow_context = self._former.pop()

    def __enter__(self):
        self.enter()
        return self

    def __exit__(self, *unused):
        self.exit()

    Enter, Exit = enter, exit

    def IsWhileContext(self):  # noqa: N802 -- TensorFlow's name, which programs know
        return isinstance(self, WhileContext)

    def IsCondContext(self):  # noqa: N802
        return isinstance(self, CondContext)

    def GetWhileContext(self):  # noqa: N802
        return self.while_context

    @property
    def while_context(self):
        """The innermost loop this is in, itself included, or None."""
        context = self
        while context is not None and not isinstance(context, WhileContext):
            context = context._outer
        return context

    def chain(self):
        """This context and those around it, outermost last."""
        context = self
        while context is not None:
            yield context
            context = context._outer

    def knows(self, tensors):
        """Tells this context and those around it that these tensors may be used as they are."""
        for context in self.chain():
            context._values.update(tensors)

    def op_added(self, op):
        self.knows(op.outputs)
        self._seal(op)

    def _seal(self, op):
        """What happens within a context cannot be seen or set from outside, but for what leaves the outermost loop."""
        if self._outer is not None or op.type not in ("Exit", "RefExit"):
            self._graph.prevent_fetching(op)
            for t in op.outputs:
                self._graph.prevent_feeding(t)

    def take_inputs(self, op_type, inputs, controls):
        """The inputs and control inputs that an operation has when it is made in this context."""
        taken = [[self.add_value(t) for t in x] if isinstance(x, (list, tuple)) else self.add_value(x) for x in inputs]
        controls = self.take_controls(controls)
        return taken, self._tie(op_type, ops._flat(taken), controls)

    def take_controls(self, controls):
        """Control inputs as they can be here: an edge cannot lead into a loop, so a value has to, that was made after it."""
        loop = self.while_context
        if loop is None or not controls:
            return list(controls)
        taken = []
        for op in controls:
            context = output_context(op)
            if context is not None and context.while_context is loop:
                taken.append(op)
            elif op not in loop._waited_for:
                taken.append(loop._bring_in(op))
        return taken

    def add_value(self, value):
        """The value as it is in this context."""
        if value in self._values:
            return self._external.get(value, value)
        return self._take_in(value)

    def check_use(self, value, name, context, op_type):
        """That an operation made in another context may take a value of this one: what is in a loop is only there."""
        here = output_context(value.op)
        loop = None if here is None else here.while_context
        if loop is None or isinstance(context, Anywhere):
            return
        if context is None or context.while_context is None:
            if op_type in _DOORS:
                return
            raise ValueError("Cannot use '%s' as input to '%s' because '%s' is in a while loop. See info log for more "
                             "details." % (value.op.name, name, value.op.name))
        if loop not in context.while_context.chain():
            raise ValueError("Cannot use '%s' as input to '%s' because they are in different while loops. See info log for "
                             "more details." % (value.op.name, name))

    def _outside(self):
        """A scope for operations that belong to the context around this one, free of control dependencies."""
        return self._graph.control_dependencies(None)

    def _found(self, op):
        """An operation made for this context under _outside()."""
        op._control_flow_context = self
        self.op_added(op)
        return op


    # ---- as messages: a MetaGraphDef has those that no other is around ----

    def _values_def(self, scope):
        from .. import protos
        d = protos.ValuesDef()
        inside = sorted(t.name for t in self._values if _is_under(t.name, scope))
        d.values.extend([ops.strip_name_scope(name, scope) for name in inside])
        for outer, inner in self._external.items():
            if _is_under(outer.name, scope):
                d.external_values[ops.strip_name_scope(outer.name, scope)] = ops.strip_name_scope(inner.name, scope)
        return d

    def _take_values(self, d, scope):
        """Reads the values of a message, and assigns this context to their operations."""
        named = lambda name: self._graph.get_tensor_by_name(ops.prepend_name_scope(name, scope))
        self._values = {named(name) for name in d.values}
        self._external = {named(outer): named(inner) for outer, inner in d.external_values.items()}
        for t in self._values:
            if t not in self._external:
                t.op._control_flow_context = self

    def to_control_flow_context_def(self, context_def, export_scope=None):
        field = "cond_ctxt" if isinstance(self, CondContext) else "while_ctxt"
        getattr(context_def, field).CopyFrom(self.to_proto(export_scope))

    def _add_nested(self, d, scope):
        for nested in self._nested:
            nested.to_control_flow_context_def(d.nested_contexts.add(), scope)

    @classmethod
    def _from(cls, d, scope, build):
        context = cls.__new__(cls)
        ControlFlowContext.__init__(context)
        context._name = ops.prepend_name_scope(d.context_name, scope)
        build(context, lambda name: context._graph.as_graph_element(ops.prepend_name_scope(name, scope)))
        context._take_values(d.values_def, scope)
        with context:
            for nested in d.nested_contexts:
                kind = {"cond_ctxt": CondContext, "while_ctxt": WhileContext}[nested.WhichOneof("ctxt")]
                kind.from_proto(getattr(nested, nested.WhichOneof("ctxt")), scope)
        return context


def _is_under(name, scope):
    return not scope or name.startswith(scope.rstrip("/") + "/")


_DOORS = ("Enter", "RefEnter", "Switch", "RefSwitch")  # what leads from a loop into a loop or branch within it


class Anywhere(ControlFlowContext):
    """For operations whose place the library finds: those of gradients that functions of Python make."""

    def take_inputs(self, op_type, inputs, controls):
        return inputs, controls

    def take_controls(self, controls):
        return list(controls)

    def add_value(self, value):
        return value

    def op_added(self, op):
        pass


class CondContext(ControlFlowContext):
    """A branch: operations created here run if the predicate has the value of the branch."""

    def __init__(self, pred, pivot, branch, name="cond_text"):
        super().__init__()
        self._name = self._graph.unique_name(name)
        self._pred, self._pivot, self._branch = pred, pivot, branch
        self._values.update([pred, pivot])

    def to_proto(self, export_scope=None):
        """The CondContextDef, None when it is not under the scope."""
        from .. import protos
        if not _is_under(self._name, export_scope):
            return None
        strip = lambda name: ops.strip_name_scope(name, export_scope)
        d = protos.CondContextDef(context_name=strip(self._name), pred_name=strip(self._pred.name),
                                  pivot_name=strip(self._pivot.name), branch=self._branch,
                                  values_def=self._values_def(export_scope))
        self._add_nested(d, export_scope)
        return d

    @classmethod
    def from_proto(cls, context_def, import_scope=None):
        def build(context, element):
            context._pred, context._pivot = element(context_def.pred_name), element(context_def.pivot_name)
            context._branch = context_def.branch
        return cls._from(context_def, import_scope, build)

    pred = property(lambda self: self._pred)
    pivot = property(lambda self: self._pivot)
    branch = property(lambda self: self._branch)

    def _take_in(self, value):
        outer = value if self._outer is None else self._outer.add_value(value)
        with self._outside():
            inner = switch_of(outer, self._pred)[self._branch]
        self._graph.prevent_fetching(inner.op)
        for t in inner.op.outputs:
            self._graph.prevent_feeding(t)
        inner.op._control_flow_context = self._outer  # both sides may use it
        self.knows([inner])
        self._values.update([value, outer])
        self._external[value] = self._external[outer] = inner
        return inner

    def _tie(self, op_type, inputs, controls):
        is_call = op_type in self._graph._functions or op_type == "SymbolicGradient"
        if inputs and not is_call:
            return controls
        for op in controls:
            context = op._control_flow_context
            if context is not None and self in context.chain():
                return controls
        return controls + [self._pivot.op]


class WhileContext(ControlFlowContext):
    """A loop; first its condition is built, then its body."""

    def __init__(self, maximum_iterations=None, parallel_iterations=10, back_prop=True, swap_memory=False,
                 name="while_context"):
        super().__init__()
        if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
            raise ValueError("parallel_iterations must be a positive integer: %s" % (parallel_iterations,))
        self._name = self._graph.unique_name(name)
        self._maximum_iterations, self._parallel_iterations = maximum_iterations, parallel_iterations
        self._back_prop, self._swap_memory = back_prop, swap_memory
        self.pivot_for_pred = self.pivot_for_body = self.pivot = None
        self.loop_enters, self.loop_exits = [], []
        self._constants = set()  # Enters of values that the loop does not change
        self._brought = {}       # operation outside -> one in here that comes after it
        # All of the loop comes after what its ways in wait for.
        self._waited_for = {op for scope in self._graph._control_stack for op in scope.ops}

    def to_proto(self, export_scope=None):
        """The WhileContextDef, None when it is not under the scope."""
        from .. import protos
        if not _is_under(self._name, export_scope):
            return None
        strip = lambda t: ops.strip_name_scope(t.name, export_scope)
        d = protos.WhileContextDef(
            context_name=ops.strip_name_scope(self._name, export_scope), parallel_iterations=self._parallel_iterations,
            back_prop=bool(self._back_prop), swap_memory=bool(self._swap_memory), pivot_name=strip(self.pivot),
            pivot_for_pred_name=strip(self.pivot_for_pred), pivot_for_body_name=strip(self.pivot_for_body),
            loop_exit_names=[strip(t) for t in self.loop_exits], loop_enter_names=[strip(t) for t in self.loop_enters],
            values_def=self._values_def(export_scope))
        if self._maximum_iterations is not None:
            d.maximum_iterations_name = strip(self._maximum_iterations)
        self._add_nested(d, export_scope)
        return d

    @classmethod
    def from_proto(cls, context_def, import_scope=None):
        def build(context, element):
            d = context_def
            context._parallel_iterations = d.parallel_iterations
            context._back_prop, context._swap_memory = d.back_prop, d.swap_memory
            context._maximum_iterations = element(d.maximum_iterations_name) if d.maximum_iterations_name else None
            context.pivot, context.pivot_for_pred = element(d.pivot_name), element(d.pivot_for_pred_name)
            context.pivot_for_body = element(d.pivot_for_body_name)
            context.loop_enters = [element(name) for name in d.loop_enter_names]
            context.loop_exits = [element(name) for name in d.loop_exit_names]
            context._brought, context._waited_for = {}, set()
            context._constants = set()
        context = cls._from(context_def, import_scope, build)
        context._constants = {t.op for t in context._external.values()}
        return context

    maximum_iterations = property(lambda self: self._maximum_iterations)
    parallel_iterations = property(lambda self: self._parallel_iterations)
    back_prop = property(lambda self: self._back_prop)
    swap_memory = property(lambda self: self._swap_memory)

    def enter_variable(self, value):
        """A loop variable's way in."""
        outer = value if self._outer is None else self._outer.add_value(value)
        enter = self._door(outer, False)
        self.loop_enters.append(enter)
        return enter

    def _take_in(self, value):
        context = output_context(value.op)
        if context is self:  # made here by the library itself
            self._values.add(value)
            return value
        outer = value if self._outer is None else self._outer.add_value(value)
        enter = self._door(outer, True)
        self._constants.add(enter.op)
        self._values.add(value)
        self._external[value] = enter
        return enter

    def _door(self, outer, is_constant):
        graph = self._graph
        controls = [op for op in graph._controls_for([outer]) if self._is_around(op)]
        if self._outer is not None:
            controls = self._outer.take_controls(controls)
        with self._outside():
            enter = enter_of(outer, self._name, is_constant, self._parallel_iterations, controls=controls)
        self._found(enter.op)
        for scope in graph._control_stack:
            scope.seen.add(enter.op)
        return enter

    def _is_around(self, op):
        """Whether a way into this loop may wait for the operation."""
        context = output_context(op)
        return context is None or self._outer is not None and context in self._outer.chain()

    def _bring_in(self, op):
        found = self._brought.get(op)
        if found is None:
            with self._outside():
                if op.outputs:
                    value = op.outputs[0]
                else:
                    with self._graph.control_dependencies([op]):
                        value = convert.constant(False, name="done")
                with self:
                    found = identity_of(value).op
            self._brought[op] = found
        return found

    def _tie(self, op_type, inputs, controls):
        """What does not hang on anything of the iteration hangs on the pivot, or it would run when the loop is over too."""
        is_call = op_type in self._graph._functions or op_type == "SymbolicGradient"
        if controls or (inputs and not is_call and any(t.op not in self._constants for t in inputs)):
            return controls
        pivot = self.pivot_for_body if self.pivot_for_body is not None else self.pivot_for_pred
        return controls if pivot is None else controls + [pivot.op]
