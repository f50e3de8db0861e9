"""tests/cli/test_install.py -- `make install` and `make uninstall`, and whose flags the compiler gets."""
import os
import subprocess

from harness import HERE, check, has

ROOT = os.path.dirname(os.path.dirname(HERE))

PROGRAM = """
#include <stdio.h>
#include <tensorflow/c/c_api.h>
int main(void)
{
    TF_Graph *g = TF_NewGraph();
    puts(TF_Version());
    TF_DeleteGraph(g);
    return 0;
}
"""


def make(t, *args):
    """With the compiler of the build, so from what was built; nothing of the make that runs this test is passed on."""
    command = ["make", "-s", "-C", ROOT, "CC=" + os.path.basename(t.build)] + list(args)
    env = {k: v for k, v in t.env().items() if k not in ("MAKEFLAGS", "MFLAGS", "WERROR", "CFLAGS", "CPPFLAGS", "LDFLAGS")}
    p = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(p.returncode == 0, p.stdout)
    return p.stdout


def is_plain(t):
    """Programs do not use a library with sanitizers."""
    return os.path.basename(t.build) in ("gcc", "clang")


def files(folder):
    return [os.path.join(d, name) for d, _, names in os.walk(folder) for name in names]


def test_install_into_a_root_gives_what_programs_need_and_uninstall_takes_it_away(t):
    if not is_plain(t):
        return
    root = os.path.join(t.dir, "root")
    where = ["DESTDIR=" + root, "PREFIX=/opt/millrace"]
    make(t, "install", *where)
    lib = os.path.join(root, "opt/millrace/lib")
    env = t.env(PKG_CONFIG_PATH=os.path.join(lib, "pkgconfig"), PKG_CONFIG_SYSROOT_DIR=root, LD_LIBRARY_PATH=lib)
    for name in "millrace", "tensorflow":
        flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", name], env=env, text=True).split()
        program = os.path.join(t.dir, name)
        subprocess.run(["gcc", "-Wall", "-Werror", t.file("program.c", PROGRAM), "-o", program] + flags, check=True)
        said = subprocess.run([program], env=env, stdout=subprocess.PIPE, text=True, check=True)
        check(said.stdout[0].isdigit(), said.stdout)
    make(t, "uninstall", *where)
    check(not files(root), "left: %s" % files(root))


def test_flags_of_the_user_are_added_to_ours(t):
    if not is_plain(t):
        return
    source = "src/base/str.c"
    text = make(t, "-n", "V=1", "CFLAGS=-O3", "CPPFLAGS=-DX", "-W", source,
                os.path.relpath(os.path.join(t.build, "src/base/str.o"), ROOT))
    line = next(line for line in text.splitlines() if source in line and " -c " in line)
    for flag in ("-fPIC", "-Isrc", "-Iinclude", "-std=gnu11", "-fvisibility=hidden", "-ffp-contract=off",
                 "-fstack-protector-strong", "-DX"):
        has(line, " %s " % flag)
    check(line.index(" -O3 ") > line.index(" -O2 "), line)
    check(" -Werror" not in line, line)
