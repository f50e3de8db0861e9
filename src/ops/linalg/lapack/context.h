/* ops/linalg/lapack/context.h -- what BLAS routines know about the call that they work for.
 *
 * LAPACK's interface has no place for it, so it belongs to the thread, which makes one call at a time. A cancelled
 * call, and one whose arguments LAPACK refuses, leaves by longjmp: Fortran's routines own nothing that would have to
 * be released. */
#ifndef MR_OPS_LINALG_LAPACK_CONTEXT_H
#define MR_OPS_LINALG_LAPACK_CONTEXT_H

#include <setjmp.h>

#include "ops/linalg/lapack.h"

typedef struct mr_lapack_context {
    const mr_lapack_call *call;
    jmp_buf back;
    void *room;         /* for products */
    void *temp;         /* MR_LAPACK_TEMP_COLUMNS columns of the longest dimension */
    void *x, *y;        /* vectors of the longest dimension */
} mr_lapack_context;

enum { MR_LAPACK_TEMP_COLUMNS = 64 };

extern _Thread_local mr_lapack_context mr_lapack_now;

/* Leaves the call if its step was cancelled. */
void mr_lapack_poll(void);
void mr_lapack_leave(mr_lapack_result why) __attribute__((noreturn));

#endif
