"""tf.profiler: where the parameters, the arithmetic and the time of a graph are, scope by scope.

    profiler = tf.profiler.Profiler(sess.graph)
    sess.run(train, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    profiler.add_step(0, metadata)
    profiler.profile_name_scope(tf.profiler.ProfileOptionBuilder.time_and_memory())

Parameters are elements of variables, float_ops multiplications and additions of products and convolutions whose shapes are
known, times and bytes what the steps that were added tell.  Views are trees by name ("scope", "graph"), or lists by op ("op")
or by line of the program ("code").
"""
import collections
import copy
import sys

import numpy as np

from .framework import ops as _ops

__all__ = ["ProfileOptionBuilder", "Profiler", "advise", "profile", "write_op_log"]

_FIELDS = ["params", "float_ops", "bytes", "micros", "accelerator_micros", "cpu_micros", "peak_bytes", "output_bytes",
           "occurrence"]
_DEFAULTS = {
    "max_depth": 10000, "min_bytes": 0, "min_micros": 0, "min_params": 0, "min_float_ops": 0, "min_occurrence": 0,
    "order_by": "name", "account_type_regexes": [".*"], "start_name_regexes": [".*"], "trim_name_regexes": [],
    "show_name_regexes": [".*"], "hide_name_regexes": [], "account_displayed_op_only": False, "select": ["micros"], "step": -1,
    "output": "stdout",
}


class ProfileOptionBuilder:
    """Options of a profile, changed one by one: ProfileOptionBuilder(start).with_max_depth(3).build()."""

    def __init__(self, options=None):
        self._options = copy.deepcopy(options) if options is not None else copy.deepcopy(_DEFAULTS)

    @staticmethod
    def trainable_variables_parameter():
        """Returns options that show the number of parameters of trainable variables."""
        return dict(copy.deepcopy(_DEFAULTS), account_type_regexes=["_trainable_variables"], select=["params"], order_by="name")

    @staticmethod
    def float_operation():
        """Returns options that show the number of floating-point operations."""
        return dict(copy.deepcopy(_DEFAULTS), min_float_ops=1, select=["float_ops"], order_by="float_ops")

    @staticmethod
    def time_and_memory(min_micros=1, min_bytes=1, min_accelerator_micros=0, min_cpu_micros=0, min_peak_bytes=0,
                        min_residual_bytes=0,
                        min_output_bytes=0):
        """Returns options that show times and memory of nodes above the given limits."""
        return dict(copy.deepcopy(_DEFAULTS), min_micros=min_micros, min_bytes=min_bytes, order_by="micros",
                    select=["micros", "bytes"])

    def build(self):
        """Returns the options as a dict."""
        return copy.deepcopy(self._options)

    def _with(self, **changes):
        self._options.update(changes)
        return self

    def with_max_depth(self, max_depth):
        """Sets the largest depth of nodes to show."""
        return self._with(max_depth=max_depth)

    def with_min_memory(self, min_bytes=0, min_peak_bytes=0, min_residual_bytes=0, min_output_bytes=0):
        """Shows only nodes that use at least this much memory."""
        return self._with(min_bytes=min_bytes)

    def with_min_execution_time(self, min_micros=0, min_accelerator_micros=0, min_cpu_micros=0):
        """Shows only nodes that take at least this many microseconds."""
        return self._with(min_micros=min_micros)

    def with_min_parameters(self, min_params):
        """Shows only nodes with at least this many parameters."""
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence):
        """Shows only ops that occur at least this often."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops):
        """Shows only nodes with at least this many floating-point operations."""
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes):
        """Counts only nodes whose type matches one of the regular expressions."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(self, start_name_regexes=None, show_name_regexes=None, hide_name_regexes=None, trim_name_regexes=None):
        """Selects nodes to start at, to show, to hide or to leave out by regular expressions of their names."""
        given = {"start_name_regexes": start_name_regexes, "show_name_regexes": show_name_regexes,
                 "hide_name_regexes": hide_name_regexes, "trim_name_regexes": trim_name_regexes}
        return self._with(**{k: list(v) for k, v in given.items() if v is not None})

    def account_displayed_op_only(self, is_true):
        """Sets whether the totals count only nodes that are shown."""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self):
        """Prints nothing."""
        return self._with(output="none")

    def with_stdout_output(self):
        """Prints to the standard output."""
        return self._with(output="stdout")

    def with_file_output(self, outfile):
        """Writes to a file."""
        return self._with(output="file:outfile=%s" % outfile)

    def with_timeline_output(self, timeline_file):
        """Writes a timeline to a file."""
        return self._with(output="timeline:outfile=%s" % timeline_file)

    def order_by(self, attribute):
        """Sets the attribute to sort nodes by, such as "micros"."""
        return self._with(order_by=attribute)

    def select(self, attributes):
        """Sets the attributes to show, such as ["micros", "bytes"]."""
        return self._with(select=list(attributes))

    def with_step(self, step):
        """Sets the step to show; -1 shows the last one."""
        return self._with(step=step)

    def with_pprof_output(self, pprof_file):
        """Raises NotImplementedError: there is no output for pprof."""
        raise NotImplementedError("tf.profiler.ProfileOptionBuilder.with_pprof_output")


class Node:
    """An operation, scope, op type or line, with what it has itself and with all below it."""

    def __init__(self, name):
        self.name, self.children, self.kinds, self.tensor_shape = name, [], set(), None
        self._own = collections.Counter()
        self._all = collections.Counter()

    def _sum(self):
        self._all = collections.Counter(self._own)
        for child in self.children:
            child._sum()
            self._all.update(child._all)

    def __getattr__(self, name):
        other = {"parameters": "params", "exec_micros": "micros", "requested_bytes": "bytes"}
        plain = name[6:] if name.startswith("total_") else name
        field = other.get(plain, plain)
        if field in _FIELDS:
            return (self._all if name.startswith("total_") else self._own)[field]
        raise AttributeError(name)

    graph_nodes = property(lambda self: self.children, doc="The children; another name.")


# ---- what an operation has ----

def _size(tensor):
    n = tensor.shape.num_elements()
    return 0 if n is None else int(n)


def _float_ops(op):
    """Two for each multiplication with its addition; 0 where shapes are not known."""
    if op.type in ("MatMul", "SparseMatMul", "BatchMatMul", "BatchMatMulV2"):
        a = op.inputs[0].shape
        if a.ndims is None:
            return 0
        transposed = op.get_attr("adj_x" if op.type.startswith("Batch") else "transpose_a")
        inner = a.dims[-2 if transposed else -1].value
        return 2 * _size(op.outputs[0]) * (inner or 0)
    if op.type in ("Conv2D", "Conv3D", "DepthwiseConv2dNative"):
        window = op.inputs[1].shape
        if not window.is_fully_defined():
            return 0
        inner = np.prod(window.as_list()[:-1] if op.type != "DepthwiseConv2dNative" else window.as_list()[:2])
        return 2 * _size(op.outputs[0]) * int(inner)
    if op.type in ("Add", "AddV2", "BiasAdd", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "AddN", "Pow", "Square", "Neg"):
        return _size(op.outputs[0])
    return 0


_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


def _own(op, trainable, times):
    node = Node(op.name)
    node.kinds = {op.type, op.device or "/device:CPU:0"}
    if op.type in _VARIABLES:
        shape = op.outputs[0].shape if op.type != "VarHandleOp" else op.get_attr("shape")
        node._own["params"] = int(shape.num_elements() or 0)
        node.tensor_shape = shape
        node.kinds.add("_variables")
        if op.name in trainable:
            node.kinds.add("_trainable_variables")
    node._own["float_ops"] = _float_ops(op)
    node._own["occurrence"] = 1
    for stats in times.get(op.name, ()):
        node._own["micros"] += stats.all_end_rel_micros
        node._own["accelerator_micros" if "GPU" in stats.device else "cpu_micros"] += stats.op_end_rel_micros
        node._own["bytes"] += stats.bytes
        node._own["output_bytes"] += stats.output_bytes
    node._own["peak_bytes"] = node._own["bytes"]
    return node


_Stats = collections.namedtuple("_Stats", "device all_end_rel_micros op_end_rel_micros bytes output_bytes")


def _read_step(run_metadata):
    """{name of an operation: what its runs took}"""
    found = collections.defaultdict(list)
    for device in run_metadata.step_stats.dev_stats:
        for n in device.node_stats:
            output = sum(o.tensor_description.allocation_description.allocated_bytes for o in n.output)
            taken = sum(m.total_bytes for m in n.memory) or output
            name = n.node_name.partition(":")[0]
            found[name].append(_Stats(device.device, max(n.all_end_rel_micros, 1), n.op_end_rel_micros - n.op_start_rel_micros,
                                      taken, output))
    return found


# ---- views ----

def _matches(text, patterns):
    import re
    return any(re.fullmatch(p, text) for p in patterns)


def _tree(nodes):
    """By the parts of names."""
    root, known = Node("_TFProfRoot"), {}
    for node in sorted(nodes, key=lambda n: n.name):
        known[node.name] = node
    for name in list(known):
        parts = name.split("/")
        for i in range(1, len(parts)):
            scope = "/".join(parts[:i])
            if scope not in known:
                known[scope] = Node(scope)
    for name in sorted(known):
        above = name.rpartition("/")[0]
        (known[above] if above else root).children.append(known[name])
    return root


def _groups(nodes, key):
    """A list by what key says of a node."""
    root, groups = Node("_TFProfRoot"), {}
    for node in nodes:
        for name in key(node):
            group = groups.setdefault(name, Node(name))
            group._own.update(node._own)
    root.children = list(groups.values())
    return root


def _is_accounted(node, options):
    return any(_matches(kind, options["account_type_regexes"])
               for kind in node.kinds) or options["account_type_regexes"] == [".*"]


def _shown(node, options, depth=0):
    """The part of a tree that the options let through."""
    limits = [("min_bytes", "bytes"), ("min_micros", "micros"), ("min_params", "params"), ("min_float_ops", "float_ops"),
              ("min_occurrence", "occurrence")]
    out = copy.copy(node)
    out.children = []
    if depth < options["max_depth"]:
        for child in node.children:
            if _matches(child.name, options["trim_name_regexes"]) or _matches(child.name, options["hide_name_regexes"]):
                continue
            if all(child._all[field] >= options[least] for least, field in limits) and (
                    any(child._all[f] for f in options["select"] if f in _FIELDS) or options["select"] == []):
                out.children.append(_shown(child, options, depth + 1))
    order = options["order_by"]
    out.children.sort(key=(lambda n: n.name) if order in ("name", "depth") else (lambda n: -n._all[order]))
    return out


def _text(node, select, depth=0):
    columns = []
    for field in select:
        if field in _FIELDS:
            columns.append("%s/%s %s" % (node._own[field], node._all[field], field))
    shape = " (%s)" % node.tensor_shape if node.tensor_shape is not None else ""
    lines = ["%s%s%s (%s)" % ("  " * depth, node.name, shape, ", ".join(columns))]
    for child in node.children:
        lines.append(_text(child, select, depth + 1))
    return "\n".join(lines)


class Profiler:
    """Profiles a graph; the metadata of steps is added with add_step."""

    def __init__(self, graph=None, op_log=None):
        self._graph, self._steps = graph or _ops.get_default_graph(), {}

    def add_step(self, step, run_meta):
        """Adds the RunMetadata of a step."""
        self._steps[step] = run_meta

    def profile_name_scope(self, options):
        """Profiles the name scopes, prints the result as the options say, and returns it."""
        return self._profile("scope", options)

    def profile_graph(self, options):
        """Profiles the nodes of the graph, prints the result as the options say, and returns it."""
        return self._profile("graph", options)

    def profile_operations(self, options):
        """Profiles the types of operations, prints the result as the options say, and returns it."""
        return self._profile("op", options)

    def profile_python(self, options):
        """Profiles the lines of Python, prints the result as the options say, and returns it."""
        return self._profile("code", options)

    def advise(self, options=None):
        """Prints and returns the ten types of operations that took most of the time: {type: share of the time}."""
        root = self._nodes("op", dict(_DEFAULTS))
        total = root._all["micros"] or 1
        found = {n.name: round(n._all["micros"] / total, 4)
                 for n in sorted(root.children, key=lambda n: -n._all["micros"])[:10]}
        for name, share in found.items():
            sys.stdout.write("%-30s %6.2f %% of the time\n" % (name, 100 * share))
        return found

    def _times(self, step):
        if not self._steps:
            return {}
        if step is not None and step >= 0 and step not in self._steps:
            raise ValueError("Step %d was not added to the profiler" % step)
        return _read_step(self._steps[step if step is not None and step >= 0 else max(self._steps)])

    def _nodes(self, view, options):
        trainable = {getattr(v, "op", v).name for v in self._graph.get_collection(_ops.GraphKeys.TRAINABLE_VARIABLES)}
        times = self._times(options.get("step", -1))
        operations = self._graph.get_operations()
        nodes = [_own(op, trainable, times) for op in operations]
        nodes = [n for n in nodes if _is_accounted(n, options)]
        where = {op.name: op for op in operations}
        if view in ("scope", "graph"):
            root = _tree(nodes)
        elif view == "op":
            root = _groups(nodes, lambda n: [where[n.name].type])
        else:
            root = _groups(nodes, lambda n: ["%s:%d:%s" % f[:3] for f in where[n.name].traceback[-1:]])
        root._sum()
        return root

    def _profile(self, view, options):
        options = dict(copy.deepcopy(_DEFAULTS), **(options or {}))
        shown = _shown(self._nodes(view, options), options)
        kind, _, rest = options["output"].partition(":")
        if kind == "timeline":
            from .client.timeline import Timeline
            text = Timeline(self._steps[max(self._steps)].step_stats).generate_chrome_trace_format() if self._steps else "{}"
        else:
            text = _text(shown, options["select"]) + "\n"
        if kind == "stdout":
            sys.stdout.write(text)
        elif kind != "none":
            with open(rest.partition("=")[2], "w") as f:
                f.write(text)
        return shown


def profile(graph=None, run_meta=None, op_log=None, cmd="scope", options=None):
    """A view of a graph; with the metadata of a run, also its times."""
    if cmd not in ("scope", "graph", "op", "code"):
        from .framework import errors
        raise errors.InvalidArgumentError(None, None, "unknown cmd: %s" % cmd)
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    return profiler._profile(cmd, options)


def advise(graph=None, run_meta=None, options=None):
    """Prints and returns the ten types of operations that took most of the time: {type: share of the time}."""
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    return profiler.advise(options)


def write_op_log(graph, log_dir, op_log=None, run_meta=None, add_trace=True):
    """Raises NotImplementedError: there is no op log."""
    raise NotImplementedError("tf.profiler.write_op_log")
