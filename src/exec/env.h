/* exec/env.h -- what the programs of one session share: devices, threads, kept kernels, functions. */
#ifndef MR_EXEC_ENV_H
#define MR_EXEC_ENV_H

#include "exec/program.h"
#include "exec/session.h"
#include "passes/passes.h"

typedef struct mr_functions mr_functions;

/* A call of a function on a device of another task, made by a worker. args are borrowed until done is called. Before
 * that, rets gets n_rets owned tensors, none on failure. Cancelled with the step of the run. */
typedef struct mr_remote_args {
    mr_sv device;
    const mr_func_ref *f;
    mr_tensor *const *args;
    mr_tensor **rets;
    int n_args, n_rets;
    int depth; /* of calls, with this one */
    void (*done)(void *ctx, mr_status *st);
    void *ctx;
} mr_remote_args;
typedef struct mr_remote_caller mr_remote_caller;
struct mr_remote_caller {
    void (*call)(mr_remote_caller *c, mr_run *r, const mr_remote_args *a); /* a is borrowed for the call */
};

typedef struct mr_env {
    mr_session_config config;
    int n_devices;
    mr_device **devices; /* the first is the client's */
    bool borrowed;       /* the devices, and the resources in them, belong to a server */
    int n_budgets;
    mr_allocator **budgets; /* one per CPU if there is a limit, else NULL */
    mr_pool *inter;      /* NULL: nodes run on the caller's thread */
    mr_pool *intra;
    mr_kernel_cache *kernels;
    mr_functions *functions;
    mr_cancel *cancel;
    mr_remote_caller *remote; /* NULL: there are no other tasks */
    /* hold keeps a worker's session alive while functions may be called later (run/later.h), for example by an iterator
     * that is a resource of the server. Set before the first such call. holder NULL: they end when the session is
     * closed. */
    void (*hold)(void *holder);
    void (*release)(void *holder); /* from any thread */
    void *holder;
} mr_env;

/* Makes devices TASK/device:CPU:i and all others that are configured; task NULL: "/job:localhost/replica:0/task:0". */
mr_status *mr_env_init(mr_env *e, const mr_session_config *c, const char *task);
/* Uses the devices of `owner`, which must outlive e. */
mr_status *mr_env_init_beside(mr_env *e, const mr_session_config *c, const mr_env *owner);
void mr_env_deinit(mr_env *e); /* also after a failed init */
/* The options of mr_prepare for this session; the client's device first. */
mr_prepare_options mr_env_prepare_options(const mr_env *e);

/* ---- exec/function.c: runs functions of a library for kernels ---- */
mr_functions *mr_functions_new(mr_env *e);
void mr_functions_free(mr_functions *f);
/* Ends all objects that may call functions later (run/later.h), and waits for them. Functions of steps still work. */
void mr_functions_end(mr_functions *f);
mr_caller *mr_functions_caller(mr_functions *f);

#endif
