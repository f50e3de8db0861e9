/* train/tracer_test.c -- which steps are traced, and where they go. */
#include "train/tracer.h"

#include <stdlib.h>

#include "base/file.h"
#include "exec/trace_files.h"
#include "tests/harness/test.h"

/* Runs steps behind `done` and returns the traced ones as text. */
static void run(mr_tracer *t, int64_t from, int64_t to, int64_t by, mr_str *out)
{
    for (int64_t done = from; done < to; done += by) {
        mr_str *metadata = mr_tracer_begin(t, done);
        if (metadata)
            mr_str_printf(out, "%lld ", (long long)done + by);
        mr_tracer_end(t, true, done + by);
    }
}

MR_TEST(tracer_takes_the_steps_it_is_told)
{
    mr_tracer t;
    mr_str out = {0};
    MR_CHECK_OK(mr_tracer_init(&t, "unused", "3-5, 9", 0));
    run(&t, 0, 20, 1, &out);
    MR_CHECK_STR(mr_str_z(&out), "3 4 5 9 ");
    mr_tracer_deinit(&t);
    mr_str_deinit(&out);
}

MR_TEST(tracer_makes_up_for_a_range_that_others_made)
{
    mr_tracer t;
    mr_str out = {0};
    MR_CHECK_OK(mr_tracer_init(&t, "unused", "11-13", 0));
    run(&t, 0, 60, 10, &out); /* each step of ours is one of ten */
    MR_CHECK_STR(mr_str_z(&out), "20 ");
    mr_tracer_deinit(&t);
    mr_str_deinit(&out);
}

MR_TEST(tracer_without_a_folder_does_nothing)
{
    mr_tracer t;
    unsetenv("MILLRACE_TRACE");
    MR_CHECK_OK(mr_tracer_init(&t, NULL, "nonsense", 0));
    MR_CHECK(!mr_tracer_begin(&t, 20));
    mr_tracer_end(&t, true, 21);
    mr_tracer_deinit(&t);
}

MR_TEST(tracer_refuses_steps_it_cannot_read)
{
    static const char *const bad[] = {"x", "5-3", "0", "1-", "-3", "1,,2", "1-2-3"};
    for (int i = 0; i < 7; i++) {
        mr_tracer t;
        MR_CHECK_ERR(mr_tracer_init(&t, "unused", bad[i], 0), MR_INVALID_ARGUMENT, "steps to trace");
        mr_tracer_deinit(&t);
    }
}

MR_TEST(tracer_writes_a_file_a_step_with_its_number)
{
    mr_tracer t;
    mr_timeline line;
    char *folder = mr_printf("%s/traces", mr_test_dir());
    setenv("MILLRACE_TRACE", folder, 1);
    setenv("MILLRACE_TRACE_STEPS", "7", 1);
    MR_CHECK_OK(mr_tracer_init(&t, NULL, NULL, 2));
    mr_str *metadata = mr_tracer_begin(&t, 6);
    MR_CHECK(metadata != NULL);
    mr_str_append(metadata, "\x0a\x00", 2); /* empty step_stats */
    mr_tracer_end(&t, true, 7);
    char *path = mr_printf("%s/worker-2.step-00000007.pb", folder);
    MR_CHECK(mr_file_exists(path));
    mr_timeline_init(&line);
    MR_CHECK_OK(mr_trace_read_files((const char *const *)&folder, 1, &line));
    MR_CHECK_INT(line.steps.n, 1);
    MR_CHECK_INT(line.steps.p[0].number, 7);
    mr_timeline_deinit(&line);
    mr_tracer_deinit(&t);
    mr_free(path);
    mr_free(folder);
}

MR_TEST(trace_files_want_something_in_a_folder)
{
    mr_timeline t;
    const char *folder = mr_test_dir(), *none = "/nowhere/x.pb";
    mr_timeline_init(&t);
    MR_CHECK_ERR(mr_trace_read_files(&folder, 1, &t), MR_NOT_FOUND, "no trace files");
    MR_CHECK_ERR(mr_trace_read_files(&none, 1, &t), MR_NOT_FOUND, "/nowhere/x.pb");
    mr_timeline_deinit(&t);
}
