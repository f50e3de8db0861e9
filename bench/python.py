"""What the Python front end costs: lines of `name value unit`.

    PYTHONPATH=build/gcc/share/millrace/python python3 bench/python.py

Processor time of this process, the best of several rounds, so that a busy machine matters little; importing is timed by the clock in
processes of its own.
"""
import subprocess
import sys
import time


def best(f, n, rounds=7):
    """Microseconds a call."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(n):
            f()
        times.append((time.process_time() - start) / n * 1e6)
    return min(times)


def importing(what, rounds=7):
    """Seconds that `import what` takes, the start of the interpreter not counted."""
    program = "import time; t = time.perf_counter(); import %s; print(time.perf_counter() - t)" % what
    return min(float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout) for _ in range(rounds))


def main():
    print("python_import_s %.3f s" % importing("millrace"))
    print("python_import_numpy_s %.3f s" % importing("numpy"))
    import millrace as tf

    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    w = tf.Variable(tf.zeros([10, 10]))
    s = tf.Session()
    s.run(w.initializer)
    s.run(y, {x: 1.0})
    run = s.make_callable(y, [x])
    print("python_run_feed_us %.2f us" % best(lambda: s.run(y, {x: 1.0}), 5000))
    print("python_run_three_fetches_us %.2f us" % best(lambda: s.run([y, {"a": y}, w.op], {x: 1.0}), 5000))
    print("python_callable_us %.2f us" % best(lambda: run(1.0), 5000))
    f = s.make_callable(tf.py_func(lambda: 1.0, [], tf.float64))
    print("python_py_func_us %.2f us" % best(f, 5000))
    g = s.make_callable([tf.py_func(lambda: 1.0, [], tf.float64), tf.py_func(lambda: 2.0, [], tf.float64)])
    print("python_two_py_funcs_us %.2f us" % best(g, 2000))
    print("python_add_op_us %.1f us" % best(lambda: tf.add(x, y), 500))
    print("python_variable_us %.1f us" % best(lambda: tf.Variable(tf.zeros([10, 10])), 50))


if __name__ == "__main__":
    main()
