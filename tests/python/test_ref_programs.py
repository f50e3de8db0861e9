"""Random programs over ref variables, each with one read (an Identity) for all uses, as TensorFlow's front end makes it.

Each statement of a program runs after the one before it, so a use sees what the variable's memory holds at that moment,
however early the read itself runs.  Uses are direct or through nodes that hand on the memory, in branches and in loops.
"""

import random
import unittest

import numpy as np

import millrace as tf
from millrace.framework.op_defs import raw

UPDATES = {
    "Assign": (lambda v, x: raw.assign(v, x + 1.0), lambda m, x: x + 1),
    "AssignAdd": (raw.assign_add, lambda m, x: m + x),
    "AssignSub": (raw.assign_sub, lambda m, x: m - x),
    "ScatterAdd": (lambda v, x: raw.scatter_add(v, [1], tf.slice(x, [0], [1])), lambda m, x: m + [0, x[0]]),
    "ApplyGradientDescent": (lambda v, x: raw.apply_gradient_descent(v, tf.constant(0.25, tf.float64), x),
                             lambda m, x: m - 0.25 * x),
}


def make_program(r, n_variables, depth=0):
    """A list of statements: (name of an update, variable, variable that is added, view of it), ("use", variable, view),
    ("if", side, then, else), or ("loop", iterations, parallel iterations, body)."""
    out = []
    for _ in range(r.randint(1, 3 if depth else 6)):
        kind = r.random()
        if kind < 0.35:
            out.append((r.choice(sorted(UPDATES)), r.randrange(n_variables), r.randrange(n_variables), r.randrange(7)))
        elif kind < 0.75 or depth == 2:
            out.append(("use", r.randrange(n_variables), r.randrange(7)))
        elif kind < 0.88:
            sides = [make_program(r, n_variables, depth + 1) for _ in range(2)]
            out.append(("if", r.random() < 0.5, *sides))
        else:
            out.append(("loop", r.randint(0, 3), r.choice([1, 10]), make_program(r, n_variables, depth + 1)))
    return out


def interpret(program, memory, total):
    for s in program:
        if s[0] == "use":
            total = total * 0.5 + memory[s[1]].sum()
        elif s[0] == "if":
            total = interpret(s[2] if s[1] else s[3], memory, total)
        elif s[0] == "loop":
            for _ in range(s[1]):
                total = interpret(s[3], memory, total)
        else:
            memory[s[1]] = UPDATES[s[0]][1](memory[s[1]], memory[s[2]] * 0.5)
    return total


class Builder:
    """choose() gives the device of a variable or statement; updates and reads are where their variable is."""

    def __init__(self, starts, choose):
        self.choose, self.variables, self.views, init = choose, [], [], []
        for x in starts:
            with tf.device(choose()):
                v = raw.variable_v2(shape=[2], dtype=tf.float64, name="v")
                init.append(raw.assign(v, x))
                self.views.append(self.views_of(tf.identity(v)))
            self.variables.append(v)
        self.init = tf.group(*init)

    def views_of(self, read):
        return [read, tf.identity(tf.identity(read)), tf.reshape(read, [1, 2]), tf.expand_dims(read, 1),
                tf.stop_gradient(tf.reshape(tf.reshape(read, [2, 1]), [2])), tf.squeeze(tf.reshape(read, [2, 1]), [1]),
                tf.check_numerics(read, "view")]

    def build(self, program, total):
        """The total after the program; each statement waits for the total before it."""
        for s in program:
            before = total
            if s[0] == "use":
                with tf.control_dependencies([before]), tf.device(self.choose()):
                    used = tf.reduce_sum(self.views[s[1]][s[2]])
                total = before * 0.5 + used
            elif s[0] == "if":
                decided = tf.logical_and(before > -1e30, s[1])
                total = tf.cond(decided, lambda: self.build(s[2], tf.identity(before)),
                                lambda: self.build(s[3], tf.identity(before)))
            elif s[0] == "loop":
                total = tf.while_loop(lambda i, x: tf.logical_and(i < s[1], x > -1e30),
                                      lambda i, x: (i + 1, self.build(s[3], x)), [0, before], parallel_iterations=s[2])[1]
            else:
                v = self.variables[s[1]]
                with tf.control_dependencies([before]):
                    with tf.device(self.choose()):
                        x = tf.reshape(self.views[s[2]][s[3]] * 0.5, [2])
                    with tf.device(v.device):
                        update = UPDATES[s[0]][0](v, x)
                with tf.control_dependencies([update]):
                    total = before + 0.0
        return total


class Programs(unittest.TestCase):
    def check(self, seed, n_devices):
        r, places = random.Random(seed), random.Random(seed)
        config = tf.ConfigProto(device_count={"CPU": n_devices})
        memory = [np.array([r.randint(1, 5), r.randint(1, 5)], float) for _ in range(r.randint(1, 3))]
        program = make_program(r, len(memory))
        with tf.Graph().as_default(), tf.Session(config=config) as sess:
            b = Builder(memory, lambda: "/cpu:%d" % places.randrange(n_devices))
            total = b.build(program, tf.constant(0.0, tf.float64))
            sess.run(b.init)
            for _ in range(2):
                self.assertAlmostEqual(sess.run(total), interpret(program, memory, 0.0), msg=(seed, program))
                np.testing.assert_allclose(sess.run(b.variables), memory, err_msg=str((seed, program)))

    def test_uses_see_what_the_memory_holds(self):
        for seed in range(100):
            self.check(seed, 1)

    def test_on_two_devices_of_one_memory(self):
        for seed in range(60):
            self.check(seed, 2)


if __name__ == "__main__":
    unittest.main()
