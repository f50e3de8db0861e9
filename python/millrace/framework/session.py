"""Sessions: running parts of a graph with feeds and fetches."""

import collections
import os
import threading
import warnings

import numpy as np

import _millrace as _core
from . import errors, ops

_watched = False
_wakeup = -1  # the descriptor that the interpreter writes signals to, when it is ours


def _forget_signals():
    """In a child of a fork: the descriptor was its parent's, and its own first session gets another."""
    global _watched, _wakeup
    if _wakeup >= 0:
        import signal
        former = signal.set_wakeup_fd(-1)
        if former not in (-1, _wakeup):
            signal.set_wakeup_fd(former)
    _watched, _wakeup = False, -1


os.register_at_fork(after_in_child=_forget_signals)


def _watch_signals():
    """Lets Ctrl-C end a run, unless the program has set its own wake-up descriptor."""
    global _watched, _wakeup
    if _watched or threading.current_thread() is not threading.main_thread():
        return
    _watched = True
    import signal
    fd = _core.watch_signals()
    former = signal.set_wakeup_fd(fd, warn_on_full_buffer=False) if fd >= 0 else -1
    if former >= 0:
        signal.set_wakeup_fd(former)
    elif fd >= 0:
        _wakeup = fd


# ---- what programs of their own feed and fetch ----

_Conversion = collections.namedtuple("_Conversion", ["kind", "fetch", "feed", "fed"])
_conversions = []  # the newest first; `feed` and `fed` may be None


def register_session_run_conversion_functions(tensor_type, fetch_function, feed_function=None,
                                              feed_function_for_partial_run=None):
    """fetch_function(x) is (tensors, function of their values), feed_function(x, value) pairs of tensors and values,
    feed_function_for_partial_run(x) the tensors alone."""
    if any(tensor_type is c.kind for c in _conversions):
        raise ValueError("%s has already been registered." % tensor_type)
    _conversions.insert(0, _Conversion(tensor_type, fetch_function, feed_function, feed_function_for_partial_run))


def _conversion_of(x, way):
    """The function for `way` ("fetch", "feed" or "fed") that the newest class that x is of has; None when there is none."""
    return next((getattr(c, way) for c in _conversions if isinstance(x, c.kind) and getattr(c, way)), None)


# ---- fetches ----

_HANDLE_OPS = ("GetSessionHandle", "GetSessionHandleV2")  # their values come back as TensorHandles
_MOST_DEAD_HANDLES = 10  # before their tensors are deleted, in one run
_MOST_PREPARED = 32  # feeds or fetches of a _core.Callable


class _Fetches:
    """What a run is to fetch: the tensors and operations in a nested structure, and the way back."""

    __slots__ = ("tensors", "targets", "_at", "_build", "_graph", "_fed", "_session")

    def __init__(self, graph, fetches, session=None):
        self._graph, self._session = graph, session
        self.tensors, self.targets, self._at, self._fed = [], [], {}, None
        self._build = self._take(fetches)

    def give_back(self, feeds, values):
        """What is both fed and fetched does not go through the graph."""
        fed = {self._at[t]: np.asarray(v, t.dtype.as_numpy_dtype) for t, v in zip(feeds, values) if t in self._at}
        if fed:
            self._fed = [fed.get(i) for i in range(len(self.tensors))]
            self.tensors = [t for i, t in enumerate(self.tensors) if i not in fed]

    def results(self, values):
        if self._fed is not None:
            values = iter(values)
            values = [next(values) if v is None else v for v in self._fed]
        return self._build(values)

    def _take(self, f):
        if isinstance(f, ops.Tensor):
            return self._take_element(f)
        if f is None:
            raise TypeError("Fetch argument %r has invalid type %r" % (f, type(f)))
        if isinstance(f, (list, tuple)):
            return self._take_sequence(f)
        if isinstance(f, collections.abc.Mapping):
            keys, builders = list(f), [self._take(f[k]) for k in f]
            kind = type(f) if isinstance(f, collections.OrderedDict) else dict
            return lambda values: kind((k, b(values)) for k, b in zip(keys, builders))
        if hasattr(type(f), "__attrs_attrs__"):
            return self._take_attrs(f)
        if hasattr(f, "_fetch_parts"):
            return self._take_parts(*f._fetch_parts())
        fetch = _conversion_of(f, "fetch")
        return self._take_element(f) if fetch is None else self._take_parts(*fetch(f))

    def _take_attrs(self, f):
        """An object of a class made by the package attrs: fields in their order, and an object of the same class back."""
        builders = [self._take(getattr(f, a.name)) for a in type(f).__attrs_attrs__]
        return lambda values: type(f)(*[b(values) for b in builders])

    def _take_parts(self, tensors, rebuild):
        builders = [self._take_element(t) for t in tensors]
        return lambda values: rebuild([b(values) for b in builders])

    def _take_sequence(self, f):
        builders = [self._take(x) for x in f]
        if isinstance(f, list):
            return lambda values: [b(values) for b in builders]
        if hasattr(f, "_fields"):
            return lambda values: type(f)(*[b(values) for b in builders])
        return lambda values: tuple(b(values) for b in builders)

    def _take_element(self, f):
        try:
            e = self._graph.as_graph_element(f)
        except TypeError as e:
            raise TypeError("Fetch argument %r has invalid type %r, must be a string or Tensor. (%s)" %
                            (f, type(f), e)) from None
        except (ValueError, KeyError) as e:
            raise ValueError("Fetch argument %r cannot be interpreted as a Tensor. (%s)" % (f, e)) from None
        if not self._graph.is_fetchable(e):
            raise ValueError("Operation %r has been marked as not fetchable." % e.name)
        if isinstance(e, ops.Operation):
            if e not in self._at:
                self._at[e] = None
                self.targets.append(e)
            return _nothing
        at = self._at.get(e)
        if at is None:
            at = self._at[e] = len(self.tensors)
            self.tensors.append(e)
        if e.op.type in _HANDLE_OPS:
            from ..ops.session_handles import TensorHandle
            return lambda values: TensorHandle(values[at], e.op.inputs[0].dtype, self._session)
        return lambda values: values[at]


def _nothing(values):
    return None


# ---- feeds ----

def _flat_feeds(key, value):
    """A pair for each tensor: a structure may be fed by one of the same form."""
    feed = _conversion_of(key, "feed")
    if hasattr(key, "_feed_parts"):
        yield from key._feed_parts(value)
    elif feed is not None:
        yield from feed(key, value)
    elif isinstance(key, (list, tuple)):
        if len(key) != len(value):
            raise ValueError("A feed of %d tensors has %d values" % (len(key), len(value)))
        for k, v in zip(key, value):
            yield from _flat_feeds(k, v)
    else:
        yield key, value


def _check_value(tensor, value):
    if isinstance(value, ops.Tensor) or isinstance(value, ops.IndexedSlices):
        raise TypeError("The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, "
                        "strings, lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was %s which was "
                        "passed to the feed with key %s." % (value, tensor))
    if isinstance(value, int) and not isinstance(value, bool):
        dtype = tensor.dtype.base_dtype
        if dtype.name == "string" or dtype.is_integer and not dtype.min <= value <= dtype.max:
            raise TypeError("Type of feed value %s with type %s is not compatible with Tensor type %s. Try explicitly setting "
                            "the type of the feed tensor to a larger type (e.g. int64)." %
                            (value, type(value), dtype.as_numpy_dtype))


# ---- where sessions are ----

_home, _home_filters = "", []


def set_home(target, device_filters):
    """Sessions that name no target are sessions of this one from now on, and see these devices alone unless they say otherwise."""
    global _home, _home_filters
    _home, _home_filters = target, list(device_filters)


def _at_home(target, config):
    if target or not _home:
        return target, config
    from .. import protos
    changed = protos.ConfigProto()
    if config is not None:
        changed.CopyFrom(config)
    if not changed.device_filters:
        changed.device_filters.extend(_home_filters)
    return _home, changed


def feeds_of(graph, feed_dict):
    """What is fed, and the values of it."""
    feeds, values = [], []
    for key, value in feed_dict.items():
        if type(key) is ops.Tensor and key.graph is graph:
            pairs = ((key, value),)
        else:
            pairs = _flat_feeds(key, value)
        for tensor, v in pairs:
            try:
                t = graph.as_graph_element(tensor, allow_operation=False)
            except (KeyError, TypeError, ValueError) as e:
                raise TypeError("Cannot interpret feed_dict key as Tensor: %s" % e.args[0]) from None
            if t in graph._unfeedable:
                raise ValueError("Tensor %s may not be fed." % t)
            _check_value(t, v)
            if type(v).__name__ == "TensorHandle":  # of ops.session_handles, which few programs load
                v = v.eval()
            feeds.append(t)
            values.append(v)
    return feeds, values


class BaseSession:
    """Runs parts of one graph."""

    def __init__(self, target="", graph=None, config=None):
        if isinstance(target, bytes):
            target = target.decode()
        if not isinstance(target, str):
            raise TypeError("target must be a string, but got %s" % (target,))
        if graph is not None and not isinstance(graph, ops.Graph):
            raise TypeError("graph must be a tf.Graph, but got %s" % type(graph))
        if config is not None and not hasattr(config, "SerializeToString"):
            raise TypeError("config must be a tf.ConfigProto, but got %s" % type(config))
        self._graph = graph or ops.get_default_graph()
        target, config = _at_home(target, config)
        self._target, self._config, self._closed = target, config, False
        self._dead_handles, self._dead_handles_lock = [], threading.RLock()  # its owner may collect a handle
        _watch_signals()
        self._session = _core.Session(self._graph, target, b"" if config is None else config.SerializeToString())

    graph = property(lambda self: self._graph, doc="The graph that the session runs.")
    sess_str = property(lambda self: self._target, doc="The target of the session; \"\" is this process.")

    @property
    def graph_def(self):
        """The GraphDef message of the graph."""
        return self._graph.as_graph_def()

    def close(self):
        """Closes the session; runs in other threads end with an error."""
        self._closed = True
        if self._session is not None:
            self._session.close()

    def list_devices(self):
        """Returns the devices that the session can use."""
        return [_DeviceAttributes(*d) for d in self._session.devices()]

    def as_default(self):
        """Returns a context manager that makes this the default session of the thread."""
        return ops.default_session(self)

    # ---- runs ----

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """The values of fetches, in the same nested form; operations in it are run and give None."""
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        graph = self._graph
        feeds, values = self._feeds(feed_dict) if feed_dict else ([], [])
        # Handles of what was moved are kept until the run is over.
        moved = self._move_handles(feeds, values) if graph._handle_feeders else None  # noqa: F841
        if type(fetches) is ops.Tensor and fetches.graph is graph:  # the usual case, without ceremony
            if options is None and run_metadata is None and fetches.op not in graph._unfetchable:
                if fetches not in feeds and fetches.op.type not in _HANDLE_OPS:
                    return self._call(self._session.run, feeds, values, [fetches], [])[0]
        if not graph._number():
            raise RuntimeError("The Session graph is empty.  Add operations to the graph before calling run().")
        f = _Fetches(graph, fetches, self)
        f.give_back(feeds, values)
        if not f.tensors and not f.targets:  # nothing is asked for that is not known
            return f.results([])
        if options is None and run_metadata is None:
            return f.results(self._call(self._session.run, feeds, values, f.tensors, f.targets))
        coded = None if options is None else options.SerializeToString()
        if run_metadata is None:
            return f.results(self._call(self._session.run, feeds, values, f.tensors, f.targets, coded))
        results, metadata = self._call(self._session.run, feeds, values, f.tensors, f.targets, coded, True)
        run_metadata.ParseFromString(metadata or b"")
        return f.results(results)

    def _move_handles(self, feeds, values):
        """Copies tensors whose handles are fed to operations on other devices; returns the handles of the copies."""
        from ..ops import session_handles
        moves = []
        for i, t in enumerate(feeds):
            if t in self._graph._handle_feeders:
                found = session_handles.mover(self._graph, t, values[i])
                if found is not None:
                    moves.append((i, *found))
        if not moves:
            return None
        handles = self.run([h for _, _, h in moves], {source: values[i] for i, source, _ in moves})
        for (i, _, _), h in zip(moves, handles):
            values[i] = h.handle
        return handles

    def _register_dead_handle(self, handle):
        """Called when a TensorHandle goes, from any thread; its tensor is deleted together with some others."""
        with self._dead_handles_lock:
            self._dead_handles.append(handle)
            if len(self._dead_handles) < _MOST_DEAD_HANDLES or self._closed or self._graph.finalized:
                return
            dead, self._dead_handles = self._dead_handles, []
        from ..ops import session_handles
        pairs = [session_handles.deleter(self._graph, i, h) for i, h in enumerate(dead)]
        self.run([deletion for _, deletion in pairs], {holder: h for (holder, _), h in zip(pairs, dead)})

    def _feeds(self, feed_dict):
        return feeds_of(self._graph, feed_dict)

    def _call(self, f, *args):
        try:
            return f(*args)
        except errors.OpError as e:
            raise errors.with_operation(e, self._graph) from None

    def partial_run_setup(self, fetches, feeds=None):
        """A handle for partial_run: what will be fetched and fed in the parts of one run."""
        f = _Fetches(self._graph, fetches)
        tensors = []
        for feed in feeds or []:
            parts = _conversion_of(feed, "fed")
            tensors += [self._graph.as_graph_element(t, allow_operation=False) for t in (parts(feed) if parts else [feed])]
        return self._call(self._session.prepare_partial, tensors, f.tensors, f.targets)

    def partial_run(self, handle, fetches, feed_dict=None):
        """Continues a step that partial_run_setup began, and returns the values of fetches.

        Args:
            handle: the result of partial_run_setup
            fetches: what to return; must be among the fetches of the setup
            feed_dict: {tensor: value}; must be among the feeds of the setup
        """
        f = _Fetches(self._graph, fetches, self)
        feeds, values = self._feeds(feed_dict or {})
        return f.results(self._call(self._session.run_partial, handle, feeds, values, f.tensors, f.targets))

    def make_callable(self, fetches, feed_list=None, accept_options=False):
        """A function of the values of feed_list that runs fetches."""
        f = _Fetches(self._graph, fetches, self)
        feeds = [self._graph.as_graph_element(t, allow_operation=False) for t in feed_list or []]
        session, tensors, targets, single = self._session, f.tensors, f.targets, f.results
        given_back = any(t in f._at for t in feeds)  # both fed and fetched

        def call(*values, options=None, run_metadata=None):
            if self._closed:
                raise RuntimeError("Attempted to use a closed Session.")
            if len(values) != len(feeds):
                raise TypeError("The callable takes %d values, %d were given" % (len(feeds), len(values)))
            if given_back:
                return self.run(fetches, dict(zip(feeds, values)), options, run_metadata)
            if options is None and run_metadata is None:
                return single(self._call(session.run, feeds, list(values), tensors, targets))
            coded = None if options is None else options.SerializeToString()
            results, metadata = self._call(session.run, feeds, list(values), tensors, targets, coded, True)
            if run_metadata is not None:
                run_metadata.ParseFromString(metadata or b"")
            return single(results)

        if given_back or max(len(feeds), len(tensors)) > _MOST_PREPARED:
            return call

        def failed(error):
            if isinstance(error, errors.OpError):
                raise errors.with_operation(error, self._graph) from None

        is_tensor = isinstance(fetches, ops.Tensor) and fetches.op.type not in _HANDLE_OPS
        build = None if f._build is _nothing else () if is_tensor else single
        return _core.Callable(session, tuple(feeds), tuple(tensors), tuple(targets), call, build, failed)


class Session(BaseSession):
    """`with tf.Session() as sess: sess.run(fetches, feed_dict)`"""

    def __enter__(self):
        self._contexts = getattr(self, "_contexts", [])
        if self._contexts:
            raise RuntimeError("Session context managers are not re-entrant. Use `Session.as_default()` if you want to enter a "
                               "session multiple times.")
        graph, session = self._graph.as_default(), self.as_default()
        graph.__enter__()
        session.__enter__()
        self._contexts.append((graph, session))
        return self

    def __exit__(self, exc_type, exc, trace):
        graph, session = self._contexts.pop()
        session.__exit__(exc_type, exc, trace)
        graph.__exit__(exc_type, exc, trace)
        self.close()

    @staticmethod
    def reset(target, containers=None, config=None):
        """Clears containers of the devices at a target and ends its sessions."""
        _core.reset(target or "", b"" if config is None else config.SerializeToString(), list(containers or []))


class InteractiveSession(BaseSession):
    """A session that is the default one until it is closed, for a shell."""

    _open = 0

    def __init__(self, target="", graph=None, config=None):
        super().__init__(target, graph, config)
        if InteractiveSession._open:
            warnings.warn("An interactive session is already active. This can cause out-of-memory errors in some cases. You "
                          "must explicitly call `InteractiveSession.close()` to release resources held by the other "
                          "session(s).")
        InteractiveSession._open += 1
        self._default_session = self.as_default()
        self._default_session.__enter__()
        self._default_graph = graph.as_default() if graph is not None else None
        if self._default_graph is not None:
            self._default_graph.__enter__()

    def close(self):
        InteractiveSession._open -= not self._closed
        super().close()
        if self._default_graph is not None:
            self._default_graph.__exit__(None, None, None)
            self._default_graph = None
        if self._default_session is not None:
            self._default_session.__exit__(None, None, None)
            self._default_session = None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class _DeviceAttributes:
    """A device of a session."""

    def __init__(self, name, device_type, memory_limit_bytes, incarnation):
        self.name, self.device_type = name, device_type
        self.memory_limit_bytes, self.incarnation = memory_limit_bytes, incarnation

    memory_limit = property(lambda self: self.memory_limit_bytes)

    def __repr__(self):
        return "_DeviceAttributes(%s, %s, %d, %d)" % (self.name, self.device_type, self.memory_limit_bytes, self.incarnation)
