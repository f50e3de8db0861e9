"""bench/gloo_push_pull.py -- what bench/push_pull.c does, with PyTorch's gloo between two processes.

The worker sends some MiB (30, or those of the arguments), the other adds them to its own and sends the sum back.  Prints
`push_pull_30MiB_gloo_ms VALUE ms` for each size.
"""
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS, ROUNDS = 6, 5


def steps_of(mib):
    return STEPS * 8 if mib < 8 else STEPS


def serve(mib):
    total, part = torch.zeros(mib << 18), torch.zeros(mib << 18)
    for _ in range((ROUNDS + 1) * steps_of(mib)):
        dist.recv(part, 0)
        total.add_(part)
        dist.send(total, 0)


def work(mib):
    times, here, back = [], torch.ones(mib << 18), torch.zeros(mib << 18)
    count, steps = 0, steps_of(mib)
    for block in range(-1, ROUNDS):
        start = time.perf_counter()
        for _ in range(steps):
            dist.send(here, 1)
            dist.recv(back, 1)
            count += 1
            assert float(back[-1]) == count
        if block >= 0:
            times.append(1e3 * (time.perf_counter() - start) / steps)
    print(f"push_pull_{mib}MiB_gloo_ms {sorted(times)[ROUNDS // 2]:.3f} ms", flush=True)


def run(rank, port, sizes):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for mib in sizes:
        (serve if rank else work)(mib)
    dist.barrier()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(run, args=(port, [int(a) for a in sys.argv[1:]] or [30]), nprocs=2)
