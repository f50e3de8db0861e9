/* capi/init.c -- what must happen once before a client can do anything. */
#include <pthread.h>

#include "capi/internal.h"
#include "graph/infer.h"
#include "ops/table.h"
#include "run/run.h"

/* Values that follow from constants are known while a graph is built. */
static mr_status *evaluate_node(const mr_node *n, mr_tensor *const *in, mr_tensor **out)
{
    return mr_eval_bounded(n, in, out);
}

static void init_library(void)
{
    mr_ops_register();
    mr_infer_set_evaluator(evaluate_node);
}

void mr_capi_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
}
