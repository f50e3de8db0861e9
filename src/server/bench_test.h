/* server/bench_test.h -- whole clusters in one process, for tests. */
#ifndef MR_SERVER_BENCH_TEST_H
#define MR_SERVER_BENCH_TEST_H

#include "graph/scope.h"
#include "server/server.h"
#include "tests/harness/test.h"

enum { BENCH_MAX_TASKS = 16 };

typedef struct bench {
    mr_net *net;
    mr_server_options options; /* of tasks that start */
    mr_sv task_config; /* likewise: a ConfigProto */
    mr_cluster cluster;
    mr_server *servers[BENCH_MAX_TASKS];
    int n;
    mr_graph *g;
    mr_scope s;
    mr_session *session; /* made at the first run; its master is the last task */
    mr_str config;       /* of it */
} bench;

static const mr_out bench_nothing = {NULL, 0};

void bench_begin(bench *b, int n_ps, int n_workers); /* calls stay inside this process */
void bench_begin_on(bench *b, mr_net *net, int n_ps, int n_workers);
void bench_begin_with(bench *b, const mr_server_options *o, int n_ps, int n_workers);
void bench_start_task(bench *b, int i);
void bench_stop_task(bench *b, int i);
mr_session *bench_session_of(bench *b);
void bench_end_session(bench *b);
void bench_end(bench *b);
/* One scalar fed (unless feed is nothing) and one fetched. */
mr_status *bench_run(bench *b, mr_out feed, float value, mr_out fetch, mr_node *target, float *out);

/* ---- calls by hand ---- */

/* Makes a call to an address and waits; takes the body.  reply (may be NULL) is cleared and filled. */
mr_status *bench_call(mr_net *net, const char *address, const char *method, mr_str *body, mr_str *reply);

#endif
