/* bench/tasks.h -- tasks of a cluster as processes of this host, for the figures of clusters.
 *
 *     tasks_start(2, "ps", "worker");    two parameter servers, each in a process of its own
 *     mr_server *own = tasks_own();      /job:worker/task:0 is this process
 *     tasks_end();
 *
 * Any error ends the program; the processes end with it. */
#ifndef MR_BENCH_TASKS_H
#define MR_BENCH_TASKS_H

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "graph/scope.h"
#include "ops/table.h"
#include "server/server.h"

static mr_cluster tasks_cluster;
static pid_t tasks_pids[64];
static int tasks_n_pids;

static inline void tasks_must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(1);
}

/* A port that was free just now; its socket keeps it until the program ends or *fd is closed. */
static inline int tasks_port(int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(a);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&a, n) != 0 ||
        getsockname(*fd, (struct sockaddr *)&a, &n) != 0) {
        perror("port");
        exit(1);
    }
    return ntohs(a.sin_port);
}

static inline void tasks_add(const char *job, int number, int *fd)
{
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%d", tasks_port(fd));
    tasks_must(mr_cluster_add(&tasks_cluster, mr_sv_of(job), number, mr_sv_of(address)));
}

static inline mr_server *tasks_serve(int task)
{
    mr_server *s;
    mr_server_def def = {.job = tasks_cluster.tasks.p[task].job,
                         .task = tasks_cluster.tasks.p[task].number};
    tasks_must(mr_cluster_copy(&tasks_cluster, &def.cluster));
    tasks_must(mr_server_new(&def, NULL, &s));
    tasks_must(mr_server_start(s));
    mr_cluster_deinit(&def.cluster);
    return s;
}

/* Runs in a separate process until it is told to end, or this program has ended. */
static inline void tasks_be(int task, const int ready[2])
{
    sigset_t mask;
    int sig;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, NULL); /* for all later threads */
    mr_server *s = tasks_serve(task);
    if (write(ready[1], "x", 1) == 1)
        sigwait(&mask, &sig);
    mr_server_free(s); /* with its socket */
    _exit(0);
}

static inline void tasks_fork(int task, const int ready[2])
{
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    if (pid == 0)
        tasks_be(task, ready);
    tasks_pids[tasks_n_pids++] = pid;
}

static inline void tasks_end(void)
{
    for (int i = 0; i < tasks_n_pids; i++)
        kill(tasks_pids[i], SIGTERM);
    for (int i = 0; i < tasks_n_pids; i++)
        waitpid(tasks_pids[i], NULL, 0);
}

/* Starts n tasks of a job, each in a process, and chooses an address for one task of another job, for this process
 * (NULL: none). All of them except the last are listening when it returns. */
static inline void tasks_start(int n, const char *job, const char *own_job)
{
    int ready[2], fds[65];
    char byte;
    mr_ops_register();
    if (n > 64 || pipe(ready) != 0)
        exit(1);
    for (int i = 0; i < n; i++)
        tasks_add(job, i, &fds[i]);
    if (own_job)
        tasks_add(own_job, 0, &fds[n]);
    for (int i = 0; i < n + (own_job != NULL); i++)
        close(fds[i]);
    for (int i = 0; i < n; i++)
        tasks_fork(i, ready);
    for (int i = 0; i < n; i++)
        if (read(ready[0], &byte, 1) != 1)
            exit(1);
}

static inline mr_server *tasks_own(void) { return tasks_serve(tasks_cluster.tasks.n - 1); }

static inline mr_tensor *tasks_run(mr_session *s, mr_out fetch, mr_node *target)
{
    mr_tensor *got = NULL;
    tasks_must(mr_session_run(s,
                              &(mr_run_args){.fetches = &fetch,
                                             .fetched = &got,
                                             .n_fetches = fetch.node != NULL,
                                             .targets = &target,
                                             .n_targets = target != NULL},
                              NULL, NULL));
    return got;
}

/* A variable of n floats where the scope's device is; *init sets all to a value. */
static inline mr_out tasks_variable(mr_scope *s, const char *name, int64_t n, float value,
                                    mr_node **init)
{
    mr_pshape *shape = mr_pshape_new(&s->graph->arena, n > 0);
    if (n > 0)
        shape->dims[0] = n;
    mr_out v = mr_emit0_with(mr_as(s, name), "VarHandleOp",
                             MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(shape)},
                                      {"shared_name", mr_a_str(name)}));
    mr_out x = mr_const_f32(s, value);
    if (n > 0)
        x = mr_emit(s, "Fill", mr_const_vec_i32(s, 1, (int32_t[]){(int32_t)n}), x);
    *init = mr_emit(s, "AssignVariableOp", v, x).node;
    return v;
}

static inline mr_out tasks_read(mr_scope *s, mr_out variable)
{
    return mr_emit_with(s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), variable);
}

#endif
