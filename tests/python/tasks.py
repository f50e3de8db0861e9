"""Clusters of processes that can be killed."""

import os
import random
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


def lasting_hosts(n):
    """Hosts with ports that nobody gets who asks for any: so they are still free when a task comes back that was killed, or comes up
    late.  A task that cannot have its port ends, and is waited for."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        handed_out = int(f.read().split()[0])
    choice, taken = random.SystemRandom(), []
    while len(taken) < n:
        s = socket.socket()
        try:
            s.bind(("localhost", choice.randrange(handed_out // 3, handed_out)))
            taken.append(s)
        except OSError:
            s.close()
    hosts = ["localhost:%d" % s.getsockname()[1] for s in taken]
    for s in taken:
        s.close()
    return hosts


class Tasks:
    """Tasks of some jobs, Tasks(worker=1, ps=2): the first task of the first job is this process, the others are processes of their own."""

    def __init__(self, **jobs):
        hosts = iter(lasting_hosts(sum(jobs.values())))
        self.spec = {job: [next(hosts) for _ in range(n)] for job, n in jobs.items()}
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
