"""Groups of processes from Python: results, wrong arguments, members that die."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import millrace as tf

MEMBER = """
import os, sys
import numpy as np
import millrace as tf
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
g = tf.collective.join(name="t", size=size, rank=rank, transport="shm", folder=folder, join_ms=60000, timeout_ms=60000)
"""

RESULTS = MEMBER + """
assert (g.rank, g.size, g.generation) == (rank, size, 1)
x = np.arange(6, dtype=np.float32).reshape(3, 2) + rank
np.testing.assert_array_equal(g.all_reduce(x), sum(x - rank + r for r in range(size)))
np.testing.assert_allclose(g.all_reduce(x, "mean", in_order=True), x - rank + (size - 1) / 2)
assert g.all_reduce(np.int64(rank), "max") == size - 1
np.testing.assert_array_equal(g.all_reduce(np.full(5, 2, np.float16), "product"), np.full(5, 2.0 ** size))
np.testing.assert_array_equal(g.all_gather([[rank]]), [[r] for r in range(size)])
np.testing.assert_array_equal(g.broadcast(x, 1), x - rank + 1)
np.testing.assert_array_equal(g.reduce_scatter(np.arange(size) * 10), [rank * 10 * size])
np.testing.assert_array_equal(g.all_to_all(np.arange(size) + 100 * rank), [rank + 100 * r for r in range(size)])
for call in (lambda: g.all_reduce(["a"]), lambda: g.all_reduce(x, "median"), lambda: g.reduce_scatter(np.zeros(size + 1)),
             lambda: g.all_gather(1)):
    try:
        call()
    except (TypeError, ValueError):
        pass
    else:
        sys.exit("no error")
g.barrier()
g.close()
try:
    g.barrier()
except RuntimeError:
    print("right")
"""

DEATH = MEMBER + """
g.barrier()
if rank == 1:
    os.kill(os.getpid(), 9)
try:
    while True:
        g.all_reduce(np.ones(1000))
except tf.errors.AbortedError:
    g.reform()
assert (g.size, g.generation) == (size - 1, 2)
assert g.all_reduce(np.ones(1))[0] == size - 1
g.barrier()
print("right")
"""


class Groups(unittest.TestCase):
    def run_members(self, text, size):
        with tempfile.TemporaryDirectory() as folder:
            members = [subprocess.Popen([sys.executable, "-c", text, str(r), str(size), folder], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True) for r in range(size)]
            return [(m.communicate(timeout=120)[0], m.returncode) for m in members]

    def test_results(self):
        self.assertEqual(self.run_members(RESULTS, 3), [("right\n", 0)] * 3)

    def test_a_member_that_dies(self):
        results = self.run_members(DEATH, 3)
        self.assertEqual(results[1][1], -9)
        self.assertEqual(results[:1] + results[2:], [("right\n", 0)] * 2)

    def test_a_group_of_one(self):
        with tf.collective.join(size=1) as g:
            np.testing.assert_array_equal(g.all_reduce([1.5, 2]), [1.5, 2])

    def test_ranks_that_cannot_be(self):
        for size, rank in ((2, 2), (-1, 0)):
            with self.assertRaises((ValueError, tf.errors.InvalidArgumentError)):
                tf.collective.join(size=size, rank=rank, join_ms=1000)


if __name__ == "__main__":
    unittest.main()
