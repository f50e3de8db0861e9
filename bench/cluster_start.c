/* bench/cluster_start.c -- how long `millrace launch` takes until 16 ps and 32 workers are up.
 *
 *     cluster_start MILLRACE
 *
 * They are up when the chief has a session over all 48 tasks: each was asked and has answered.  The
 * launcher, and keys for all tasks, are in it. */
#include <inttypes.h>
#include <sys/wait.h>

#include "bench/tasks.h"

enum { N_PS = 16, N_WORKERS = 32, ROUNDS = 3 };

/* The chief: opens a session with all tasks, and prints how long that took. */
static void lead(mr_server *own, int64_t began)
{
    mr_session *session;
    mr_device_info *devices;
    int n;
    mr_graph *g = mr_graph_new();
    tasks_must(mr_server_session(own, g, NULL, MR_SV(""), NULL, &session));
    tasks_must(session->ops->list_devices(session, &devices, &n));
    if (n != N_PS + N_WORKERS)
        tasks_must(mr_error(MR_INTERNAL, "%d devices", n));
    printf("%.3f\n", (double)(mr_now_ns() - began) / 1e9);
    fflush(stdout);
    mr_device_infos_free(devices, n);
    mr_session_free(session);
    mr_graph_unref(g);
}

/* One of the workers, which the launcher started and stops. */
static void be_worker(int64_t began)
{
    mr_server_def def;
    mr_server *own;
    sigset_t mask;
    int sig;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, NULL); /* for all later threads */
    mr_ops_register();
    tasks_must(mr_server_def_from_json(mr_sv_of(getenv("TF_CONFIG")), &def));
    tasks_must(mr_server_new(&def, NULL, &own));
    tasks_must(mr_server_start(own));
    if (def.task == 0)
        lead(own, began);
    else
        sigwait(&mask, &sig);
    mr_server_free(own); /* with its socket */
    mr_server_def_deinit(&def);
    exit(0);
}

/* Seconds. */
static double launch(const char *launcher, const char *self)
{
    char *command = mr_printf(
        "%s launch --quiet --bare-chief --ps %d --workers %d -- %s at %" PRId64 " 2>/dev/null",
        launcher, N_PS, N_WORKERS, self, mr_now_ns());
    double s = 0;
    FILE *f = popen(command, "r");
    if (!f || fscanf(f, "%lf", &s) != 1 || pclose(f) != 0) {
        fprintf(stderr, "failed: %s\n", command);
        exit(1);
    }
    mr_free(command);
    return s;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "at") == 0)
        be_worker(strtoll(argv[2], NULL, 10));
    if (argc != 2) {
        fprintf(stderr, "usage: cluster_start MILLRACE\n");
        return 2;
    }
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double s = launch(argv[1], argv[0]);
        best = MR_MIN(best, s);
    }
    printf("cluster_start_%d_tasks_s %.2f s\n", N_PS + N_WORKERS, best);
    return 0;
}
