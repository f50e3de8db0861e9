/* ops/absent_test.c -- every op of TensorFlow is known; those without a kernel report that. */
#include "ops/absent.h"

#include <stdio.h>

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

/* Reads the first word of each line of the list. Prints each op of a required tier that is absent, then fails. */
MR_TEST(absent_ops_are_in_none_of_the_tiers_that_programs_lean_on)
{
    enum { LEAST = 900 };
    static char line[1 << 12];
    FILE *f = fopen("tests/reference/op_priority.tsv", "r");
    MR_CHECK(f != NULL);
    int n_there = 0, n_lacking = 0;
    mr_ops_register();
    while (fgets(line, sizeof line, f)) {
        char *tab = strchr(line, '\t');
        if (line[0] == '#' || !tab)
            continue;
        *tab = '\0';
        const mr_op_def *d = mr_op_find(mr_sv_of(line));
        bool there = d && !mr_op_absent(d), must = tab[1] == 'A' || tab[1] == 'B';
        if (!d || (must && !there)) {
            fprintf(stderr, "%s, of tier %c, is %s\n", line, tab[1], d ? "not implemented" : "not known");
            n_lacking++;
        }
        n_there += there;
    }
    fclose(f);
    MR_CHECK_INT(n_lacking, 0);
    MR_CHECK(n_there >= LEAST);
}
