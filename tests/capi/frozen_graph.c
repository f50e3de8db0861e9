/* tests/capi/frozen_graph.c -- the commonest client: a frozen graph is read from a file, fed by name, and
 * its result read.  The file is made here first; then come a golden one of ours and, where there is one, one of
 * TensorFlow. */
#include <unistd.h>

#include "client.h"

static TF_Buffer *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    fseek(f, 0, SEEK_SET);
    char *data = malloc((size_t)n + 1);
    CHECK(fread(data, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    TF_Buffer *b = TF_NewBufferFromString(data, (size_t)n);
    free(data);
    return b;
}

/* y = relu(x W + b) */
static void write_graph(const char *path, TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    const float w[] = {1, -1, 2, 0, 3, 1}, bias[] = {0.5f, -0.5f};
    TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "input");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", (const int64_t[]){-1, 3}, 2);
    TF_Output x = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    TF_Output weights =
        constant(g, tensor_of(TF_FLOAT, (const int64_t[]){3, 2}, 2, w), "weights", s);
    TF_Output b = constant(g, tensor_of(TF_FLOAT, (const int64_t[]){2}, 1, bias), "bias", s);
    TF_Output product = binary(g, "MatMul", x, weights, "product", s);
    TF_Output sum = binary(g, "BiasAdd", product, b, "sum", s);
    unary(g, "Relu", sum, "output", s);
    TF_Buffer *def = TF_NewBuffer();
    TF_GraphToGraphDef(g, def, s);
    CHECK_OK(s);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(def->data, 1, def->length, f) == def->length);
    fclose(f);
    TF_DeleteBuffer(def);
    TF_DeleteGraph(g);
}

static TF_Graph *load(const char *path, TF_Status *s)
{
    TF_Buffer *def = read_file(path);
    CHECK(def);
    TF_Graph *g = TF_NewGraph();
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_GraphImportGraphDef(g, def, o, s);
    CHECK_OK(s);
    TF_DeleteImportGraphDefOptions(o);
    TF_DeleteBuffer(def);
    return g;
}

static void run_own(const char *path, TF_Status *s)
{
    TF_Graph *g = load(path, s);
    TF_Output in = {TF_GraphOperationByName(g, "input"), 0};
    TF_Output out = {TF_GraphOperationByName(g, "output"), 0};
    CHECK(in.oper && out.oper);
    CHECK(TF_GraphGetTensorNumDims(g, in, s) == 2);
    int64_t dims[2];
    TF_GraphGetTensorShape(g, out, dims, 2, s);
    CHECK_OK(s);
    CHECK(dims[0] == -1 && dims[1] == 2);
    TF_Session *session = session_on(g, s);
    for (int64_t batch = 1; batch <= 5; batch += 2) { /* any number of rows */
        const int64_t shape[2] = {batch, 3};
        float x[15];
        for (int i = 0; i < 15; i++)
            x[i] = (float)(i - 4);
        TF_Tensor *t = tensor_of(TF_FLOAT, shape, 2, x), *y = run1(session, in, t, out, s);
        CHECK(TF_NumDims(y) == 2 && TF_Dim(y, 0) == batch && TF_Dim(y, 1) == 2);
        for (int64_t r = 0; r < batch; r++) {
            const float *row = x + 3 * r, *got = (const float *)TF_TensorData(y) + 2 * r;
            CHECK_NEAR(got[0], fmaxf(0, row[0] + 2 * row[1] + 3 * row[2] + 0.5f));
            CHECK_NEAR(got[1], fmaxf(0, -row[0] + row[2] - 0.5f));
        }
        TF_DeleteTensor(t);
        TF_DeleteTensor(y);
    }
    end_session(session, s);
    TF_DeleteGraph(g);
}

/* ---- a file by TensorFlow: a dense layer, with arrays in .npy ---- */

/* Rank 4 or less, little-endian floats, in C order: returns the data, sets the shape. */
static float *read_npy(const char *path, int64_t *dims, int *rank)
{
    TF_Buffer *b = read_file(path);
    CHECK(b && b->length > 12);
    const char *text = b->data;
    size_t header = 10 + ((unsigned char)text[8] | (size_t)(unsigned char)text[9] << 8);
    const char *at = strstr(text + 10, "'shape': (");
    CHECK(at && strstr(text + 10, "<f4"));
    at += strlen("'shape': (");
    int64_t n = 1;
    for (*rank = 0; *at != ')';) {
        char *end;
        dims[*rank] = strtoll(at, &end, 10);
        n *= dims[(*rank)++];
        for (at = end; *at == ',' || *at == ' '; at++)
            continue;
    }
    float *data = malloc((size_t)n * sizeof(float) + 1);
    CHECK(b->length >= header + (size_t)n * sizeof(float));
    memcpy(data, text + header, (size_t)n * sizeof(float));
    TF_DeleteBuffer(b);
    return data;
}

/* The graph FOLDER/graphs/NAME_net.pb gives NAME_out.npy for NAME_in.npy. */
static void run_golden(const char *folder, const char *name, TF_Status *s)
{
    char path[4096];
    int64_t dims[8], want_dims[8];
    int rank, want_rank;
    snprintf(path, sizeof path, "%s/graphs/%s_net.pb", folder, name);
    TF_Graph *g = load(path, s);
    TF_Output in = NOTHING, out = NOTHING;
    size_t pos = 0;
    for (TF_Operation *op; (op = TF_GraphNextOperation(g, &pos));) {
        if (strcmp(TF_OperationOpType(op), "Placeholder") == 0)
            in = (TF_Output){op, 0};
        out = (TF_Output){op, 0};
    }
    CHECK(in.oper && out.oper);
    snprintf(path, sizeof path, "%s/graphs/%s_in.npy", folder, name);
    float *x = read_npy(path, dims, &rank);
    snprintf(path, sizeof path, "%s/graphs/%s_out.npy", folder, name);
    float *want = read_npy(path, want_dims, &want_rank);
    TF_Session *session = session_on(g, s);
    TF_Tensor *t = tensor_of(TF_FLOAT, dims, rank, x), *y = run1(session, in, t, out, s);
    for (int64_t i = 0; i < TF_TensorElementCount(y); i++)
        CHECK(fabsf(((const float *)TF_TensorData(y))[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])));
    TF_DeleteTensor(t);
    TF_DeleteTensor(y);
    end_session(session, s);
    TF_DeleteGraph(g);
    free(x);
    free(want);
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    char path[] = "/tmp/frozen_graph_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    write_graph(path, s);
    run_own(path, s);
    unlink(path);
    run_golden("tests/golden", "dense", s);
    const char *golden = getenv("MILLRACE_GOLDEN");
    if (!golden)
        golden = "../shared/golden";
    if (access(golden, R_OK) == 0)
        run_golden(golden, "tf2_dense", s);
    else
        puts("without: golden");
    TF_DeleteStatus(s);
    return 0;
}
