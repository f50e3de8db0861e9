/* tests/capi/strings.c -- tensors of strings, short and long, in and out; and all other types. */
#include "client.h"

static const char *const texts[] = {"", "short", "exactly twenty-two byte",
                                    "a string that does not fit into the struct itself", "x\0y"};
static const size_t lengths[] = {0, 5, 23, 49, 3};
enum { N = 5 };

static TF_Tensor *make(void)
{
    TF_Tensor *t = TF_AllocateTensor(TF_STRING, (const int64_t[]){N}, 1, N * sizeof(TF_TString));
    CHECK(t && TF_TensorByteSize(t) == N * sizeof(TF_TString));
    TF_TString *s = TF_TensorData(t);
    for (int i = 0; i < N; i++) {
        TF_TString_Init(&s[i]);
        TF_TString_Copy(&s[i], texts[i], lengths[i]);
    }
    return t;
}

static void check(const TF_Tensor *t)
{
    CHECK(TF_TensorType(t) == TF_STRING && TF_TensorElementCount(t) == N);
    const TF_TString *s = TF_TensorData(t);
    for (int i = 0; i < N; i++) {
        CHECK(TF_StringGetSize(&s[i]) == lengths[i]);
        CHECK(memcmp(TF_StringGetDataPointer(&s[i]), texts[i], lengths[i]) == 0);
    }
}

/* Fed and fetched through an Identity; kept in a Const. */
static void round_trip(TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    TF_Output x = placeholder(g, TF_STRING, "x", s), y = unary(g, "Identity", x, "y", s);
    TF_Output c = constant(g, make(), "c", s);
    TF_Session *session = session_on(g, s);
    TF_Tensor *in = make(), *out = run1(session, x, in, y, s);
    check(out);
    check(in);
    TF_DeleteTensor(out);
    TF_DeleteTensor(in);
    out = run1(session, NOTHING, NULL, c, s);
    check(out);
    TF_DeleteTensor(out);
    TF_Tensor *attr = NULL;
    TF_OperationGetAttrTensor(c.oper, "value", &attr, s);
    CHECK_OK(s);
    check(attr);
    TF_DeleteTensor(attr);
    end_session(session, s);
    TF_DeleteGraph(g);
}

/* Views and memory of the client's own are read where they are. */
static void views(TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    TF_Output x = placeholder(g, TF_STRING, "x", s), y = unary(g, "Identity", x, "y", s);
    TF_Session *session = session_on(g, s);
    static TF_TString mine[N];
    for (int i = 0; i < N; i++)
        TF_StringAssignView(&mine[i], texts[i], lengths[i]);
    TF_Tensor *in = TF_NewTensor(TF_STRING, (const int64_t[]){N}, 1, mine, sizeof mine, NULL, NULL);
    TF_Tensor *out = run1(session, x, in, y, s);
    check(out);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    end_session(session, s);
    TF_DeleteGraph(g);
}

/* Every type of fixed size goes through unchanged, bit by bit. */
static void all_types(TF_Status *s)
{
    static const TF_DataType types[] = {
        TF_FLOAT,  TF_DOUBLE, TF_INT32,      TF_UINT8,  TF_INT16,  TF_INT8,   TF_COMPLEX64,
        TF_INT64,  TF_BOOL,   TF_QINT8,      TF_QUINT8, TF_QINT32, TF_QINT16, TF_QUINT16,
        TF_UINT16, TF_HALF,   TF_COMPLEX128, TF_UINT32, TF_UINT64, TF_BFLOAT16};
    char bytes[7 * 16];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i % 2); /* valid as booleans too */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        TF_Graph *g = TF_NewGraph();
        TF_Output x = placeholder(g, types[i], "x", s), y = unary(g, "Identity", x, "y", s);
        TF_Session *session = session_on(g, s);
        TF_Tensor *in = tensor_of(types[i], (const int64_t[]){7}, 1, bytes);
        TF_Tensor *out = run1(session, x, in, y, s);
        CHECK(TF_TensorType(out) == types[i] && TF_NumDims(out) == 1 && TF_Dim(out, 0) == 7);
        CHECK(TF_TensorByteSize(out) == 7 * TF_DataTypeSize(types[i]));
        CHECK(memcmp(TF_TensorData(out), bytes, TF_TensorByteSize(out)) == 0);
        TF_DeleteTensor(in);
        TF_DeleteTensor(out);
        end_session(session, s);
        TF_DeleteGraph(g);
    }
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    round_trip(s);
    views(s);
    all_types(s);
    TF_DeleteStatus(s);
    return 0;
}
