"""tests/oracle/updates.py -- the optimizers that state.py leaves out, and those of both in complex types."""
import numpy as np

import state
from state import loose, number, sparse_case, sparse_of, state_op, untyped, values
from table import fails
from values import COMPLEXES, FLOATS, narrow, wide


def apply_op(name, n_variables, gen, f, types=FLOATS):
    state_op(name, n_variables, gen, f, types=types, sums=16, own_eps=True, scale=untyped(loose(f)), zero_sign=False, n=8)


def both(name, n_variables, gen, f, at_of_gradient, types=FLOATS):
    """Dense and sparse."""
    apply_op("Apply" + name, n_variables, gen, f, types)
    apply_op("SparseApply" + name, n_variables, sparse_case(gen, n_variables, at_of_gradient),
             sparse_of(f, n_variables, at_of_gradient), types)


# ---- shrinking towards zero ----

def shrink(v, l1, l2, eta):
    if l1 > 0:
        v = np.sign(v) * np.maximum(np.abs(v) - eta * l1, 0)
    return v / (1 + eta * l2)


def penalty(r):
    return narrow(np.asarray(0.0 if r.chance(0.3) else r.rng.uniform(.1, .5)), r.T)


def proximal_descent_case(r):
    (v,), g = values(r, 0)
    return [v, number(r, .1, 1), penalty(r), penalty(r), g]


def proximal_descent(v, lr, l1, l2, g):
    return shrink(v - lr * g, l1, l2, lr)


def proximal_adagrad_case(r):
    (v, a), g = values(r, 1, [1])
    return [v, a, number(r, .1, 1), penalty(r), penalty(r), g]


def proximal_adagrad(v, a, lr, l1, l2, g):
    a = a + g * g
    eta = lr / np.sqrt(a)
    return shrink(v - eta * g, l1, l2, eta), a


both("ProximalGradientDescent", 1, proximal_descent_case, proximal_descent, 4)
both("ProximalAdagrad", 2, proximal_adagrad_case, proximal_adagrad, 5)


def dual_averaging_case(r):
    (v, a, s), g = values(r, 2, [2])
    return [v, a, s, g, number(r, .1, 1), penalty(r), penalty(r), np.asarray(r.int(1, 5), np.int64)]


def dual_averaging(v, a, s, g, lr, l1, l2, step):
    a, s = a + g, s + g * g
    top = np.sign(a) * np.maximum(np.abs(a) - l1 * step, 0) if l1 > 0 else a
    return -lr * top / (l2 * step * lr + np.sqrt(s)), a, s


both("AdagradDA", 3, dual_averaging_case, dual_averaging, 3)


# ---- Ftrl in all its ways ----

def ftrl_case(shrinkage):
    def case(r):
        (v, a, l), g = values(r, 2, [1])
        power = narrow(np.asarray(r.pick([-0.5, -0.25, -1.0, 0.0])), r.T)
        more = [penalty(r)] if shrinkage else []
        return [v, a, l, g, number(r, .3, 1), penalty(r), penalty(r)] + more + [power], {"multiply_linear_by_lr": r.chance(0.4)}
    return case


def ftrl_v2(v, a, l, g, lr, l1, l2, shrinkage, power, multiply_linear_by_lr):
    new = a + g * g
    drift = (new ** -power - a ** -power) * v
    pull = g + 2 * shrinkage * v
    if multiply_linear_by_lr:
        l, l1, quad = l + pull * lr - drift, l1 * lr, new ** -power + 2 * l2 * lr
    else:
        l, quad = l + pull - drift / lr, new ** -power / lr + 2 * l2
    return np.where(np.abs(l) > l1, (np.sign(l) * l1 - l) / quad, 0), new, l


def ftrl(v, a, l, g, lr, l1, l2, power, multiply_linear_by_lr):
    return ftrl_v2(v, a, l, g, lr, l1, l2, 0, power, multiply_linear_by_lr)


both("Ftrl", 3, ftrl_case(False), ftrl, 3)
both("FtrlV2", 3, ftrl_case(True), ftrl_v2, 3)


# ---- the rest ----

def adagrad_v2_case(r):
    (v, a), g = values(r, 1, [1])
    return [v, a, number(r, 0, 1), number(r, .01, .1), g], {"update_slots": r.chance(0.8)}


def adagrad_v2(v, a, lr, eps, g, update_slots):
    a = a + g * g if update_slots else a
    return v - g * lr / (np.sqrt(a) + eps), a


def keras_momentum(v, a, lr, g, m, use_nesterov):
    a = a * m - g * lr
    return v + (a * m - g * lr if use_nesterov else a), a


def centered_case(r):
    (v, mg, ms, mom), g = values(r, 3)
    ms = narrow(wide(mg) ** 2 + np.abs(wide(ms)) + 0.2, r.T)  # a variance is positive
    return [v, mg, ms, mom, number(r, 0, 1), number(r, .1, .9), number(r, 0, 1), number(r, .05, .2), g]


def centered(v, mg, ms, mom, lr, rho, momentum, eps, g):
    ms = ms + (g * g - ms) * (1 - rho)
    mg = mg + (g - mg) * (1 - rho)
    mom = mom * momentum + g * lr / np.sqrt(ms - mg * mg + eps)
    return v - mom, mg, ms, mom


def sparse_centered_case(r):
    """sparse_case would draw the slots anew, and a variance must fit its mean."""
    made = sparse_case(centered_case, 4, 8)(r)[0]
    made[2] = narrow(wide(made[1]) ** 2 + np.abs(wide(made[2])) + 0.2, r.T)
    return made


def amsgrad_case(r):
    (v, m, s, top), g = values(r, 3, [2, 3])
    return [v, m, s, top] + [number(r, .1, .9) for _ in range(5)] + [number(r, .01, .1), g]


def amsgrad(v, m, s, top, p1, p2, lr, b1, b2, eps, g):
    m = m + (g - m) * (1 - b1)
    s = s + (g * g - s) * (1 - b2)
    top = np.maximum(top, s)
    return v - m * lr * np.sqrt(1 - p2) / (1 - p1) / (np.sqrt(top) + eps), m, s, top


def adamax_case(r):
    (v, m, s), g = values(r, 2, [2])
    return [v, m, s] + [number(r, .1, .9) for _ in range(4)] + [number(r, .01, .1), g]


def adamax(v, m, s, p1, lr, b1, b2, eps, g):
    m = m + (g - m) * (1 - b1)
    s = np.maximum(b2 * s, np.abs(g))
    return v - lr / (1 - p1) * (m / (s + eps)), m, s


def sign_case(r):
    """Away from where the sign of the mean hangs on rounding."""
    (v, m), g = values(r, 1)
    m = narrow(np.where(np.abs(wide(m)) < 0.1, 1.0, wide(m)), r.T)
    return [v, m, number(r, 0, 1), number(r, .5, 1), number(r, .1, 1), narrow(np.asarray(0.5), r.T),
            narrow(np.where(np.abs(wide(g) + wide(m)) < 0.2, -wide(m) / 2, wide(g)), r.T)]


def add_sign(v, m, lr, alpha, decay, beta, g):
    m = m * beta + g * (1 - beta)
    return v - lr * (alpha + decay * np.sign(g) * np.sign(m)) * g, m


def power_sign(v, m, lr, logbase, decay, beta, g):
    m = m * beta + g * (1 - beta)
    return v - lr * np.exp(logbase * decay * np.sign(g) * np.sign(m)) * g, m


both("AdagradV2", 2, adagrad_v2_case, adagrad_v2, 4)
both("KerasMomentum", 2, state.momentum_case, keras_momentum, 3)
apply_op("ApplyCenteredRMSProp", 4, centered_case, centered)
apply_op("SparseApplyCenteredRMSProp", 4, sparse_centered_case, sparse_of(centered, 4, 8))
apply_op("ApplyAdamWithAmsgrad", 4, amsgrad_case, amsgrad)
apply_op("ApplyAdaMax", 3, adamax_case, adamax)
apply_op("ApplyAddSign", 2, sign_case, add_sign)
apply_op("ApplyPowerSign", 2, sign_case, power_sign)


# ---- complex numbers, where a formula has a meaning for them ----

def away_from_cut(gen, slots):
    """Square roots jump across the negative numbers: slots lie far to the right of them."""
    def case(r):
        made = gen(r)
        inputs, attrs = made if isinstance(made, tuple) else (made, {})
        for i in slots:
            inputs[i] = narrow(wide(inputs[i]) + 100, r.T)
        return inputs, attrs
    return case


for name, n, gen, f, at, slots in (("Momentum", 2, state.momentum_case, state.momentum, 3, []),
                                   ("Adagrad", 2, state.adagrad_case, state.adagrad, 3, [1]),
                                   ("AdagradV2", 2, adagrad_v2_case, adagrad_v2, 4, [1]),
                                   ("RMSProp", 3, state.rmsprop_case, state.rmsprop, 7, [1]),
                                   ("Adadelta", 3, state.adadelta_case, state.adadelta, 6, [1, 2])):
    apply_op("Apply" + name, n, away_from_cut(gen, slots), f, COMPLEXES)
apply_op("ApplyGradientDescent", 1, state.descent, lambda v, lr, g: v - lr * g, COMPLEXES)
apply_op("ApplyAdam", 3, away_from_cut(state.adam_case, [2]), state.adam, COMPLEXES)


# ---- what is refused ----

def with_input(gen, i, value):
    def case(r):
        made = gen(r)
        inputs, attrs = made if isinstance(made, tuple) else (made, {})
        inputs[i] = narrow(np.asarray(value), r.T)
        return state.typed(lambda _: (inputs, dict(attrs, multiply_linear_by_lr=False)))(r)
    return case


for i, value, message in ((4, -1.0, "lr is not a positive scalar"), (5, -1.0, "l1 is not a non-negative scalar"),
                          (6, -1.0, "l2 is not a non-negative scalar"), (7, 0.5, "lr_power is not a non-positive scalar"),
                          (4, [1.0], ("lr is not a positive scalar: [1]", "Shape must be rank 0 but is rank 1"))):
    fails("ResourceApplyFtrl", with_input(ftrl_case(False), i, value), message,
          build=state.with_resources("ResourceApplyFtrl", 3), types=FLOATS)
