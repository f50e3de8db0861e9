/* capi/graph_fixture.h -- what the tests of the C API share: a graph, a status, and short ways to build.
 */
#ifndef MR_CAPI_GRAPH_FIXTURE_H
#define MR_CAPI_GRAPH_FIXTURE_H

#include "tensorflow/c/c_api.h"
#include "tests/harness/test.h"

typedef struct kit {
    TF_Graph *g;
    TF_Status *s;
} kit;

kit kit_new(void);
void kit_free(kit *r);

/* The last call succeeded; it failed with this code and its message holds this text. */
#define CHECK_OK(status) kit_check(__FILE__, __LINE__, status, TF_OK, "")
#define CHECK_CODE(status, code, text) kit_check(__FILE__, __LINE__, status, code, text)
void kit_check(const char *file, int line, const TF_Status *s, TF_Code code, const char *text);

/* ---- tensors ---- */
TF_Tensor *kit_floats(int num_dims, const int64_t *dims, const float *v);
TF_Tensor *kit_float(float v);
TF_Tensor *kit_ints(int num_dims, const int64_t *dims, const int32_t *v);
TF_Tensor *kit_int(int32_t v);
TF_Tensor *kit_bool(bool v);
TF_Tensor *kit_string(const char *v);
/* The value of a scalar; deletes the tensor. */
float kit_take_float(TF_Tensor *t);
int32_t kit_take_int(TF_Tensor *t);

/* ---- operations; each fails the test when it cannot be made ---- */
static inline TF_Output kit_out(TF_Operation *op, int index) { return (TF_Output){op, index}; }
TF_Output kit_placeholder(kit *r, const char *name, TF_DataType type);
TF_Output kit_const(kit *r, const char *name, TF_Tensor *value); /* deletes value */
TF_Output kit_unary(kit *r, const char *op, const char *name, TF_Output x);
TF_Output kit_binary(kit *r, const char *op, const char *name, TF_Output x, TF_Output y);
TF_Operation *kit_finish(kit *r, TF_OperationDescription *d);

/* ---- running ---- */
TF_Session *kit_session(kit *r);
void kit_close(kit *r, TF_Session *s);
/* Runs one fetch with up to one feed (oper NULL: none); NULL on error, which is in r->s. */
TF_Tensor *kit_run(kit *r, TF_Session *s, TF_Output feed, TF_Tensor *value, TF_Output fetch);

#endif
