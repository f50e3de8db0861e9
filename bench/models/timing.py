"""Taking turns: CPU time of a step of ours and of each peer, in blocks that alternate in one process.

Other programs on the machine slow both sides alike while they alternate, and CPU time leaves out the time that they run
instead of us. The reported time of a side is the median of its blocks.
"""
import json
import statistics
import subprocess
import time

BLOCK_S = 0.25  # the CPU time of one block, about
MOST_STEPS = 2000


class Local:
    """A side that runs in this process: `step` computes one step."""

    def __init__(self, step):
        self.step = step

    def block(self, n):
        """CPU milliseconds of n steps."""
        start = time.process_time()
        for _ in range(n):
            self.step()
        return 1e3 * (time.process_time() - start)


class Child:
    """A side that runs in a process of its own: one line `N` asks for n steps, one line `MS` answers."""

    def __init__(self, argv, env):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.ask("")

    def ask(self, line):
        if line:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args[0]} ended with code {self.process.wait()}")
        return answer

    def block(self, n):
        return float(self.ask(str(n)))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(sides, rounds):
    """Milliseconds of a step of each of the sides, a dict of name to side, which take turns."""
    steps, times = {}, {name: [] for name in sides}
    for name, side in sides.items():
        side.block(1)  # the first step prepares
        steps[name] = max(1, min(MOST_STEPS, int(1e3 * BLOCK_S / max(side.block(1), 1e-4))))
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(side.block(steps[name]) / steps[name])
    return {name: statistics.median(values) for name, values in times.items()}


class Report:
    """The rows of a run: printed as they come, as `name value unit`, and kept for the table and the JSON file."""

    def __init__(self):
        self.rows = []

    def add(self, kind, name, goal, ms, note=None):
        peers = {peer: value for peer, value in ms.items() if peer != "millrace"}
        best = min(peers, key=peers.get)
        ratio = peers[best] / ms["millrace"]
        self.rows.append(dict(kind=kind, name=name, goal=goal, ratio=round(ratio, 3), best_peer=best,
                              ms={side: round(value, 4) for side, value in ms.items()}, note=note))
        for side, value in ms.items():
            print(f"{kind}_{name}_{side}_ms {value:.4f} ms")
        print(f"{kind}_{name}_ratio {ratio:.3f} x", flush=True)

    def fail(self, kind, name, error):
        self.rows.append(dict(kind=kind, name=name, error=error))
        print(f"{kind}_{name}_failed 1 {error}", flush=True)

    def table(self):
        """The rows as a Markdown table."""
        lines = ["| model | Millrace, ms | best peer, ms | ratio | goal |", "|---|---|---|---|---|"]
        for row in self.rows:
            name = f"{row['kind']} {row['name'].replace('_', ' ')}"
            if "error" in row:
                lines.append(f"| {name} | | | | {row['error']} |")
                continue
            ours, best = row["ms"]["millrace"], row["ms"][row["best_peer"]]
            lines.append(f"| {name} | {ours:.3g} | {best:.3g} ({row['best_peer']}) | {row['ratio']:.2f} |"
                         f" {row['goal'] or ''} |")
        return "\n".join(lines)

    def write(self, path, about):
        with open(path, "w", encoding="utf-8") as f:
            json.dump(dict(about, rows=self.rows), f, indent=1)
            f.write("\n")
