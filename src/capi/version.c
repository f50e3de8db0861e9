/* capi/version.c -- which C API this is, and which Millrace. */
#include "graph/graph_def.h"
#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

/* Clients take major.minor out of it to know which functions there are. */
const char *TF_Version(void)
{
    return MR_TF_VERSION;
}

const char *mr_version(void)
{
    return "0.1.0";
}
