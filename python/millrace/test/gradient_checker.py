"""Gradients held against differences."""
import numpy as np

from ..framework import convert, ops


def compute_gradient(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3, init_targets=None, extra_feed_dict=None):
    """(by the gradient, by differences): matrices dy/dx, elements of x by elements of y.  For lists of x, a list of such
    pairs.
    """
    if extra_feed_dict is None:
        extra_feed_dict = {}
    _run_targets(init_targets)
    if not isinstance(x, list):
        return _gradient_pair(x, x_shape, y, y_shape, x_init_value, delta, extra_feed_dict)
    values = x_init_value or [None] * len(x)
    feeds = {xi: vi for xi, vi in zip(x, values) if vi is not None}
    return [_gradient_pair(xi, si, y, y_shape, vi, delta, {**feeds, **extra_feed_dict}) for xi, si,
            vi in zip(x, x_shape, values)]


def _run_targets(targets):
    if targets is not None:
        for t in targets if isinstance(targets, (list, tuple)) else [targets]:
            t.run()


def _gradient_pair(x, x_shape, y, y_shape, x_value, delta, feeds):
    x_dtype = x.dtype.base_dtype
    if x_value is None:
        x_value = np.asfarray(np.random.random_sample([int(d) for d in x_shape]), dtype=x_dtype.real_dtype.as_numpy_dtype)
    x_value = np.array(x_value, dtype=x_dtype.as_numpy_dtype)
    return (_by_gradient(x, x_value, y, [int(d) for d in y_shape], feeds), _by_differences(x, x_value, y, delta, feeds))


def _parts(a):
    """A vector of real numbers: of a complex one both parts, one behind the other."""
    a = np.ascontiguousarray(a)
    return a.ravel().view(a.real.dtype) if a.dtype.kind == "c" else a.ravel()


def _by_gradient(x, x_value, y, y_shape, feeds):
    from ..ops.gradients import gradients
    from ..ops.array import identity
    dy = convert.constant(np.zeros(y_shape), y.dtype.base_dtype, name="dy")
    dx = gradients(y, x, identity(dy))[0]  # of an addition it is this tensor, and what is fed cannot be fetched
    run = ops.get_default_session().run
    probe = np.zeros(y_shape, y.dtype.base_dtype.as_numpy_dtype)
    flat = _parts(probe) if probe.size else probe.ravel()
    jacobian = np.zeros([_parts(x_value).size, flat.size], flat.dtype)
    for i in range(flat.size):
        one = np.zeros(flat.size, flat.dtype)
        one[i] = 1
        seed = one.view(probe.dtype).reshape(y_shape)
        if dx is None:
            continue
        got = run(dx, {**feeds, x: x_value, dy: seed})
        if hasattr(got, "indices"):
            dense = np.zeros(x_value.shape, got.values.dtype)
            np.add.at(dense, got.indices, got.values)
            got = dense
        jacobian[:, i] = _parts(got)
    return jacobian


def _by_differences(x, x_value, y, delta, feeds):
    run = ops.get_default_session().run
    flat = _parts(x_value).astype(np.float64)
    rows = []
    for i in range(flat.size):
        sides = []
        for sign in (1, -1):
            moved = flat.copy()
            moved[i] += sign * delta
            value = moved.astype(x_value.real.dtype).view(x_value.dtype).reshape(x_value.shape)
            sides.append(_parts(run(y, {**feeds, x: value})).astype(np.float64))
        rows.append((sides[0] - sides[1]) / (2 * delta))
    return np.array(rows) if rows else np.zeros([0, 0])


def compute_gradient_error(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3, init_targets=None, extra_feed_dict=None):
    """Returns the largest difference of the computed gradient from the numeric one."""
    pairs = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    errors_ = [np.fabs(a - b) for a, b in ([pairs] if isinstance(pairs, tuple) else pairs)]
    return max((e.max() for e in errors_ if e.size), default=0)
