/* ops/table.c -- all built-in ops, from the lines MR_OP(Name that the build found under ops/.
 *
 * The lines are sorted, so the registry can search the table as it is. */
#include "ops/table.h"

#include <pthread.h>

#include "base/memory.h"
#include "graph/op.h"

#define X(Name) extern const mr_op mr_op_##Name;
#include "ops.inc"
#undef X

static const mr_op *const builtin[] = {
#define X(Name) &mr_op_##Name,
#include "ops.inc"
#undef X
};

static void hand_over(void) { mr_registry_set_builtin(builtin, MR_COUNT(builtin)); }

void mr_ops_register(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hand_over);
}
