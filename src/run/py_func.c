/* run/py_func.c -- the hook through which PyFunc and similar ops call Python. The lock guarantees that a reader
 * gets a hook with its own context. */
#include "run/py_func.h"

#include "base/thread.h"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_py_func_hook *the_hook;
static void *the_ctx;

void mr_py_func_set_hook(mr_py_func_hook *hook, void *ctx)
{
    mr_lock(&mu);
    the_hook = hook;
    the_ctx = ctx;
    mr_unlock(&mu);
}

mr_py_func_hook *mr_py_func_get_hook(void **ctx)
{
    mr_lock(&mu);
    mr_py_func_hook *hook = the_hook;
    *ctx = the_ctx;
    mr_unlock(&mu);
    return hook;
}
