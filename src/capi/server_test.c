/* capi/server_test.c -- TF_Server: how it is stopped, and resets of masters that are not there. */
#include "base/str.h"
#include "capi/internal.h"
#include "dist/cluster.h"
#include "millrace/cluster.h"
#include "tests/harness/test.h"
#include "wire/pb.h"

static TF_Server *new_server(TF_Status *s)
{
    mr_cluster c = {0};
    mr_str cluster = {0}, def = {0};
    mr_pb_writer w;
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("local"), 0, MR_SV("localhost:0")));
    mr_cluster_encode(&c, &cluster);
    mr_pb_writer_init(&w, &def);
    mr_pb_put_bytes(&w, 1, mr_str_view(&cluster));
    mr_pb_put_bytes(&w, 2, MR_SV("local"));
    mr_pb_put_bytes(&w, 5, MR_SV("grpc"));
    TF_Server *server = TF_NewServer(def.p, def.n, s);
    MR_CHECK_INT(TF_GetCode(s), TF_OK);
    mr_str_deinit(&def);
    mr_str_deinit(&cluster);
    mr_cluster_deinit(&c);
    return server;
}

MR_TEST(capi_server_that_runs_is_stopped_by_us_alone)
{
    TF_Status *s = TF_NewStatus();
    TF_Server *server = new_server(s);
    TF_ServerStart(server, s);
    MR_CHECK_INT(TF_GetCode(s), TF_OK);
    TF_ServerStop(server, s);
    MR_CHECK_INT(TF_GetCode(s), TF_UNIMPLEMENTED);
    MR_CHECK_STR(TF_Message(s), "Clean shutdown is not currently implemented");
    mr_stop_server(server, s);
    MR_CHECK_INT(TF_GetCode(s), TF_OK);
    TF_ServerStop(server, s); /* it does not run any more */
    MR_CHECK_INT(TF_GetCode(s), TF_OK);
    TF_ServerJoin(server, s);
    MR_CHECK_INT(TF_GetCode(s), TF_OK);
    TF_DeleteServer(server);
    TF_DeleteStatus(s);
}

MR_TEST(capi_server_that_was_not_started_has_nothing_to_wait_for)
{
    TF_Status *s = TF_NewStatus();
    TF_Server *server = new_server(s);
    TF_ServerJoin(server, s);
    MR_CHECK_INT(TF_GetCode(s), TF_OK);
    TF_ServerStart(server, s);
    MR_CHECK_INT(TF_GetCode(s), TF_FAILED_PRECONDITION);
    MR_CHECK_STR(TF_Message(s), "Server has stopped.");
    TF_DeleteServer(server);
    TF_DeleteStatus(s);
}

MR_TEST(capi_reset_of_a_master_that_is_not_there_has_a_deadline)
{
    TF_Status *s = TF_NewStatus();
    TF_SessionOptions *o = TF_NewSessionOptions();
    mr_str config = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &config);
    mr_pb_put_varint(&w, 11, 200); /* operation_timeout_in_ms */
    TF_SetTarget(o, "grpc://127.0.0.1:0"); /* by number: c-ares 1.18 may leak the name localhost */
    TF_SetConfig(o, config.p, config.n, s);
    MR_CHECK_INT(TF_GetCode(s), TF_OK);
    TF_Reset(o, NULL, 0, s);
    MR_CHECK_INT(TF_GetCode(s), TF_DEADLINE_EXCEEDED);
    mr_str_deinit(&config);
    TF_DeleteSessionOptions(o);
    TF_DeleteStatus(s);
}
