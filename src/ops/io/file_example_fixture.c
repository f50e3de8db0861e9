/* ops/io/file_example_fixture.c -- see file_example_fixture.h. */
#include "ops/io/file_example_fixture.h"

#include <unistd.h>

#include "ops/table.h"
#include "ops/example_fixture.h"

void mr_file_examples_begin(void)
{
    mr_ops_register();
    MR_CHECK_INT(chdir(mr_test_dir()), 0);
}

static void check_in(const char *file, int line, const mr_op_def *d, const char *text, mr_dtype key)
{
    mr_arena a;
    mr_example *e;
    mr_trial t;
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_example_parse(&a, text, &e));
    mr_trial_init(&t, d, e, key, MR_TRIAL_CONST);
    mr_status *st = mr_trial_run(&t);
    if (st)
        mr_test_fail(file, line, "%s %s: %s: %s", d->name, key ? mr_dtype_name(key) : "",
                     mr_code_name(mr_status_code(st)), mr_status_message(st));
    mr_trial_deinit(&t);
    mr_arena_deinit(&a);
}

void mr_check_file_example(const char *file, int line, const char *op, const char *text)
{
    mr_dtype types[64];
    const mr_op_def *d = mr_op_find(mr_sv_of(op));
    MR_CHECK(d != NULL);
    int n = mr_trial_types(d, types, 64);
    for (int i = 0; i < n; i++)
        check_in(file, line, d, text, types[i]);
    if (n == 0)
        check_in(file, line, d, text, MR_INVALID);
}
