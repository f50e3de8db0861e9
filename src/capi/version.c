/* capi/version.c -- which C API this is, and which Millrace. */
#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

/* Clients take major.minor out of it to know which functions there are. */
const char *TF_Version(void)
{
    return "2.9.1";
}

const char *mr_version(void)
{
    return "0.1.0";
}
