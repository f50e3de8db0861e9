"""The extension module under arguments that nobody should give it: it raises, and the process lives on."""

import gc
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import weakref

import numpy as np

import _millrace
import millrace as tf


def make_graph():
    g = tf.Graph()
    with g.as_default():
        x = tf.placeholder(tf.float32, name="x")
        c = tf.constant(1.0, name="c")
        tf.identity(x + c, name="i")
    return g


class Changing:
    """Whoever looks at it closely finds the list it is in emptied."""

    def __init__(self, *lists):
        self.lists = lists

    def _change(self):
        for l in self.lists:
            l.clear()

    def __index__(self):
        self._change()
        return 1

    def __float__(self):
        self._change()
        return 1.0

    def __bool__(self):
        self._change()
        return True

    def __array__(self, *unused):
        self._change()
        return np.zeros(3, np.float32)


class Raising:
    def __getattr__(self, name):
        raise ZeroDivisionError(name)

    def __len__(self):
        raise ZeroDivisionError("len")

    __iter__ = __index__ = __float__ = __bool__ = __repr__ = __str__ = __array__ = __len__


class EveryMethod(unittest.TestCase):
    """Calls by the thousand: no combination of these values may do more than raise."""

    # A server that nobody stops is waited for; digits take a second to draw whatever is asked.
    WAITS = {"join", "watch_signals", "generated_digits"}
    GLOBAL = {"set_error_maker", "set_function_caller", "end_function_calls", "set_default_graphs", "set_dtypes", "set_helpers",
              "set_package", "set_plain_numbers"}  # stays for the tests behind this one

    def values(self):
        g, other = make_graph(), make_graph()
        loner = make_graph().get_operation_by_name("c")  # nobody else holds its graph
        closed = _millrace.Session(g, "", b"")
        closed.close()
        return [None, 0, -1, 2**31, 2**64, 1.5, True, "", "c", "a\0b", "\ud800", b"", b"\xff" * 9, bytearray(b"x"), [], (),
                [None], [[]], ("c", 0), [("c", "i", 1)], {}, object(), object, np.zeros(3), np.empty(2, object), Raising(),
                [Raising()], g,
                other.get_operation_by_name("i"), other.get_tensor_by_name("c:0"), [g.get_tensor_by_name("i:0")],
                [other.get_tensor_by_name("i:0")], [loner], g.to_graph_def(), closed]

    def call_all(self, f, most):
        values = self.values()
        for n in range(most + 1):
            for args in itertools.product(values, repeat=n):
                self.call(f, args)
        for n in range(most + 1, 9):  # too many for all combinations: each value at each place
            for at, value in itertools.product(range(n), values):
                self.call(f, (values[0],) * at + (value,) + (values[14],) * (n - at - 1))
        self.call(f, (), {"name": 1})

    def call(self, f, args, kwargs={}):
        try:
            f(*args, **kwargs)
        except Exception as e:
            if isinstance(e, SystemError):
                self.fail("%s of %s: %s" % (f, [type(a).__name__ for a in args], e))

    def methods_of(self, target):
        for name in dir(target):
            if name not in self.WAITS | self.GLOBAL and not name.startswith("__"):
                yield name

    def test_functions_of_the_module(self):
        for name in self.methods_of(_millrace):
            self.call_all(getattr(_millrace, name), 1)

    def test_methods_of_objects(self):
        g = make_graph()
        closed = _millrace.Session(g, "", b"")
        closed.close()
        function = g.to_function("f", False, None, [], [g.get_tensor_by_name("c:0")], None)
        session = _millrace.Session(g, "", b"")
        for o in (g, g.get_operation_by_name("i"), g.get_tensor_by_name("i:0"), session, closed, function):
            base = next(c for c in type(o).__mro__ if c in vars(_millrace).values())
            for name in self.methods_of(base):
                f = getattr(base, name)
                if callable(f):
                    self.call_all(lambda *a, **k: f(o, *a, **k), 1)
                    self.call(f, (object(),))
                    self.call(f, ())

    def test_methods_of_parameter_servers_and_groups(self):
        manager, client, group = _millrace.PsManager(), _millrace.Ps(), _millrace.Group(size=1)
        client.table("t", 3)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # snapshots go anywhere
            try:
                for o in (client.push(0, [1], [2]), client.pull(0, [1]), client, manager, group):
                    for name in sorted(self.methods_of(type(o)), key=lambda n: n == "close"):
                        if callable(getattr(o, name)):
                            self.call_all(getattr(o, name), 1)
            finally:
                os.chdir(before)

    def test_methods_of_clusters(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            host = "127.0.0.1:%d" % s.getsockname()[1]
        with tf.Graph().as_default() as g:
            w = tf.get_variable("w", [2], use_resource=True)
            loss = tf.reduce_sum(tf.square(w))
            part = (w.handle, True, tf.gradients(loss, w)[0], None, None, w.initializer)
        task = _millrace.ClusterTask("", host, "worker", 0)
        good = [g, task, [part], 1, loss, "async", 0, 0, 0, 0, 0, False]
        training = _millrace.Training(*good)
        options = [training.gradients[0][0].op, [], None, 0, 0, 0, 0, False]
        for value in self.values():
            for at in range(len(good)):
                self.call(_millrace.Training, good[:at] + [value] + good[at + 1:])
            for at in range(len(part)):
                self.call(_millrace.Training, [g, task, [part[:at] + (value,) + part[at + 1:]]] + good[3:])
            for at in range(len(options) - 1):
                self.call(_millrace.Training(*good).complete, options[:at] + [value] + options[at + 1:])
            self.call(_millrace.ClusterTask, (value, value, value, value))
        for o in (training, task):
            for name in sorted(set(self.methods_of(type(o))) - {"serve"}, key=lambda n: n == "close"):
                if callable(getattr(o, name)):
                    self.call_all(getattr(o, name), 1)
        self.assertEqual((training.is_chief, task.worker), (False, -1))

    def test_methods_of_distbelief(self):
        with tf.Graph().as_default() as g:
            w = tf.get_variable("w", [2])
            loss = tf.reduce_sum(tf.square(w))
            part = (w._ref(), True, tf.gradients(loss, w)[0], None, None)
        session, client = _millrace.Session(g, "", b""), _millrace.Ps()
        session.run([], [], [], [w.initializer])
        downpour, started = (_millrace.Downpour(g, [part], loss, name=name) for name in "ab")
        started.start(session, client)
        replica = _millrace.SandblasterReplica(g, [part], loss, [])
        coordinator = _millrace.Sandblaster(client, deadline_ms=50)
        for o in (downpour, started, replica, coordinator):
            for name in sorted(self.methods_of(type(o)), key=lambda n: n in ("close", "cancel")):
                if callable(getattr(o, name)):
                    self.call_all(getattr(o, name), 1)
        for value in self.values():
            for at in range(5):
                self.call(_millrace.Downpour, (g, [part[:at] + (value,) + part[at + 1:]], loss))
            self.call(_millrace.Downpour, (g, [part], value))
            self.call(_millrace.SandblasterReplica, (g, [part], loss, value))
            self.call(_millrace.Downpour(g, [part], loss).start, (session, value))
            self.call(started.train, ([], [], value))
            self.call(replica.fetch, (session, client, value))
            self.call(replica.work, (session, client, "localhost:1", value, None, 10))
        client.close()

    def test_arguments_of_operations(self):
        g = make_graph()
        for op_type, names in (("Add", "xy"), ("Assign", ("ref", "value")), ("Pack", ("values", "N", "axis")),
                               ("IdentityN", ("input", "T")), ("Cast", ("x", "DstT", "Truncate")), ("Nothing", "x")):
            for values in itertools.product(self.values(), repeat=min(len(names), 2)):
                with g.as_default():
                    self.call(_millrace.call, (op_type,), dict(zip(names, values)))
                    self.call(_millrace.add, (op_type, None, dict(zip(names[1:], values))))
        for value in self.values():
            for scope in ("_name_stack", "_control_flow_context", "_control_stack", "_colocation_stack", "_device_stack",
                          "_attr_scope_map", "_gradient_override", "_kernel_labels", "_thread"):
                g = make_graph()
                with g.as_default():
                    self.call(setattr, (g, scope, value))
                    self.call(_millrace.call, ("Identity", None), {"input": g.get_tensor_by_name("c:0")})
                    self.call(_millrace.call, ("Identity", None), {"input": [1]})

    def test_plans(self):
        class Everything:
            name = type_attr = number_attr = types_attr = ""
            type, is_ref, is_list, has_default, inferred = 1, False, False, False, False
            allowed = minimum = default = None
            kind = "i"
        for value in self.values():
            self.call(_millrace.Plan()._define, (value, value, value, value, value))
            for name in [n for n in dir(Everything) if not n.startswith("_")]:
                thing = Everything()
                setattr(thing, name, value)
                for at in range(3):
                    parts = [(), (), ()]
                    parts[at] = (thing,)
                    self.call(_millrace.Plan()._define, ("Nothing", *parts, True))

    def test_names_of_objects(self):
        for base in (_millrace.Graph, _millrace.Operation, _millrace.Output, _millrace.Function):
            for name in self.methods_of(base):
                f = getattr(base, name)
                if not callable(f):
                    for value in self.values():
                        self.call(f.__get__, (value,))
                        self.call(f.__set__, (value, value))

    def test_runs(self):
        g = make_graph()
        s = _millrace.Session(g, "", b"")
        values = self.values() + [[g.get_tensor_by_name("x:0")], [1.0]]
        for feeds, value, fetches in itertools.product(values, values, values[:20] + values[-9:]):
            self.call(s.run, (feeds, value, fetches, []))
        for value in values:
            self.call(s.run, ([], [], [], value))
            self.call(s.run, ([], [], [g.get_tensor_by_name("c:0")], [], value))
            self.call(s.run, ([], [], [g.get_tensor_by_name("c:0")], [], None, value))

    def test_attrs(self):
        g = make_graph()
        for i, (kind, value) in enumerate(itertools.product("sifbthxnp", self.values() + [(1, 2.0), (10**9, 1), (7, [1])])):
            for k in (kind, "[" + kind):
                self.call(g.new_op, ("Placeholder", "p%d" % i, [], [], [("dtype", "t", 1), ("a", k, value)]))
                self.call(g.new_op, ("Placeholder", "q%d" % i, [], [], [("dtype", "t", 1), ("a", k, [value, value])]))
        for kind in ("", "[", "z", "[z", "[[", "é"):
            self.assertRaises((ValueError, OverflowError), g.new_op, "NoOp", "n", [], [], [("a", kind, [1])])

    def test_no_instance_without_what_it_needs(self):
        for kind in (_millrace.Operation, _millrace.Function, tf.Operation):
            self.assertRaises(TypeError, object.__new__, kind)
            self.assertRaises(TypeError, kind.__new__, kind)
        for kind in (_millrace.Output, _millrace.Session, _millrace.Server, _millrace.CheckpointReader):
            self.assertRaises(TypeError, kind)


class Changes(unittest.TestCase):
    """Python code that runs while arguments are read may change what they are in."""

    def test_dimensions(self):
        dims = []
        dims += [Changing(dims)] + [object() for _ in range(1000)]
        self.assertRaises(TypeError, make_graph().new_op, "Placeholder", "p", [], [], [("dtype", "t", 1), ("shape", "h", dims)])

    def test_numbers(self):
        for kind in "ifb":
            numbers = []
            numbers += [Changing(numbers) for _ in range(1000)]
            op = make_graph().new_op("Placeholder", "p", [], [], [("dtype", "t", 1), ("_a", "[" + kind, numbers)])
            self.assertEqual(op.name, "p")
            self.assertEqual(numbers, [])

    def test_attrs(self):
        attrs = []
        attrs += [("dtype", "t", 1)] + [("_a%d" % i, "b", Changing(attrs)) for i in range(1000)]
        self.assertEqual(make_graph().new_op("Placeholder", "p", [], [], attrs)._attr("_a999"), ("b", True))

    def test_feeds_and_fetches(self):
        g = make_graph()
        x, i = g.get_tensor_by_name("x:0"), g.get_tensor_by_name("i:0")
        s = _millrace.Session(g, "", b"")
        for which in range(3):
            lists = [[x] * 50, [], [i] * 50]
            lists[1] += [Changing(lists[which]) for _ in range(50)]
            with self.assertRaisesRegex(RuntimeError, "modified"):
                s.run(lists[0], lists[1], lists[2], [])

    def test_names_that_nobody_holds(self):
        g = make_graph()
        names = ("".join(["out", str(i)]) for i in range(1))
        f = g.to_function("f", False, None, [], [g.get_tensor_by_name("c:0")], names)
        self.assertIn(b"out0", f.to_def())


class Wrong(unittest.TestCase):
    def test_operations_of_another_graph(self):
        g, other = make_graph(), make_graph().get_operation_by_name("i")
        mine = g.get_operation_by_name("i")
        for f, args in ((g.add_control, (mine, other)), (g.add_control, (other, mine)), (g.clear_controls, (other,)),
                        (g.set_device, (other, "/cpu:0")), (g.update_input, (mine, 0, other.outputs[0])),
                        (g.constant, (other.outputs[0],)), (g.merge_shape, (other.outputs[0], [1])),
                        (g.new_op, ("NoOp", "n", [], [other], []))):
            with self.assertRaises((ValueError, tf.errors.InvalidArgumentError), msg=f):
                f(*args)

    def test_options_that_are_none(self):
        g = make_graph()
        s = _millrace.Session(g, "", b"")
        self.assertRaises(TypeError, s.run, [], [], [g.get_tensor_by_name("c:0")], [], "full trace")
        self.assertRaises(ZeroDivisionError, s.run, [], [], [g.get_tensor_by_name("c:0")], [], None, Raising())

    def test_keywords_that_nothing_reads(self):
        g = make_graph()
        for kind, args in ((_millrace.Session, (g, "", b"")), (_millrace.Output, (g.op("c"), 0)), (_millrace.Server, (b"",)),
                           (_millrace.CheckpointReader, ("none",))):
            with self.assertRaisesRegex(TypeError, "keyword"):
                kind(*args, nothing=1)

    def test_a_circle(self):
        g = make_graph()
        i = g.op("i")
        g.update_input(i, 0, i.outputs[0])
        self.assertRaises(tf.errors.InvalidArgumentError, _millrace.Session(g, "", b"").run, [], [], [i.outputs[0]], [])

    def test_an_operation_that_waits_for_itself(self):
        g = make_graph()
        g.add_control(g.op("c"), g.op("c"))
        s = _millrace.Session(g, "", b"")
        try:
            s.run([], [], [g.op("c").outputs[0]], [])
        except tf.errors.OpError:
            pass
        self.assertEqual(g.op("c")._node_def()[:3], b"\n\x01c")

    def test_names_with_a_null(self):
        self.assertRaises(ValueError, make_graph().op, "c\0d")
        self.assertRaises(ValueError, _millrace.kernels_of, "NoOp\0d")

    def test_an_operation_whose_object_fails(self):
        g = make_graph()
        for wrong in (None, tf.Tensor, 5):
            g._operation_class = wrong
            self.assertRaises(TypeError, g.new_op, "NoOp", "n%s" % wrong, [], [], [])
        g._operation_class = tf.Operation
        self.assertEqual(g.op("n5").outputs, [])
        p, g._output_class = g.new_op("Placeholder", "p", [], [], [("dtype", "t", 1)]), tf.Operation
        self.assertRaises(TypeError, getattr, p, "outputs")
        g._output_class = tf.Tensor
        self.assertIs(p.outputs[0].op, p)

    def test_an_error_maker_that_fails(self):
        script = ("import _millrace\n"
                  "for maker in (5, lambda *a: 5, lambda *a: 1 / 0, lambda: 0):\n"
                  "    _millrace.set_error_maker(maker)\n"
                  "    try:\n"
                  "        _millrace.Graph().op_def('Nothing')\n"
                  "    except (TypeError, SystemError, ZeroDivisionError) as e:\n"
                  "        print(type(e).__name__)\n")
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        self.assertEqual(out.split(), ["TypeError", "SystemError", "ZeroDivisionError", "TypeError"])


class Processes(unittest.TestCase):
    """How processes end, and what a fork takes along; each script is to print one line and to end by itself."""

    def run_script(self, text):
        # A process that was started in the background has inherited that SIGINT is ignored.
        script = ("import os, signal, threading, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                  "import millrace as tf\n" + text)
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="1")  # without the line of a server that begins
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def test_a_dataset_calls_python_at_the_end(self):
        self.assertEqual(self.run_script(
            "def slow(a):\n"
            "    time.sleep(0.001)\n"
            "    return a\n"
            "d = tf.data.Dataset.range(10**9).map(lambda x: tf.py_func(slow, [x], tf.int64), num_parallel_calls=4)\n"
            "n = d.prefetch(10).make_one_shot_iterator().get_next()\n"
            "s = tf.Session()\n"
            "print(s.run(n))\n"), "0")

    def test_a_function_that_never_returns(self):
        self.assertEqual(self.run_script(
            "y = tf.py_func(lambda: time.sleep(10**6), [], tf.float64)\n"
            "s = tf.Session()\n"
            "threading.Thread(target=lambda: s.run(y), daemon=True).start()\n"
            "time.sleep(0.2)\n"
            "print('end')\n"), "end")

    def test_a_thread_that_waits_in_a_run(self):
        self.assertEqual(self.run_script(
            "y = tf.FIFOQueue(1, tf.float32).dequeue()\n"
            "s = tf.Session()\n"
            "threading.Thread(target=lambda: s.run(y), daemon=True).start()\n"
            "time.sleep(0.2)\n"
            "print('end')\n"), "end")

    def test_a_signal_of_a_child_is_not_the_parents(self):
        self.assertEqual(self.run_script(
            "q = tf.FIFOQueue(1, tf.float32)\n"
            "take, put = q.dequeue(), q.enqueue(1.0)\n"
            "s = tf.Session()\n"
            "def child():\n"
            "    pid = os.fork()\n"
            "    if pid == 0:\n"
            "        signal.signal(signal.SIGINT, lambda *a: os._exit(0))\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "        time.sleep(60)\n"
            "    os.waitpid(pid, 0)\n"
            "    time.sleep(0.2)\n"
            "    s.run(put)\n"
            "threading.Timer(0.2, child).start()\n"
            "print(s.run(take))\n"), "1.0")

    def test_ctrl_c_in_a_child(self):
        self.assertEqual(self.run_script(
            "y = tf.FIFOQueue(1, tf.float32).dequeue()\n"
            "tf.Session().close()\n"
            "pid = os.fork()\n"
            "if pid:\n"
            "    os.waitpid(pid, 0)\n"
            "    os._exit(0)\n"
            "s = tf.Session()\n"
            "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "try:\n"
            "    s.run(y)\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"), "interrupted")


    def test_ctrl_c_ends_the_wait_for_a_pipe(self):
        self.assertEqual(self.run_script(
            "import tempfile\n"
            "fifo = tempfile.mkdtemp() + '/fifo'\n"
            "os.mkfifo(fifo)\n"
            "lines = tf.data.TextLineDataset(fifo).make_one_shot_iterator().get_next()\n"
            "queue = tf.train.string_input_producer([fifo])\n"
            "whole = tf.WholeFileReader().read(queue)\n"
            "s = tf.Session()\n"
            "s.run(tf.local_variables_initializer())\n"
            "tf.train.start_queue_runners(s)\n"
            "for y in (tf.read_file(fifo), lines, whole):\n"
            "    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "    try:\n"
            "        s.run(y)\n"
            "    except KeyboardInterrupt:\n"
            "        print('interrupted', flush=True)\n"
            "os._exit(0)\n"), "interrupted\ninterrupted\ninterrupted")

    def test_a_step_that_waits_for_a_pipe_has_a_deadline(self):
        self.assertEqual(self.run_script(
            "import tempfile\n"
            "fifo = tempfile.mkdtemp() + '/fifo'\n"
            "os.mkfifo(fifo)\n"
            "y, x = tf.read_file(fifo), tf.constant(1) + 1\n"
            "config = tf.ConfigProto(inter_op_parallelism_threads=1, operation_timeout_in_ms=300)\n"
            "with tf.Session(config=config) as s:\n"
            "    try:\n"
            "        s.run(y)\n"
            "    except tf.errors.DeadlineExceededError:\n"
            "        print(s.run(x))\n"), "2")

    def test_a_server_outlives_its_object(self):
        self.assertEqual(self.run_script(
            "def target():\n"
            "    return tf.train.Server.create_local_server().target\n"
            "with tf.Session(target()) as s:\n"
            "    print(s.run(tf.constant(3) * 2))\n"), "6")


class Sharing(unittest.TestCase):
    """What a program writes into arrays it has fed or fetched changes nothing else; these are too large to be copied anyway."""

    def setUp(self):
        tf.reset_default_graph()
        self.fed = np.full(5000, 3, np.float32)

    def test_a_variable_keeps_what_was_fed(self):
        x = tf.placeholder(tf.float32, [5000])
        for use_resource in (False, True):
            v = tf.Variable(tf.zeros([5000]), use_resource=use_resource)
            with tf.Session() as s:
                self.fed[:] = 3
                s.run(v.assign(x).op, {x: self.fed})
                self.fed[:] = 9
                self.assertEqual(s.run(v)[0], 3)

    def test_a_queue_keeps_what_was_fed(self):
        x = tf.placeholder(tf.float32, [5000])
        q = tf.FIFOQueue(2, tf.float32)
        with tf.Session() as s:
            s.run(q.enqueue(x), {x: self.fed})
            self.fed[:] = 9
            self.assertEqual(s.run(q.dequeue())[0], 3)

    def test_writing_into_what_was_fetched(self):
        c = tf.constant(self.fed)
        v = tf.Variable(self.fed, use_resource=True)
        with tf.Session() as s:
            s.run(v.initializer)
            for y in (c, tf.identity(c), v.read_value()):
                s.run(y)[:] = 7
                self.assertEqual(s.run(y)[0], 3)

    def test_a_python_function_that_writes_into_its_inputs(self):
        c = tf.constant(self.fed)

        def add(a):
            a += 1
            return a

        with tf.Session() as s:
            self.assertEqual([s.run(tf.py_func(add, [c], tf.float32))[0], s.run(c)[0]], [4, 3])

    def test_a_python_function_that_returns_the_same_array(self):
        def count():
            self.fed += 1
            return self.fed

        q = tf.FIFOQueue(2, tf.float32)
        put = q.enqueue(tf.py_func(count, [], tf.float32))
        with tf.Session() as s:
            s.run(put)
            s.run(put)
            self.assertEqual([s.run(q.dequeue())[0], s.run(q.dequeue())[0]], [4, 5])


class Lives(unittest.TestCase):
    def test_operations_keep_their_graph(self):
        op = make_graph().get_operation_by_name("i")
        gc.collect()
        self.assertEqual([o.name for o in op.graph.get_operations()], ["x", "c", "add", "i"])

    def test_a_graph_that_holds_its_session_is_collected(self):
        g = make_graph()
        g.session = tf.Session(graph=g)
        gone = weakref.ref(g)
        del g
        gc.collect()
        self.assertIsNone(gone())

    def test_a_session_outlives_its_graph(self):
        g = make_graph()
        s, c = _millrace.Session(g, "", b""), g.get_tensor_by_name("c:0")
        del g
        gc.collect()
        self.assertEqual(s.run([], [], [c], []), [1.0])


if __name__ == "__main__":
    unittest.main()
