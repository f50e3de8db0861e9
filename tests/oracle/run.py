"""tests/oracle/run.py -- our results against numpy, scipy and PyTorch, on random inputs.

    python3 tests/oracle/run.py [part of the name of an op, a test or a module]

Every module beside this one may hold rows (table.py) and functions test_*, each of which states one comparison and is run
with several seeds.  SEED=n in the environment draws other cases.
"""
import faulthandler
import importlib
import pathlib
import sys
import time
import traceback

import numpy as np

import coverage
import table

HERE = pathlib.Path(__file__).parent
SEEDS = 20


def load_modules():
    return [importlib.import_module(p.stem) for p in sorted(HERE.glob("*.py")) if p.stem != "run"]


def run_table(part):
    rows = [r for r in table.ROWS if part in r.op or part in r.module]
    table.run_rows(rows)
    failed = 0
    for name in sorted({r.op for r in rows}):
        mine = [r for r in rows if r.op == name]
        types = set().union(*[r.seen for r in mine])
        failures = [f for r in mine for f in r.failures]
        failed += bool(failures)
        print(f"{'FAIL' if failures else '  ok'} {name:32} {len(types):3} types {sum(r.cases for r in mine):5} cases   "
              f"worst {max(r.worst for r in mine):.2f}")
        for f in failures[:4]:
            print(f"       {f}")
        if len(failures) > 4:
            print(f"       and {len(failures) - 4} more")
    return len({r.op for r in rows}), failed


def run_test(module, name, test):
    for seed in range(table.SEED, table.SEED + SEEDS):
        module.RNG = np.random.default_rng(seed)
        try:
            test()
        except Exception:  # a crash of one comparison must not hide the others
            print(f"FAIL {name}, seed {seed}")
            traceback.print_exc(file=sys.stdout)
            return False
    print(f"  ok {name}")
    return True


def run_tests(modules, part):
    results = [run_test(m, name, test) for m in modules for name, test in list(vars(m).items())
               if name.startswith("test_") and (part in name or part in m.__name__)]
    return len(results), results.count(False)


def main():
    faulthandler.enable()
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    start, modules = time.time(), load_modules()
    ops, failed_ops = run_table(part)
    tests, failed_tests = run_tests(modules, part)
    complete = bool(part) or coverage.report(modules)
    print(f"{ops - failed_ops} ops and {tests - failed_tests} tests passed, {failed_ops} and {failed_tests} failed, "
          f"{sum(r.cases for r in table.ROWS)} cases, {time.time() - start:.0f} s")
    sys.exit(failed_ops + failed_tests > 0 or ops + tests == 0 or not complete)


main()
