/* capi/server.c -- TF_Server: one task of a cluster in this process. */
#include "base/log.h"
#include "capi/internal.h"
#include "millrace/cluster.h"
#include "server/server.h"

struct TF_Server {
    mr_server *server;
};

static mr_status *no_server(void) { return mr_invalid("server is NULL"); }

TF_Server *TF_NewServer(const void *proto, size_t proto_len, TF_Status *status)
{
    mr_server_def def;
    mr_server *s = NULL;
    mr_capi_init();
    mr_status *st = proto || !proto_len ? mr_server_def_decode((mr_sv){proto, proto_len}, &def)
                                        : mr_invalid("proto is NULL");
    if (!st) {
        st = mr_server_new(&def, NULL, &s);
        mr_server_def_deinit(&def);
    }
    mr_capi_set_status(status, st);
    if (st)
        return NULL;
    TF_Server *out = mr_new(TF_Server);
    out->server = s;
    return out;
}

void TF_ServerStart(TF_Server *server, TF_Status *status)
{
    mr_status *st = server ? mr_server_start(server->server) : no_server();
    if (!st)
        mr_info("Started server with target: %s", mr_server_target(server->server));
    mr_capi_set_status(status, st);
}

/* TensorFlow's front end calls this when the object of a server is deleted, and relies on the error: programs use the
 * target of a server after its object is deleted. */
void TF_ServerStop(TF_Server *server, TF_Status *status)
{
    mr_status *st;
    if (!server)
        st = no_server();
    else if (mr_server_runs(server->server))
        st = mr_error(MR_UNIMPLEMENTED, "Clean shutdown is not currently implemented");
    else
        st = mr_server_stop(server->server);
    mr_capi_set_status(status, st);
}

void mr_stop_server(TF_Server *server, TF_Status *status)
{
    mr_capi_set_status(status, server ? mr_server_stop(server->server) : no_server());
}

void TF_ServerJoin(TF_Server *server, TF_Status *status)
{
    mr_capi_set_status(status, server ? mr_server_join(server->server) : no_server());
}

const char *TF_ServerTarget(TF_Server *server) { return server ? mr_server_target(server->server) : ""; }

void TF_DeleteServer(TF_Server *server)
{
    if (!server)
        return;
    mr_server_free(server->server);
    mr_free(server);
}
