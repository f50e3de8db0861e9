/* ops/dnnl.c -- what all calls of oneDNN need.
 *
 * oneDNN of Debian runs on OpenMP, whose teams collapse when a core is shared, so every call is
 * held to one thread.  The number of threads is a setting of the calling thread, which may be the
 * host program's own: it is put back after each call. */
#include "ops/dnnl.h"

#include <dnnl.h>

#include "base/memory.h"

/* Weak: oneDNN brings OpenMP along, unless it was built without. */
int omp_get_max_threads(void) __attribute__((weak));
void omp_set_num_threads(int n) __attribute__((weak));

int mr_dnnl_enter(void)
{
    if (!omp_get_max_threads || !omp_set_num_threads)
        return 1;
    int before = omp_get_max_threads();
    if (before != 1)
        omp_set_num_threads(1);
    return before;
}

void mr_dnnl_leave(int before)
{
    if (before != 1)
        omp_set_num_threads(before);
}

mr_status *mr_dnnl_check(int st, const char *what)
{
    if (st == dnnl_success)
        return NULL;
    mr_code code = st == dnnl_out_of_memory ? MR_RESOURCE_EXHAUSTED
                   : st == dnnl_unimplemented ? MR_UNIMPLEMENTED
                   : st == dnnl_invalid_arguments ? MR_INVALID_ARGUMENT
                                                  : MR_INTERNAL;
    return mr_error(code, "oneDNN: %s failed with status %d", what, st);
}
