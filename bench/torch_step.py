"""bench/torch_step.py -- the networks of train_step.c in PyTorch, as fast as it runs them (channels last).

    torch_step.py mlp|lenet|lstm [steps] [threads]

Prints `NAME_torch_step_ms VALUE ms`: CPU time of a step, single-threaded; the better of both memory formats.
"""
import sys
import time

import torch
import torch.nn as nn

BATCH, BLOCKS = 128, 9


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(28, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.lstm(x)[0][-1])


def network(name):
    if name == "lstm":
        return Lstm()
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                             nn.Linear(128, 10))
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10))


def step_ms(name, steps, threads, channels_last):
    net = network(name)
    x = torch.rand(28, BATCH, 28) if name == "lstm" else torch.rand(BATCH, 1, 28, 28)
    y = torch.arange(BATCH) % 10
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    clock = time.perf_counter if threads > 1 else time.process_time
    times = []
    for block in range(-2, BLOCKS):
        start = clock()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(net(x), y)
            loss.backward()
            optimizer.step()
        if block >= 0:
            times.append(1e3 * (clock() - start) / steps)
    return sorted(times)[BLOCKS // 2]


def main():
    name = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    torch.set_num_threads(threads)
    best = min(step_ms(name, steps, threads, last) for last in ((False, True) if name == "lenet" else (False,)))
    print(f"{name}_b{BATCH}_{threads}t_torch_step_ms {best:.4f} ms")


main()
