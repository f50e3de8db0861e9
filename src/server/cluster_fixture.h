/* server/cluster_fixture.h -- whole clusters in one process, for tests. */
#ifndef MR_SERVER_CLUSTER_FIXTURE_H
#define MR_SERVER_CLUSTER_FIXTURE_H

#include "graph/scope.h"
#include "server/server.h"
#include "tests/harness/test.h"

enum { CLUSTER_FIXTURE_MAX_TASKS = 16 };

typedef struct cluster_fixture {
    mr_net *net;
    mr_server_options options; /* of tasks that start */
    mr_sv task_config; /* likewise: a ConfigProto */
    mr_cluster cluster;
    mr_server *servers[CLUSTER_FIXTURE_MAX_TASKS];
    int n;
    mr_graph *g;
    mr_scope s;
    mr_session *session; /* made at the first run; its master is the last task */
    mr_str config;       /* of it */
} cluster_fixture;

static const mr_out cluster_fixture_nothing = {NULL, 0};

void cluster_fixture_begin(cluster_fixture *b, int n_ps, int n_workers); /* calls stay inside this process */
void cluster_fixture_begin_on(cluster_fixture *b, mr_net *net, int n_ps, int n_workers);
void cluster_fixture_begin_with(cluster_fixture *b, const mr_server_options *o, int n_ps, int n_workers);
void cluster_fixture_start_task(cluster_fixture *b, int i);
void cluster_fixture_stop_task(cluster_fixture *b, int i);
mr_session *cluster_fixture_session_of(cluster_fixture *b);
void cluster_fixture_end_session(cluster_fixture *b);
void cluster_fixture_end(cluster_fixture *b);
/* One scalar fed (unless feed is nothing) and one fetched. */
mr_status *cluster_fixture_run(cluster_fixture *b, mr_out feed, float value, mr_out fetch, mr_node *target, float *out);

/* ---- calls by hand ---- */

/* Makes a call to an address and waits; takes the body.  reply (may be NULL) is cleared and filled. */
mr_status *cluster_fixture_call(mr_net *net, const char *address, const char *method, mr_str *body, mr_str *reply);

#endif
