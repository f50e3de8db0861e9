/* capi/training_fixture.h -- a cluster of ps and worker tasks in this process, for tests of training over it. */
#ifndef MR_CAPI_TRAINING_FIXTURE_H
#define MR_CAPI_TRAINING_FIXTURE_H

#include "server/server.h"
#include "train/nn.h"

enum { TRAINING_FIXTURE_MAX_TASKS = 12 };

typedef struct training_fixture {
    mr_cluster cluster;
    mr_server *servers[TRAINING_FIXTURE_MAX_TASKS];
} training_fixture;

/* Tests run in processes of their own, so the tasks' addresses are the same everywhere. */
void training_fixture_begin(training_fixture *r, int n_ps, int n_workers);
void training_fixture_end(training_fixture *r);
/* Ends a task as it stands; what it held is gone.  Starts it again. */
void training_fixture_stop(training_fixture *r, const char *job, int task);
void training_fixture_start(training_fixture *r, const char *job, int task);
/* A session of a worker's own master that sees the parameter servers and itself. */
mr_status *training_fixture_open(training_fixture *r, int worker, mr_graph *g, mr_session **out);
mr_status *training_fixture_open_under(training_fixture *r, int worker, mr_graph *g, mr_cancel *cancel,
                                       mr_session **out);
/* The step of the newest checkpoint in a folder; -1 when there is none. */
int64_t training_fixture_newest_saved(const char *folder);

/* y = x * w + b learnt from points of y = 2x + 1, x from -1 to 1: a network whose end is known. */
typedef struct line_net {
    mr_graph *graph;
    mr_nn *net;
    mr_out x, y, loss, w, b;
} line_net;
void line_begin(line_net *l, int n_ps, int worker);
void line_end(line_net *l);
/* Feeds points number first .. first+n-1 of a repeating list of 64: x and y [n,1]. */
void line_batch(int64_t first, int64_t n, mr_tensor *values[2]);
/* Runs with a batch; fetches (may be none) are scalars. */
mr_status *line_run(const line_net *l, mr_session *s, int64_t first, int64_t n, mr_node *target, const mr_out *fetches,
                    int n_fetches, float *out);

#endif
