/* cli/cmd_python.c -- `millrace python`: runs the Python interpreter with our package first on its path.
 *
 * The folder of the package also contains a package named tensorflow. It is ../share/millrace/python relative to this
 * program, both in the build tree and under PREFIX. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"
#include "cli/command.h"

static const char *interpreter;

/* Writes the absolute path of the folder of the package to *out; NOT_FOUND if the package was not built. */
static mr_status *find_package(mr_str *out)
{
    char self[4096], real[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return mr_error(MR_INTERNAL, "cannot find the path of this program: %s", strerror(errno));
    self[n] = '\0';
    mr_sv bin = mr_path_dirname(self);
    mr_str folder = {0};
    mr_str_printf(&folder, "%.*s/../share/millrace/python", (int)bin.n, bin.p);
    mr_str_printf(out, "%s/_millrace.so", mr_str_z(&folder));
    bool there = mr_file_exists(mr_str_z(out)) && realpath(mr_str_z(&folder), real);
    mr_str_deinit(&folder);
    if (!there)
        return mr_error(MR_NOT_FOUND, "%s does not exist: the Python package was not built (it needs python3-dev and "
                        "python3-numpy)", mr_str_z(out));
    mr_str_clear(out);
    mr_str_appendz(out, real);
    return NULL;
}

/* Sets PYTHONPATH to the path, followed by its former value. */
static void put_in_front(mr_str *path)
{
    const char *former = getenv("PYTHONPATH");
    if (former && former[0])
        mr_str_printf(path, ":%s", former);
    setenv("PYTHONPATH", mr_str_z(path), 1);
}

/* Replaces this process by the interpreter; returns only after an error. */
static mr_status *run_python(int n_args, char **args)
{
    mr_str path = {0};
    mr_status *st = find_package(&path);
    if (!st) {
        const char *named = getenv("PYTHON");
        if (!interpreter)
            interpreter = named && named[0] ? named : "/usr/bin/python3";
        put_in_front(&path);
        char **argv = mr_calloc((size_t)n_args + 2, sizeof *argv);
        argv[0] = (char *)interpreter;
        memcpy(argv + 1, args, (size_t)n_args * sizeof *argv);
        execvp(interpreter, argv); /* returns only after an error */
        st = mr_error(MR_NOT_FOUND, "cannot run %s: %s", interpreter, strerror(errno));
        mr_free(argv);
    }
    mr_str_deinit(&path);
    return st;
}

static const mr_option options[] = {
    {"interpreter", MR_OPT_STRING, &interpreter, "FILE", "Python interpreter (default: $PYTHON, or /usr/bin/python3)"},
    {0},
};

static const char about[] =
    "In the script, `import millrace as tf` and `import tensorflow as tf` import the same package. Everything after SCRIPT is passed "
    "to it. -c CODE and -m MODULE work as in Python. Without SCRIPT, the interactive interpreter starts.";

static const mr_help_item variables[] = {
    {"PYTHON", "the interpreter, unless --interpreter is given"},
    {"PYTHONPATH", "searched after the package"},
    {0},
};

static const mr_help_item examples[] = {
    {"millrace python examples/python/mnist.py --model=cnn", "Train a convolutional network:"},
    {"millrace python -c 'import tensorflow as tf; print(tf.__version__)'", "Run a line of Python:"},
    {0},
};

MR_COMMAND(python, .summary = "run a Python script that uses millrace or TensorFlow 1.x", .group = MR_COMMANDS_RUN,
           .usage = "[SCRIPT [ARGUMENT...]]", .options = options, .about = about, .environment = variables, .examples = examples,
           .max_args = -1, .ends_at_argument = true, .run = run_python);
