/* capi/kernels.h -- shared by the files that implement tensorflow/c/kernels.h. */
#ifndef MR_CAPI_KERNELS_H
#define MR_CAPI_KERNELS_H

#include "capi/internal.h"
#include "run/run.h"
#include "tensorflow/c/kernels.h"

/* A kernel written in C by a client: mr_kernel.user.  Once registered it stays for good. */
struct TF_KernelBuilder {
    char *op, *device, *label;
    void *(*create)(TF_OpKernelConstruction *);
    void (*compute)(void *, TF_OpKernelContext *);
    void (*compute_async)(void *, TF_OpKernelContext *, TF_AsyncOpKernelDoneCallback *);
    void (*destroy)(void *);
    int priority;
    MR_VEC(mr_named_attr) constraints; /* lists of types; the names are ours */
    MR_VEC(char *) host_args;
};
/* The builder of a kernel; NULL for one of ours. */
const TF_KernelBuilder *mr_capi_kernel_builder(const mr_kernel *k);

struct TF_OpKernelConstruction {
    const mr_make *make;
    mr_status *st; /* the error that the client reported */
};

struct TF_AsyncOpKernelDoneCallback {
    TF_OpKernelContext *ctx;
};

struct TF_OpKernelContext {
    mr_run *run;
    mr_status *st; /* the error that the client reported */
    TF_AsyncOpKernelDoneCallback done;
};

/* A handle that shares t, and OK or why not. */
static inline TF_Tensor *mr_capi_share(const mr_tensor *t)
{
    return mr_capi_tensor_new(mr_tensor_ref(t));
}

#endif
