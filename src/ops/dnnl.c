/* ops/dnnl.c -- set-up that all calls of oneDNN share.
 *
 * Debian's oneDNN uses OpenMP, which becomes very slow when a core is shared, so every call is limited to one
 * thread. The number of threads is a setting of the calling thread, which may belong to the host program, so it is
 * restored after each call. */
#include "ops/dnnl.h"

#include <dnnl.h>

#include "base/memory.h"

/* Weak, because a oneDNN that was built without OpenMP does not provide it. */
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
