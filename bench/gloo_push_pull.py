"""bench/gloo_push_pull.py -- what bench/push_pull.c does, with PyTorch's gloo between two processes.

The worker sends 30 MiB, the other adds them to its own and sends the sum back.  Prints `push_pull_30MiB_gloo_ms
VALUE ms`.
"""
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

MIB, STEPS, ROUNDS = 30, 6, 5


def serve():
    total, part = torch.zeros(MIB << 18), torch.zeros(MIB << 18)
    for _ in range((ROUNDS + 1) * STEPS):
        dist.recv(part, 0)
        total.add_(part)
        dist.send(total, 0)


def work():
    times, here, back = [], torch.ones(MIB << 18), torch.zeros(MIB << 18)
    count = 0
    for block in range(-1, ROUNDS):
        start = time.perf_counter()
        for _ in range(STEPS):
            dist.send(here, 1)
            dist.recv(back, 1)
            count += 1
            assert float(back[-1]) == count
        if block >= 0:
            times.append(1e3 * (time.perf_counter() - start) / STEPS)
    print(f"push_pull_{MIB}MiB_gloo_ms {sorted(times)[ROUNDS // 2]:.2f} ms", flush=True)


def run(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    (serve if rank else work)()
    dist.barrier()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(run, args=(port,), nprocs=2)
