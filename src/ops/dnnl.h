/* ops/dnnl.h -- set-up that all calls of oneDNN share; convolutions are in dnnl_conv.h.
 *
 * Only dnnl.c and dnnl_conv.c include oneDNN's own header, because its C API changes between versions. A call runs
 * in the calling thread alone; a caller that wants more threads splits the work and calls from each of them. */
#ifndef MR_OPS_DNNL_H
#define MR_OPS_DNNL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Call these around every use of oneDNN: they limit it to one thread. mr_dnnl_enter returns the caller's setting,
 * which mr_dnnl_leave restores. */
int mr_dnnl_enter(void);
void mr_dnnl_leave(int before);
/* Converts a dnnl_status_t to an mr_status. */
mr_status *mr_dnnl_check(int st, const char *what);

#endif
