"""Clusters: which tasks there are (ClusterSpec), and this process as one of them (Server)."""

import _millrace as _core
from .. import protos

__all__ = ["ClusterSpec", "Server"]


class ClusterSpec:
    """Jobs and the addresses of their tasks: {"ps": ["h0:2222"], "worker": {1: "h2:2222"}}, a ClusterDef or another one."""

    def __init__(self, cluster):
        if isinstance(cluster, dict):
            self._jobs = {_text(job): _tasks(job, tasks) for job, tasks in cluster.items()}
        elif isinstance(cluster, protos.ClusterDef):
            self._jobs = {job.name: {int(i): address for i, address in job.tasks.items()} for job in cluster.job}
        elif isinstance(cluster, ClusterSpec):
            self._jobs = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
        else:
            raise TypeError("`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a "
                            "`ClusterDef` protocol buffer")

    def __bool__(self):
        return bool(self._jobs)

    def __eq__(self, other):
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __str__(self):
        jobs = sorted(self.as_dict().items())
        return "ClusterSpec({%s})" % ", ".join("%r: %r" % job for job in jobs)

    __repr__ = __str__

    def as_dict(self):
        """{job: addresses}; a dict by number where numbers are missing."""
        return {job: [tasks[i] for i in range(len(tasks))] if sorted(tasks) == list(range(len(tasks))) else dict(tasks)
                for job, tasks in self._jobs.items()}

    def as_cluster_def(self):
        """Returns the cluster as a ClusterDef."""
        d = protos.ClusterDef()
        for job, tasks in sorted(self._jobs.items()):
            j = d.job.add()
            j.name = job
            for i, address in sorted(tasks.items()):
                j.tasks[i] = address
        return d

    @property
    def jobs(self):
        """The names of the jobs."""
        return list(self._jobs)

    def _job(self, name):
        if name not in self._jobs:
            raise ValueError("No such job in cluster: %r" % name)
        return self._jobs[name]

    def num_tasks(self, job_name):
        """Returns the number of tasks of a job."""
        return len(self._job(job_name))

    def task_indices(self, job_name):
        """Returns the numbers of the tasks of a job."""
        return sorted(self._job(job_name))

    def task_address(self, job_name, task_index):
        """Returns the address of a task."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError("No task with index %r in job %r" % (task_index, job_name))
        return tasks[task_index]

    def job_tasks(self, job_name):
        """Addresses by number, None where there is no task."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks) + 1)] if tasks else []


def _text(x):
    if isinstance(x, bytes):
        return x.decode()
    if not isinstance(x, str):
        raise TypeError("Names of jobs and addresses of tasks must be strings: %r" % (x,))
    return x


def _tasks(job, tasks):
    if isinstance(tasks, (list, tuple)):
        return {i: _text(address) for i, address in enumerate(tasks)}
    if not isinstance(tasks, dict):
        raise TypeError("The tasks for job %r must be a list or a dictionary from integers to strings." % job)
    for i in tasks:
        if not isinstance(i, int):
            raise TypeError("The task index %r must be an integer." % (i,))
    return {i: _text(address) for i, address in tasks.items()}


class Server:
    """Makes this process a task of a cluster; sessions on its target reach the whole cluster."""

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None, config=None, start=True):
        self._server_def = _server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        self._server = _core.Server(self._server_def.SerializeToString())
        if start:
            self.start()

    def start(self):
        """Starts the server."""
        self._server.start()

    def join(self):
        """Waits until the server is stopped, which parameter servers never are by themselves."""
        self._server.join()

    @property
    def server_def(self):
        """The ServerDef."""
        return self._server_def

    @property
    def target(self):
        """The target for sessions that use this server."""
        return self._server.target

    @staticmethod
    def create_local_server(config=None, start=True):
        """A cluster of this process alone, on any free port."""
        return Server({"local": ["localhost:0"]}, protocol="grpc", config=config, start=start)


def _server_def(given, job_name, task_index, protocol, config):
    d = protos.ServerDef()
    if isinstance(given, protos.ServerDef):
        d.CopyFrom(given)
        if job_name is not None:
            d.job_name = job_name
        if task_index is not None:
            d.task_index = task_index
    else:
        cluster = ClusterSpec(given)
        if job_name is None:
            if len(cluster.jobs) != 1:
                raise ValueError("Must specify an explicit `job_name`.")
            job_name = cluster.jobs[0]
        if task_index is None:
            indices = cluster.task_indices(job_name)
            if len(indices) != 1:
                raise ValueError("Must specify an explicit `task_index`.")
            task_index = indices[0]
        d.cluster.CopyFrom(cluster.as_cluster_def())
        d.job_name, d.task_index, d.protocol = job_name, int(task_index), "grpc"
    if protocol is not None:
        d.protocol = protocol
    if config is not None:
        d.default_session_config.MergeFrom(config)
    return d
