/* ops/dnnl.h -- what all calls of oneDNN need; convolutions are in dnnl_conv.h.
 *
 * Only dnnl.c and dnnl_conv.c include oneDNN's own header, because its C API changes between
 * versions.  Calls run in the calling thread alone; who wants more threads cuts the work and calls
 * from several. */
#ifndef MR_OPS_DNNL_H
#define MR_OPS_DNNL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Around calls of oneDNN: one thread each.  enter gives the caller's own setting, for leave. */
int mr_dnnl_enter(void);
void mr_dnnl_leave(int before);
/* A dnnl_status_t as one of ours. */
mr_status *mr_dnnl_check(int st, const char *what);

#endif
