/* run/executor_type.h -- the names that TensorFlow has for kinds of executors.  Here there is one, which serves for
 * all. */
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
