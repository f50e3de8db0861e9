/* ops/absent_test.c -- every op of TensorFlow is known; those without a kernel say so. */
#include "ops/absent.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/table.h"
#include "tests/harness/test.h"

static void check_runs_unimplemented(const mr_op_def *d)
{
    mr_node n = {.def = d};
    mr_run r = {.node = &n};
    char *why = mr_printf("%s is not implemented", d->name);
    MR_CHECK_ERR(d->op->kernels[0].run(&r), MR_UNIMPLEMENTED, why);
    mr_free(why);
}

MR_TEST(absent_ops_say_that_they_are)
{
    int n, n_absent = 0;
    mr_ops_register();
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        if (mr_op_absent(all[i])) {
            check_runs_unimplemented(all[i]);
            n_absent++;
        }
    mr_free(all);
    MR_CHECK(n_absent > 0);
}
