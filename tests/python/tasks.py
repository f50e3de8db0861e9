"""Clusters of processes that can be killed."""

import os
import signal
import socket
import subprocess
import sys

import millrace as tf

SERVE = """
import json
import sys
import millrace as tf
tf.train.Server(tf.train.ClusterSpec(json.loads(sys.argv[1])), job_name=sys.argv[2], task_index=int(sys.argv[3])).join()
"""


class Tasks:
    """Tasks of some jobs, Tasks(worker=1, ps=2): the first task of the first job is this process, the others are processes of their own."""

    def __init__(self, **jobs):
        taken = [(job, socket.socket()) for job, n in jobs.items() for _ in range(n)]
        for _, s in taken:
            s.bind(("localhost", 0))
        self.spec = {job: ["localhost:%d" % s.getsockname()[1] for j, s in taken if j == job] for job in jobs}
        for _, s in taken:
            s.close()
        own = next(iter(jobs))
        self.server = tf.train.Server(tf.train.ClusterSpec(self.spec), job_name=own, task_index=0)
        self.target = self.server.target
        self.processes = {(job, i): self.start(job, i) for job, n in jobs.items() for i in range(n) if (job, i) != (own, 0)}

    def start(self, job, i):
        spec = str(self.spec).replace("'", '"')
        return subprocess.Popen([sys.executable, "-c", SERVE, spec, job, str(i)], env=dict(os.environ))

    def kill_and_restart(self, job, i):
        p = self.processes[job, i]
        p.send_signal(signal.SIGKILL)
        p.wait()
        self.processes[job, i] = self.start(job, i)

    def close(self):
        for p in self.processes.values():
            p.kill()
            p.wait()
