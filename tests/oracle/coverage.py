"""tests/oracle/coverage.py -- which ops of tier A (src/ops/tier_a.inc) are compared, and why the others are not."""
import pathlib
import re

import table
from opdefs import OPS

TIER = pathlib.Path(__file__).parents[2] / "src/ops/tier_a.inc"

# Each op of tier A is compared or stands here with the reason; one that is both fails.
WITHOUT_COUNTERPART = {
    "Abort": "ends the process",
    "NoOp": "computes nothing",
    "ControlTrigger": "computes nothing",
    "MutexV2": "locks",
    "MutexLock": "locks",
    "ConsumeMutexLock": "locks",
    "RefEnter": "only a GraphDef can hold a loop of refs; it passes a ref on",
    "RefExit": "only a GraphDef can hold a loop of refs; it passes a ref on",
    "RefNextIteration": "only a GraphDef can hold a loop of refs; it passes a ref on",
    "PartitionedCall": "runs other ops; src/exec tests calls",
    "StatefulPartitionedCall": "runs other ops; src/exec tests calls",
    "SymbolicGradient": "runs other ops; src/exec tests calls",
    "_Arg": "internal: no client's graph may hold it",
    "_Retval": "internal: no client's graph may hold it",
    "_Send": "internal: no client's graph may hold it",
    "_Recv": "internal: no client's graph may hold it",
    "_HostSend": "internal: no client's graph may hold it",
    "_HostRecv": "internal: no client's graph may hold it",
}


def covered(modules):
    ops = {r.op for r in table.ROWS}
    for m in modules:
        for name, test in vars(m).items():
            if name.startswith("test_"):
                ops.update(getattr(test, "ops", ()))
    return ops


def report(modules):
    """The end lines; false when an op of tier A is neither compared nor excused, or both."""
    tier = re.findall(r"X\((\w+)", TIER.read_text())
    ops = covered(modules)
    by_reason = {}
    for op in tier:
        if op not in ops:
            by_reason.setdefault(WITHOUT_COUNTERPART.get(op), []).append(op)
    missing, twice = by_reason.pop(None, []), [op for op in WITHOUT_COUNTERPART if op in ops]
    print(f"tier A: {len([o for o in tier if o in ops])} of {len(tier)} ops compared; of all {len(OPS)} registered "
          f"{len([o for o in OPS if o in ops])}")
    for reason, names in by_reason.items():
        print(f"  without counterpart, {reason}: {' '.join(names)}")
    for op in missing:
        print(f"FAIL {op} of tier A is not compared, and no reason is given (tests/oracle/coverage.py)")
    for op in twice:
        print(f"FAIL {op} is compared, but a reason is given why not")
    return not missing and not twice
