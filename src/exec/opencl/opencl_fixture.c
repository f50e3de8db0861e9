/* exec/opencl/opencl_fixture.c -- a session with an OpenCL device, for tests. */
#include "exec/opencl/opencl_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "proto/config.pb-c.h"
#include "wire/message.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

/* The leak checker calls this. When pocl compiles a kernel that is not in its cache, it leaks memory, and so does the
 * LLVM below it. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libpocl.so\nleak:libLLVM\n"; }

void gpu_require(void)
{
    mr_opencl *const *devices;
    mr_ops_register();
    mr_test_deadline(300); /* the first to come compiles all kernels, on a machine that may be busy */
    setenv("MILLRACE_OPENCL", "all", 0);
    if (!getenv("POCL_CACHE_DIR") && access("build", W_OK) == 0)
        setenv("POCL_CACHE_DIR", "build/pocl", 1);
    if (mr_opencl_devices(&devices) == 0)
        mr_test_skip("no OpenCL device (pocl-opencl-icd is one)");
}

void gpu_begin(gpu_fixture *r)
{
    gpu_require();
    *r = (gpu_fixture){.g = mr_graph_new()};
    mr_scope_init(&r->s, r->g, "");
}

void gpu_end(gpu_fixture *r)
{
    mr_session_free(r->session);
    mr_scope_deinit(&r->s);
    mr_graph_unref(r->g);
    mr_str_deinit(&r->metadata);
}

mr_session *gpu_session(gpu_fixture *r)
{
    MR_CHECK_OK(mr_scope_status(&r->s));
    if (!r->session)
        MR_CHECK_OK(mr_direct_session_new(r->g, NULL, &r->config, &r->session));
    return r->session;
}

mr_status *gpu_run(gpu_fixture *r, const mr_run_args *a)
{
    mr_run_options o = {.trace_level = r->traced ? 3 : 0};
    mr_str_clear(&r->metadata);
    return mr_session_run(gpu_session(r), a, &o, &r->metadata);
}

mr_status *gpu_run1(gpu_fixture *r, mr_out feed, mr_tensor *value, mr_out fetch, mr_tensor **out)
{
    mr_run_args a = {.feeds = &feed, .feed_values = &value, .n_feeds = feed.node != NULL,
                     .fetches = &fetch, .fetched = out, .n_fetches = 1};
    *out = NULL;
    return gpu_run(r, &a);
}

void gpu_each_node(gpu_fixture *r, void (*fn)(void *ctx, const char *device, const Tensorflow__NodeExecStats *n),
                   void *ctx)
{
    Tensorflow__RunMetadata *m;
    MR_CHECK_OK(mr_message_unpack(&tensorflow__run_metadata__descriptor, mr_str_view(&r->metadata), "RunMetadata",
                                  (ProtobufCMessage **)&m));
    for (size_t i = 0; i < m->step_stats->n_dev_stats; i++)
        for (size_t k = 0; k < m->step_stats->dev_stats[i]->n_node_stats; k++)
            fn(ctx, m->step_stats->dev_stats[i]->device, m->step_stats->dev_stats[i]->node_stats[k]);
    mr_message_free(&m->base);
}

typedef struct search {
    const char *name, *found;
} search;

static void look(void *ctx, const char *device, const Tensorflow__NodeExecStats *n)
{
    search *s = ctx;
    if (strcmp(n->node_name, s->name) == 0)
        s->found = strstr(device, "GPU") ? "GPU" : "CPU";
}

const char *gpu_place_of(gpu_fixture *r, const char *node)
{
    search s = {node, ""};
    gpu_each_node(r, look, &s);
    return s.found;
}
