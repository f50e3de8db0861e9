"""main.py itself: what it tells of a file whose process does not come to its end."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

CRASH = """
import os, subprocess, unittest


class Crash(unittest.TestCase):
    def test_crash(self):
        subprocess.Popen(["sleep", "100"])  # has the output too, as a server of a cluster would
        os.abort()
"""


class MainTest(unittest.TestCase):
    def test_a_crash_is_told_at_once(self):
        folder = tempfile.mkdtemp(prefix="main")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py"), folder)
        with open(os.path.join(folder, "test_crash.py"), "w", encoding="utf-8") as f:
            f.write(CRASH)
        begin = time.monotonic()
        p = subprocess.run([sys.executable, "-B", os.path.join(folder, "main.py"), os.environ["MILLRACE_BUILD"], "test_crash"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("ended with code -6 in the middle", p.stdout)
        self.assertRegex(p.stdout, r"line \d+ in test_crash")
        self.assertIn("0 passed, 1 failed", p.stdout)


if __name__ == "__main__":
    unittest.main()
