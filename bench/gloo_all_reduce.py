"""bench/gloo_all_reduce.py -- what bench/all_reduce.c does, with PyTorch's gloo: `gloo_all_reduce.py PROCESSES MIB...`.

Prints `allreduce_MMiB_N_gloo_ms VALUE ms` for each size.
"""
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ROUNDS, WARM = 21, 3


def measure(rank, size, mib):
    x, took, times = torch.empty(mib << 18), torch.empty(1, dtype=torch.float64), []
    for block in range(-WARM, ROUNDS):
        x.fill_(rank + 1)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        took[0] = 1e3 * (time.perf_counter() - start)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        assert float(x[-1]) == size * (size + 1) / 2
        if block >= 0:
            times.append(float(took[0]))
    if rank == 0:
        print(f"allreduce_{mib}MiB_{size}_gloo_ms {sorted(times)[ROUNDS // 2]:.3f} ms", flush=True)


def run(rank, port, size, sizes):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    for mib in sizes:
        measure(rank, size, mib)
    dist.barrier()


if __name__ == "__main__":
    n, sizes = int(sys.argv[1]), [int(a) for a in sys.argv[2:]]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(run, args=(port, n, sizes), nprocs=n)
