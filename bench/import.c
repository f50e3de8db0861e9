/* bench/import.c -- startup times of a program: loading the library and running a first graph, and importing and
 * exporting a GraphDef of 10,000 nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tensorflow/c/c_api.h"

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void check(TF_Status *s)
{
    if (TF_GetCode(s) == TF_OK)
        return;
    fprintf(stderr, "%s\n", TF_Message(s));
    exit(1);
}

static TF_Output constant(TF_Graph *g, const char *name, float v, TF_Status *s)
{
    TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof v);
    memcpy(TF_TensorData(t), &v, sizeof v);
    TF_OperationDescription *d = TF_NewOperation(g, "Const", name);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrTensor(d, "value", t, s);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    check(s);
    TF_DeleteTensor(t);
    return o;
}

static TF_Output binary(TF_Graph *g, const char *op, const char *name, TF_Output a, TF_Output b, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, op, name);
    TF_AddInput(d, a);
    TF_AddInput(d, b);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    check(s);
    return o;
}

/* A graph, a session, a run: the work of --first, in a separate process, so that loading counts. */
static int first(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    TF_Output y = binary(g, "AddV2", "y", constant(g, "a", 1, s), constant(g, "b", 2, s), s);
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_Session *session = TF_NewSession(g, o, s);
    TF_Tensor *out = NULL;
    TF_SessionRun(session, NULL, NULL, NULL, 0, &y, &out, 1, NULL, 0, NULL, s);
    check(s);
    return *(float *)TF_TensorData(out) == 3 ? 0 : 1;
}

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof *t, by_value);
    return t[n / 2];
}

static double measure_first(const char *self)
{
    enum { N = 21 };
    double t[N];
    for (int i = 0; i < N; i++) {
        int status;
        double start = now_ms();
        pid_t pid = fork();
        if (pid == 0) {
            execl(self, self, "--first", (char *)NULL);
            _exit(127);
        }
        if (waitpid(pid, &status, 0) != pid || status != 0)
            exit(1);
        t[i] = now_ms() - start;
    }
    return median(t, N);
}

static TF_Buffer *large_graph(int n, TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    TF_Output a = constant(g, "a", 1, s), x = a;
    for (int i = 1; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d/add_%d", i / 100, i);
        x = binary(g, "AddV2", name, x, a, s);
    }
    TF_Buffer *b = TF_NewBuffer();
    TF_GraphToGraphDef(g, b, s);
    check(s);
    TF_DeleteGraph(g);
    return b;
}

static double measure_import(const TF_Buffer *def, TF_Status *s)
{
    enum { N = 11 };
    double t[N];
    for (int i = 0; i < N; i++) {
        TF_Graph *g = TF_NewGraph();
        TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
        double start = now_ms();
        TF_GraphImportGraphDef(g, def, o, s);
        t[i] = now_ms() - start;
        check(s);
        TF_DeleteImportGraphDefOptions(o);
        TF_DeleteGraph(g);
    }
    return median(t, N);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--first") == 0)
        return first();
    TF_Status *s = TF_NewStatus();
    printf("load_and_first_graph_ms %.1f ms\n", measure_first(argv[0]));
    TF_Buffer *def = large_graph(10000, s);
    printf("import_10000_nodes_ms %.1f ms\n", measure_import(def, s));
    TF_DeleteBuffer(def);
    TF_DeleteStatus(s);
    return 0;
}
