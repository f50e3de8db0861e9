/* capi/init.c -- what must happen once before a client can do anything. */
#include "capi/internal.h"
#include "ops/table.h"

void mr_capi_init(void) { mr_ops_register(); }
