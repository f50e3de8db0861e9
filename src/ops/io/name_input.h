/* ops/io/name_input.h -- inputs that are one string: names of files and tensors. */
#ifndef MR_OPS_IO_NAME_INPUT_H
#define MR_OPS_IO_NAME_INPUT_H

#include "base/memory.h"
#include "run/run.h"

/* INVALID_ARGUMENT "WHAT must be scalar, but had shape: [2]". */
static inline mr_status *mr_in_scalar_str(const mr_run *r, int i, const char *what, mr_sv *out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 0)
        return mr_invalid("%s must be scalar, but had shape: %s", what, MR_TENSOR_SHAPE(t));
    *out = mr_tensor_str_at(t, 0);
    return NULL;
}

/* The first string of an input as a path with a terminating NUL; release it with mr_free. INVALID_ARGUMENT for a
 * name that contains a NUL. */
static inline mr_status *mr_in_path_at(const mr_run *r, int i, const char *what, char **out)
{
    mr_sv s = mr_tensor_str_at(mr_in(r, i), 0);
    if (s.n > 0 && memchr(s.p, 0, s.n))
        return mr_invalid("%s contains a NUL byte", what);
    *out = mr_strndup(s.p, s.n);
    return NULL;
}

/* The same for a scalar. */
static inline mr_status *mr_in_path(const mr_run *r, int i, const char *what, char **out)
{
    mr_sv s;
    MR_TRY(mr_in_scalar_str(r, i, what, &s));
    return mr_in_path_at(r, i, what, out);
}

#endif
