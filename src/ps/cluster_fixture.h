/* ps/cluster_fixture.h -- a manager, servers and a worker in one process, over real sockets: for tests of src/ps. */
#ifndef MR_PS_CLUSTER_FIXTURE_H
#define MR_PS_CLUSTER_FIXTURE_H

#include "base/thread.h"
#include "ps/client.h"
#include "ps/inbox.h"
#include "ps/manager.h"
#include "ps/server.h"

enum { PS_FIXTURE_SERVERS = 6 };

typedef struct ps_fixture {
    mr_ps_manager *manager;
    int64_t lost_ms; /* 0: 20000: who is closed is seen at once; a slow machine is no loss */
    char address[128];
    mr_ps_server *servers[PS_FIXTURE_SERVERS];
    mr_ps *ps;
    int table;
} ps_fixture;

typedef struct ps_worker { /* a thread that does something so many times */
    mr_ps *ps;
    int table, times;
    mr_thread thread;
} ps_worker;

/* n servers, and a table "w" of 1000 keys. */
void ps_fixture_open(ps_fixture *r, int n, int replicas, mr_ps_update update);
void ps_fixture_close(ps_fixture *r);
/* The pieces of it. */
void ps_open_manager(ps_fixture *r, const char *address, int n, int replicas);
void ps_add_server(ps_fixture *r, int i);
mr_ps *ps_add_client(const ps_fixture *r, mr_ps_options o);

/* Of all 1000 keys; each waits for its end. */
void ps_push_all(mr_ps *ps, int table, float amount);
void ps_check_all(mr_ps *ps, int table, float want);
void ps_push_keys(mr_ps *ps, int table, const uint64_t *keys, size_t n, const float *v, const mr_ps_call *c);
void ps_pull_keys(mr_ps *ps, int table, const uint64_t *keys, size_t n, float *v);
/* Until every range has its copies where they should be. */
void ps_wait_quiet(mr_ps *ps);

/* The thread of a manager, server or client (its inbox) stands still from begin to end: it does not answer. */
typedef struct ps_halt {
    mr_ps_note note;
    mr_mutex mu;
    mr_cond changed;
    bool reached, open, gone;
} ps_halt;
void ps_halt_begin(ps_halt *h, mr_ps_inbox *inbox);
void ps_halt_end(ps_halt *h);

#endif
