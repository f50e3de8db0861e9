/* ops/table.c -- all built-in ops, from the lines MR_OP(Name that the build found under ops/.
 *
 * The lines are sorted, so the registry can search the table as it is. */
#include "ops/table.h"

#include <pthread.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/data/iterator_resource.h"
#include "ops/list/list.h"
#include "run/run.h"
#include "tensor/variant.h"

#define X(Name) extern const mr_op mr_op_##Name;
#include "ops.inc"
#undef X

static const mr_op *const builtin[] = {
#define X(Name) &mr_op_##Name,
#include "ops.inc"
#undef X
};

/* Lets shape inference compute small constants with the kernels. */
static mr_status *evaluate_node(const mr_node *n, mr_tensor *const *in, mr_tensor **out)
{
    return mr_eval_bounded(n, in, out);
}

static void hand_over(void)
{
    mr_registry_set_builtin(builtin, MR_COUNT(builtin));
    mr_infer_set_evaluator(evaluate_node);
    mr_variant_register_numbers();
    mr_variant_register(&mr_list_type);
    mr_variant_register(&mr_iterator_place_type);
}

void mr_ops_register(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hand_over);
}
