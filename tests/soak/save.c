/* tests/soak/save.c -- kill -9 while saving: the newest complete checkpoint always loads and is correct.
 *
 *     save [--kills N] [--seed S] [--dir FOLDER]
 *
 * A child saves all the time: in each step it assigns the step's number to every variable and saves; it reports each
 * completed save to the parent through a pipe. The parent kills it at a random time, then restores in a separate
 * process and checks that the checkpoint loads, that all elements of all variables have the same number, and that this
 * number is at least the last reported one. Public headers only. */
#include <errno.h>
#include <millrace/progress.h>
#include <millrace/train.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_VARS = 3, ROWS = 256, COLUMNS = 200 };

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    _exit(3);
}

typedef struct rig {
    TF_Graph *graph;
    TF_Session *session;
    mr_saver *saver;
    TF_Output value[N_VARS], feed[N_VARS];
    const TF_Operation *assign[N_VARS];
} rig;

/* An operation that assigns the tensor fed to *feed to a variable. */
static const TF_Operation *add_assign(TF_Graph *g, TF_Output handle, int i, TF_Output *feed)
{
    char name[32];
    snprintf(name, sizeof name, "feed%d", i);
    TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", name);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    *feed = (TF_Output){TF_FinishOperation(d, status), 0};
    check("placeholder");
    snprintf(name, sizeof name, "set%d", i);
    d = TF_NewOperation(g, "AssignVariableOp", name);
    TF_AddInput(d, handle);
    TF_AddInput(d, *feed);
    TF_Operation *op = TF_FinishOperation(d, status);
    check("assign");
    return op;
}

static rig build(void)
{
    rig r = {.graph = TF_NewGraph()};
    mr_model *m = mr_model_new(r.graph);
    for (int i = 0; i < N_VARS; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        r.value[i] = mr_parameter(m, name, TF_FLOAT, 2, (int64_t[]){ROWS << i, COLUMNS}, (mr_init){MR_INIT_CONSTANT, -1, 0});
    }
    r.saver = mr_saver_new(m, 3);
    mr_model_status(m, status);
    check("model");
    for (int i = 0; i < N_VARS; i++)
        r.assign[i] = add_assign(r.graph, mr_parameter_handle(m, r.value[i]), i, &r.feed[i]);
    mr_model_free(m);
    TF_SessionOptions *o = TF_NewSessionOptions();
    r.session = TF_NewSession(r.graph, o, status);
    check("session");
    TF_DeleteSessionOptions(o);
    return r;
}

static void set_all(rig *r, float number)
{
    TF_Tensor *t[N_VARS];
    for (int i = 0; i < N_VARS; i++) {
        int64_t n = (int64_t)(ROWS << i) * COLUMNS;
        t[i] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){ROWS << i, COLUMNS}, 2, (size_t)n * sizeof(float));
        for (int64_t k = 0; k < n; k++)
            ((float *)TF_TensorData(t[i]))[k] = number;
    }
    TF_SessionRun(r->session, NULL, r->feed, t, N_VARS, NULL, NULL, 0, r->assign, N_VARS, NULL, status);
    check("setting");
    for (int i = 0; i < N_VARS; i++)
        TF_DeleteTensor(t[i]);
}

/* The child: saves until it is killed. */
static void save_for_ever(const char *folder, int64_t step, int told)
{
    char prefix[4096];
    rig r = build();
    snprintf(prefix, sizeof prefix, "%s/model", folder);
    for (;; step++) {
        set_all(&r, (float)step);
        mr_saver_save(r.saver, r.session, prefix, step, status);
        check("saving");
        if (write(told, &step, sizeof step) != sizeof step)
            _exit(3);
    }
}

/* The number in the newest checkpoint; -1 if there is none; exits if it is wrong. */
static int64_t restore(const char *folder)
{
    rig r = build();
    int found = mr_saver_restore_latest(r.saver, r.session, folder, status);
    check("restoring");
    if (!found)
        return -1;
    TF_Tensor *t[N_VARS];
    TF_SessionRun(r.session, NULL, NULL, NULL, 0, r.value, t, N_VARS, NULL, 0, NULL, status);
    check("reading");
    float first = *(float *)TF_TensorData(t[0]);
    for (int i = 0; i < N_VARS; i++)
        for (int64_t k = 0; k < TF_TensorElementCount(t[i]); k++)
            if (((float *)TF_TensorData(t[i]))[k] != first) {
                fprintf(stderr, "variable %d holds %g and %g\n", i, (double)first, (double)((float *)TF_TensorData(t[i]))[k]);
                _exit(4);
            }
    return (int64_t)first;
}

/* Restores in a separate process, as a restarted program would. */
static int64_t restored_number(const char *folder)
{
    int p[2];
    int64_t number = -2;
    if (pipe(p) != 0)
        return -2;
    pid_t pid = fork();
    if (pid == 0) {
        status = TF_NewStatus();
        int64_t n = restore(folder);
        _exit(write(p[1], &n, sizeof n) == sizeof n ? 0 : 3);
    }
    close(p[1]);
    ssize_t got = read(p[0], &number, sizeof number);
    close(p[0]);
    int st;
    waitpid(pid, &st, 0);
    return got == sizeof number && WIFEXITED(st) && WEXITSTATUS(st) == 0 ? number : -2;
}

/* Runs one child and kills it after some milliseconds; returns the last step it reported. */
static int64_t run_and_kill(const char *folder, int64_t from, int after_us)
{
    int p[2];
    int64_t told = -1, step;
    if (pipe(p) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(p[0]);
        status = TF_NewStatus();
        save_for_ever(folder, from, p[1]);
    }
    close(p[1]);
    if (read(p[0], &step, sizeof step) == sizeof step) /* the first save is done: it is at work */
        told = step;
    usleep((useconds_t)after_us);
    kill(pid, SIGKILL);
    while (read(p[0], &step, sizeof step) == sizeof step)
        told = step;
    close(p[0]);
    waitpid(pid, NULL, 0);
    return told;
}

int main(int argc, char **argv)
{
    int kills = 300;
    unsigned seed = (unsigned)time(NULL);
    char folder[4096] = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--kills") == 0)
            kills = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--seed") == 0)
            seed = (unsigned)atoi(argv[i + 1]);
        if (strcmp(argv[i], "--dir") == 0)
            snprintf(folder, sizeof folder, "%s", argv[i + 1]);
    }
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/millrace-soak-XXXXXX");
        if (!mkdtemp(folder))
            return 1;
    }
    srand(seed);
    mr_progress *bar = mr_progress_new(stderr, "kill -9 while saving", 0, kills);
    int64_t newest = 0;
    for (int i = 0; i < kills; i++) {
        int after_us = rand() % 100000;
        int64_t told = run_and_kill(folder, newest + 1, after_us), number = restored_number(folder);
        if (number < told || number < newest) {
            fprintf(stderr, "\nseed %u, kill %d after %d us in %s: told %lld, restored %lld, before %lld\n", seed, i, after_us,
                    folder, (long long)told, (long long)number, (long long)newest);
            return 1;
        }
        newest = number;
        mr_progress_update(bar, i + 1, "step %lld", (long long)newest);
    }
    mr_progress_end(bar);
    char command[4200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    int ignored = system(command);
    (void)ignored;
    printf("soak_save kills %d lost 0 wrong 0 steps %lld\n", kills, (long long)newest);
    return 0;
}
