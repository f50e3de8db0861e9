/* run/executor_type.h -- TensorFlow's names for kinds of executors. Millrace has one executor, which serves all of
 * them. */
#ifndef MR_RUN_EXECUTOR_TYPE_H
#define MR_RUN_EXECUTOR_TYPE_H

#include "base/status.h"
#include "base/str.h"

/* NOT_FOUND for a name that TensorFlow does not know either. */
static inline mr_status *mr_executor_type_check(mr_sv name)
{
    if (name.n == 0 || mr_sv_is(name, "DEFAULT") || mr_sv_is(name, "SINGLE_THREADED_EXECUTOR"))
        return NULL;
    return mr_error(MR_NOT_FOUND,
                    "No executor factory registered for the given executor type: %.*s Registered factories are "
                    "{DEFAULT, SINGLE_THREADED_EXECUTOR}.",
                    MR_SV_ARG(name));
}

#endif
