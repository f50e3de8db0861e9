/* net/grpc/library.c -- the one symbol of libmillrace-net.so.
 *
 * The library has its own copy of base/, so its log is passed on to the host's. */
#include "net/library.h"

#include <grpc/support/log.h>

#include "net/grpc/grpc.h"

const mr_net_library *mr_net_library_get(const mr_net_host *host)
    __attribute__((visibility("default")));

static mr_net grpc = {
    .name = "grpc",
    .listen = mr_grpc_listen,
    .stop = mr_grpc_stop,
    .reply = mr_grpc_reply,
    .on_cancel = mr_grpc_on_cancel,
    .connect = mr_grpc_connect,
    .disconnect = mr_grpc_disconnect,
    .start = mr_grpc_start,
    .cancel = mr_grpc_cancel,
};

static _Thread_local bool hushed;

void mr_grpc_hush(void) { hushed = true; }
void mr_grpc_unhush(void) { hushed = false; }

/* gRPC's messages go to our log; by itself it would write to stderr.  Its errors are warnings here, because the call
 * that failed reports the error itself. */
static void log_grpc(gpr_log_func_args *a)
{
    if (hushed)
        return;
    mr_log_at(a->severity == GPR_LOG_SEVERITY_ERROR ? MR_LOG_WARNING : MR_LOG_INFO, a->file,
              a->line, "gRPC: %s", a->message);
}

/* NULL: the host is of another build. gRPC's log is left alone if the process used gRPC before. */
const mr_net_library *mr_net_library_get(const mr_net_host *host)
{
    static const mr_net_library library = {
        .abi = MR_NET_LIBRARY_ABI, .grpc = &grpc, .tls = &mr_grpc_tls, .make_keys = mr_grpc_make_keys};
    if (host->abi != MR_NET_LIBRARY_ABI)
        return NULL;
    mr_log_listen(host->log, NULL);
    if (!host->has_grpc)
        gpr_set_log_function(log_grpc);
    return &library;
}
