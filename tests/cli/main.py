"""tests/cli/main.py BUILD [PART] -- runs the tests whose name holds PART."""
import os
import sys

import harness
import test_all_reduce
import test_board
import test_convert
import test_deploy
import test_docs
import test_help
import test_install
import test_launch
import test_ops
import test_ranks
import test_security
import test_serve
import test_sim
import test_sim_docs
import test_ssh
import test_table
import test_trace
import test_zookeeper

if __name__ == "__main__":
    tests = harness.collect(test_all_reduce, test_help, test_install, test_ops, test_launch, test_table, test_ssh, test_ranks,
                            test_serve, test_security, test_sim, test_convert, test_deploy, test_docs, test_sim_docs, test_trace,
                            test_zookeeper, test_board)
    sys.exit(0 if harness.main(tests, os.path.abspath(sys.argv[1]), *sys.argv[2:3]) else 1)
