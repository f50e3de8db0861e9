"""bench/torch_ops.py -- the ops of ops.c in PyTorch, one thread: `NAME_torch_ms VALUE ms`, CPU time, median."""
import time

import torch

N, ROWS, ROUNDS = 1 << 22, 4096, 11
torch.set_num_threads(1)
v = (torch.arange(N) % 1000).float() / 1000 + 0.001
w = v.clone()
m = v.reshape(ROWS, -1)
image = v.reshape(16, 64, 64, 64).contiguous(memory_format=torch.channels_last)
index = (torch.arange(ROWS) * 1237) % ROWS
OPS = {
    "add": lambda: v + w, "mul": lambda: v * w, "relu": lambda: torch.relu(v), "exp": lambda: torch.exp(v),
    "tanh": lambda: torch.tanh(v), "sigmoid": lambda: torch.sigmoid(v), "sqrt": lambda: torch.sqrt(v),
    "softmax": lambda: torch.softmax(m, 1), "sum_rows": lambda: m.sum(1), "sum_columns": lambda: m.sum(0),
    "max_rows": lambda: m.amax(1), "transpose": lambda: m.t().contiguous(), "gather": lambda: m.index_select(0, index),
    "max_pool": lambda: torch.nn.functional.max_pool2d(image, 2), "avg_pool": lambda: torch.nn.functional.avg_pool2d(image, 2),
}
for name, run in OPS.items():
    times = []
    for i in range(-3, ROUNDS):
        start = time.process_time()
        run()
        if i >= 0:
            times.append(1e3 * (time.process_time() - start))
    print(f"{name}_torch_ms {sorted(times)[ROUNDS // 2]:.3f} ms")
