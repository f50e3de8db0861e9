"""make bench-models -- training and inference beside PyTorch, onnxruntime and OpenCV, in one run, one thread, CPU time.

    main.py [--rounds N] [--list] [--json FILE] [--markdown FILE] [--chart FILE] [--node NODE --modules FOLDER]
            [--trace] [PART ...]

PART selects the models whose names contain it. Every side starts from the same weights and must have the same loss or
output. FOLDER contains onnxruntime-node; without it, onnxruntime takes no part. --trace also prints which ops our step
takes its time for.
"""
import os
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# OpenBLAS, which PyTorch uses, guesses some CPUs wrong.
with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX" if "avx512f" in cpuinfo.read() else "Haswell")

import argparse  # noqa: E402
import gc  # noqa: E402
import math  # noqa: E402
import tempfile  # noqa: E402
import warnings  # noqa: E402
from collections import Counter  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import torch  # noqa: E402

import chart  # noqa: E402
import inference  # noqa: E402
import recurrent  # noqa: E402
import sparse  # noqa: E402
import training  # noqa: E402
from timing import Child, Local, Report, compare  # noqa: E402

LOSS_STEPS = 3
# Shapes become constants in a trace, as they should: each model has one.
warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)


def all_models():
    """(kind, name, goal, how to make it) of every model."""
    for name, row in training.MODELS.items():
        yield "train", name, row[-1], lambda name=name: training.make(name)
    for name, goal in recurrent.GOALS.items():
        yield "train", name, goal, lambda name=name: recurrent.make(name)
    for name, goal in sparse.GOALS.items():
        yield "train", name, goal, lambda name=name: sparse.make(name)
    for name, row in inference.MODELS.items():
        for batch in row[-1]:
            yield "infer", f"{name}_b{batch}", 1.0, (name, batch)


def check_losses(name, steps):
    """The losses of the first steps of all sides, which must agree where the sides start from the same weights.

    The first loss shows that the networks are equal, the second that the gradients are. Rounding grows from step to
    step.
    """
    losses = {side: [float(step()) for _ in range(LOSS_STEPS)] for side, step in steps.items()}
    comparable = name in training.MODELS and name not in training.UNEQUAL_LOSSES
    for side, values in losses.items():
        for ours, theirs, most in zip(losses["millrace"], values, (2e-4, 0.01)):
            if comparable and not math.isclose(ours, theirs, rel_tol=most, abs_tol=1e-4):
                raise RuntimeError(f"the losses differ: millrace {losses['millrace']}, {side} {values}")
    return losses


def print_trace(session, fetches, feeds):
    """The time of our step by op."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    times, counts = Counter(), Counter()
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            op = node.timeline_label.split("=")[-1].split("(")[0].strip() or node.node_name
            times[op] += node.op_end_rel_micros - node.op_start_rel_micros
            counts[op] += 1
    for op, us in times.most_common(12):
        print(f"    {op:32} {us / 1e3:9.2f} ms  {100 * us / sum(times.values()):5.1f} %  x{counts[op]}")


def run_training(name, goal, make, options, report):
    steps, trainer = make()
    losses = check_losses(name, steps)
    note = "losses " + ", ".join(f"{v:.4f}" for v in losses["millrace"])
    report.add("train", name, goal, compare({s: Local(f) for s, f in steps.items()}, options.rounds), note)
    if options.trace:
        print_trace(trainer.session, trainer.fetches, trainer.feeds)
    trainer.close()


def run_inference(name, goal, which, options, report):
    with tempfile.TemporaryDirectory() as folder:
        steps, session = inference.make(*which, folder, options.node, options.modules)
        sides = {side: step if isinstance(step, Child) else Local(step) for side, step in steps.items()}
        report.add("infer", name, goal, compare(sides, options.rounds))
        for side in sides.values():
            if isinstance(side, Child):
                side.close()
        session.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--chart", metavar="FILE")
    parser.add_argument("--node", default="node")
    parser.add_argument("--modules", metavar="FOLDER")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = Report()
    for kind, name, goal, make in all_models():
        if options.parts and not any(part in f"{kind}_{name}" for part in options.parts):
            continue
        if options.list:
            print(f"{kind}_{name}")
            continue
        try:
            (run_inference if kind == "infer" else run_training)(name, goal, make, options, report)
        except Exception as e:  # one model that fails must not end a run of an hour
            report.fail(kind, name, f"{type(e).__name__}: {e}")
        gc.collect()
    if options.list:
        return 0
    for path, text in ((options.markdown, report.table() + "\n"), (options.chart, chart.svg(report.rows))):
        if path:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    if options.json:
        report.write(options.json, dict(torch=torch.__version__, numpy=np.__version__, rounds=options.rounds))
    return 1 if any("error" in row for row in report.rows) else 0


sys.exit(main())
