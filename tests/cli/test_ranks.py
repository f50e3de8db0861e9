"""tests/cli/test_ranks.py -- `millrace launch` as a rank of mpirun or Slurm, told by a made-up environment."""
from harness import check, has


def ompi(rank, size, local=None, local_size=None):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank if local is None else local),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size or size)}


def slurm(rank, size):
    return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(size), "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "node7",
            "SLURM_TASKS_PER_NODE": str(size), "SLURM_LOCALID": str(rank)}


def all_ranks(t, size, env, *args):
    ranks = [t.start("launch", *args, env=env(i)) for i in range(size)]
    return [t.finish(r) for r in ranks]


def test_ranks_of_mpirun_are_tasks_that_end_together(t):
    p = t.program('echo "I am $MILLRACE_TASK $TF_CONFIG"; sleep 0.7\n')
    port = t.ports(8)
    done = all_ranks(t, 4, lambda i: ompi(i, 4), "--ps", "1", "--port", str(port), "--", p)
    check([r.code for r in done] == [0] * 4, str([(r.code, r.err) for r in done]))
    has(done[0].err, "[ps/0] serving /job:ps/task:0 at grpc://127.0.0.1:%d" % port)
    for i in (1, 2, 3):
        has(done[i].out, "[worker/%d] I am worker/%d " % (i - 1, i - 1))
        has(done[i].out, '"worker": ["127.0.0.1:%d", "127.0.0.1:%d", "127.0.0.1:%d"]' % (port + 1, port + 2, port + 3))


def test_ranks_of_slurm_all_give_the_exit_code_of_the_one_that_failed(t):
    p = t.program('[ "$MILLRACE_TASK" = worker/1 ] && { sleep 1; exit 9; }\nwhile :; do sleep 1; done\n')
    done = all_ranks(t, 3, lambda i: slurm(i, 3), "--port", str(t.ports(6)), "--restarts", "0", "--", p)
    check([r.code for r in done] == [9] * 3, str([(r.code, r.err) for r in done]))


def test_ranks_on_many_hosts_use_shared_keys(t):
    keys = t.dir + "/keys"
    r = t.run("keys", "--ps", "1", "--workers", "2", keys)
    check(r.code == 0, r.err)
    p = t.program('echo "$TF_CONFIG"; sleep 1\n')
    port = t.ports(6)
    hosts = "127.0.0.2:2,127.0.0.3"

    def env(i):
        return dict(ompi(i, 3, (0, 1, 0)[i], (2, 2, 1)[i]), MILLRACE_TLS_DIR=keys)

    done = all_ranks(t, 3, env, "--ps", "1", "--workers", "2", "--hosts", hosts, "--port", str(port), "--", p)
    check([r.code for r in done] == [0] * 3, str([(r.code, r.err) for r in done]))
    has(done[1].out, '"worker": ["127.0.0.2:%d", "127.0.0.3:%d"]' % (port + 1, port + 2))


def test_ranks_on_public_addresses_without_keys_are_refused(t):
    env = dict(ompi(0, 2, 0, 1))
    r = t.run("launch", "--hosts", "10.1.2.3,10.1.2.4", "--", "true", env=env)
    check(r.code == 1 and r.err.count("\n") == 1, r.err)
    has(r.err, "10.1.2.3:2222 can be reached from outside")
    has(r.err, "`millrace keys`")
    has(r.err, "MILLRACE_TLS=off")


def test_ranks_must_be_as_many_as_tasks(t):
    r = t.run("launch", "--ps", "2", "--workers", "4", "--", "true", env=ompi(0, 5))
    check(r.code == 1, str(r.code))
    has(r.err, "--ps 2 and --workers 4 do not add up to the 5 ranks that Open MPI started")


def test_ranks_are_ignored_with_local(t):
    r = t.run("launch", "--local", "--ps", "0", "--", t.program('echo "I am $MILLRACE_TASK"\n'), env=ompi(3, 5))
    check(r.code == 0, r.err)
    has(r.out, "[worker/0] I am worker/0")
