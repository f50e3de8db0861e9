"""Timelines: the statistics of a step as a picture for chrome://tracing or Perfetto.

    metadata = tf.RunMetadata()
    sess.run(fetches, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    open("step.json", "w").write(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())

Each device is a process of the picture, and its operations are in as many rows as ran at once.
"""
import collections
import json
import re

AllocationMaximum = collections.namedtuple("AllocationMaximum", "timestamp num_bytes tensors")
StepStatsAnalysis = collections.namedtuple("StepStatsAnalysis", "chrome_trace allocator_maximums")

# "x = MatMul(a, b:1)" is what the label of an operation says; some have "[bytes]" and the like behind it.
_LABEL = re.compile(r"^\s*(?:\[.*?\]\s*)?([\w/.:^-]+)\s*=\s*(\w+)\(([^)]*)\)")


class Timeline:
    """Of a StepStats message."""

    def __init__(self, step_stats, graph=None):
        self._stats, self._graph, self._events = step_stats, graph, []

    def generate_chrome_trace_format(self, show_dataflow=True, show_memory=False, op_time="schedule"):
        return self.analyze_step_stats(show_dataflow, show_memory, op_time).chrome_trace.format_to_string(pretty=True)

    def analyze_step_stats(self, show_dataflow=True, show_memory=True, op_time="schedule"):
        """op_time says what is shown as an operation's time: "schedule" and "all" all of it, "gpu" its kernel's alone."""
        if op_time not in ("schedule", "gpu", "all"):
            raise ValueError("op_time must be schedule, gpu or all, got %r" % (op_time,))
        self._events = []
        made = {}  # name of an operation -> where its arrow begins
        ends = []  # (inputs, where their arrows end)
        for pid, device in enumerate(self._stats.dev_stats):
            self._add_meta("process_name", pid, 0, device.device + " Compute")
            for row, node in _in_rows(device.node_stats):
                name, op, inputs = self._read_label(node)
                begin, took = _span(node, op_time)
                self._events.append({"ph": "X", "cat": "Op", "name": op, "pid": pid, "tid": row, "ts": begin, "dur": took,
                                     "args": dict({"name": name, "op": op},
                                                  **{"input%d" % i: x for i, x in enumerate(inputs)})})
                made.setdefault(name, (pid, row, begin + took))
                ends.append((inputs, (pid, row, begin)))
        if show_dataflow:
            self._add_arrows(made, ends)
        maximums = self._memory(show_memory)
        return StepStatsAnalysis(_ChromeTrace(self._events), maximums)

    def _add_meta(self, what, pid, tid, name):
        self._events.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})

    def _read_label(self, node):
        """Name, op and inputs, from the graph or from the label."""
        name = node.node_name
        if self._graph is not None and self._graph.has_op(name):
            op = self._graph.op(name)
            return name, op.type, [t.op.name for t in op.inputs]
        found = _LABEL.match(node.timeline_label)
        if not found:
            return name, name.rpartition(":")[2].rpartition("/")[2] if ":" in name else "unknown", []
        inputs = [x.strip().lstrip("^").partition(":")[0] for x in found.group(3).split(",") if x.strip()]
        return found.group(1), found.group(2), inputs

    def _add_arrows(self, made, ends):
        number = 0
        for inputs, (pid, row, at) in ends:
            for source in inputs:
                if source in made:
                    s_pid, s_row, s_at = made[source]
                    common = {"cat": "DataFlow", "name": source, "id": number}
                    self._events.append(dict(common, ph="s", pid=s_pid, tid=s_row, ts=s_at))
                    self._events.append(dict(common, ph="t", pid=pid, tid=row, ts=max(at, s_at)))
                    number += 1

    def _memory(self, show):
        """The most that each allocator had given out, and counters of it if they are to be shown."""
        changes = collections.defaultdict(list)
        for device in self._stats.dev_stats:
            for node in device.node_stats:
                for m in node.memory:
                    if m.total_bytes:
                        begin, took = _span(node, "schedule")
                        changes[m.allocator_name] += [(begin, m.total_bytes, node.node_name),
                                                      (begin + took, -m.total_bytes, "")]
        maximums = {}
        pid = len(self._stats.dev_stats)
        for allocator, list_ in changes.items():
            have = most = when = 0
            if show:
                self._add_meta("process_name", pid, 0, "Memory " + allocator)
            for at, n, _ in sorted(list_):
                have += n
                if have > most:
                    most, when = have, at
                if show:
                    self._events.append({"ph": "C", "cat": "Memory", "name": allocator, "pid": pid, "tid": 0, "ts": at,
                                         "args": {allocator: have}})
            maximums[allocator] = AllocationMaximum(when, most, {name for _, _, name in list_ if name})
            pid += 1
        return maximums


class _ChromeTrace:
    def __init__(self, events):
        self._events = events

    def format_to_string(self, pretty=False):
        meta = [e for e in self._events if e["ph"] == "M"]
        rest = sorted((e for e in self._events if e["ph"] != "M"), key=lambda e: e["ts"])
        return json.dumps({"traceEvents": meta + rest}, indent=4 if pretty else None, separators=None if pretty else (",", ":"))


def _span(node, op_time):
    """When it began and how long it took, in microseconds: from its start to its end, or the kernel alone."""
    if op_time == "gpu":
        return node.all_start_micros + node.op_start_rel_micros, max(node.op_end_rel_micros - node.op_start_rel_micros, 1)
    return node.all_start_micros, max(node.all_end_rel_micros, 1)


def _in_rows(nodes):
    """(row, node): rows are filled so that nothing in one overlaps."""
    free_at = []
    for node in sorted(nodes, key=lambda n: n.all_start_micros):
        begin, took = _span(node, "schedule")
        row = next((i for i, t in enumerate(free_at) if t <= begin), None)
        if row is None:
            row = len(free_at)
            free_at.append(0)
        free_at[row] = begin + took
        yield row, node
