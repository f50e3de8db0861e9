/* serve.c -- asks the model that examples/python/serve.py has trained and saved.
 *
 *     serve FOLDER A B
 *
 * Any SavedModel is served like this: load it with its tag, find the ends of the graph by name, run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

static TF_Output end_of(TF_Graph *graph, const char *name)
{
    TF_Output o = {TF_GraphOperationByName(graph, name), 0};
    if (!o.oper) {
        fprintf(stderr, "the model has no operation %s\n", name);
        exit(1);
    }
    return o;
}

int main(int argc, char **argv)
{
    int help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (argc != 4) {
        fprintf(help ? stdout : stderr, "usage: serve FOLDER A B\nasks the model that examples/python/serve.py has saved in FOLDER for A and B\n");
        return help ? 0 : 2;
    }
    status = TF_NewStatus();
    TF_Graph *graph = TF_NewGraph();
    TF_SessionOptions *options = TF_NewSessionOptions();
    TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], (const char *[]){"serve"}, 1, graph, NULL, status);
    check("loading the model");

    TF_Output in = end_of(graph, "x"), out = end_of(graph, "product");
    TF_Tensor *pair = TF_AllocateTensor(TF_FLOAT, (int64_t[]){1, 2}, 2, 2 * sizeof(float)), *product = NULL;
    float *values = TF_TensorData(pair);
    values[0] = strtof(argv[2], NULL), values[1] = strtof(argv[3], NULL);
    TF_SessionRun(session, NULL, &in, &pair, 1, &out, &product, 1, NULL, 0, NULL, status);
    check("asking the model");
    printf("%g times %g is %.4f\n", values[0], values[1], *(float *)TF_TensorData(product));

    TF_DeleteTensor(pair);
    TF_DeleteTensor(product);
    TF_CloseSession(session, status);
    TF_DeleteSession(session, status);
    TF_DeleteGraph(graph);
    TF_DeleteSessionOptions(options);
    TF_DeleteStatus(status);
    return 0;
}
