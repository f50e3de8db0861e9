/* graph/registry_test.c */
#include "base/memory.h"
#include "base/thread.h"
#include "graph/sample_ops_fixture.h"

/* A table as the build makes it: sorted by name. */
static void set_builtin(void)
{
    static const mr_op a = {.name = "BuiltA", .sig = "x: T ->", .attrs = "T: type"};
    static const mr_op ab = {.name = "BuiltAB"};
    static const mr_op b = {.name = "BuiltB", .sig = "not a signature"};
    static const mr_op *const table[] = {&a, &ab, &b};
    mr_registry_set_builtin(table, MR_COUNT(table));
    mr_sample_ops();
}

MR_TEST(registry_finds_built_in_and_registered_ops)
{
    set_builtin();
    MR_CHECK_STR(mr_op_find(MR_SV("BuiltA"))->name, "BuiltA");
    MR_CHECK_STR(mr_op_find(MR_SV("BuiltAB"))->name, "BuiltAB");
    MR_CHECK_STR(mr_op_find(MR_SV("TestAdd"))->name, "TestAdd");
    MR_CHECK(mr_op_find(MR_SV("BuiltA")) == mr_op_find(MR_SV("BuiltA")));
    MR_CHECK(!mr_op_find(MR_SV("NoSuchOp")));
    MR_CHECK(!mr_op_find(MR_SV("")));
    MR_CHECK(!mr_op_find(MR_SV("Built")));
}

MR_TEST(registry_tells_which_definition_is_bad)
{
    set_builtin();
    MR_CHECK(!mr_op_find(MR_SV("BuiltB")));
    MR_CHECK_ERR(mr_op_check_all(), MR_INVALID_ARGUMENT,
                 "Op definition of 'BuiltB': ':' is expected");
}

MR_TEST(registry_refuses_a_name_twice_and_bad_names)
{
    set_builtin();
    MR_CHECK_ERR(mr_op_register(&(mr_op){.name = "BuiltA"}), MR_ALREADY_EXISTS, "BuiltA");
    MR_CHECK_ERR(mr_op_register(&(mr_op){.name = "TestAdd"}), MR_ALREADY_EXISTS, "TestAdd");
    MR_CHECK_ERR(mr_op_register(&(mr_op){.name = "lower"}), MR_INVALID_ARGUMENT, "CamelCase");
    MR_CHECK_ERR(mr_op_register(&(mr_op){.name = "A>"}), MR_INVALID_ARGUMENT, "CamelCase");
    MR_CHECK_ERR(mr_op_register(&(mr_op){.name = ""}), MR_INVALID_ARGUMENT, "CamelCase");
    MR_CHECK_ERR(mr_op_register(&(mr_op){.name = "Bad", .sig = "x"}), MR_INVALID_ARGUMENT, "'Bad'");
    MR_CHECK(!mr_op_find(MR_SV("Bad")));
    MR_CHECK_OK(mr_op_register(&(mr_op){.name = "Space>Op2_x"}));
}

MR_TEST(registry_lists_all_ops_sorted)
{
    int n;
    set_builtin();
    const mr_op_def **all = mr_op_all(&n);
    bool found = false;
    for (int i = 0; i < n; i++) {
        MR_CHECK(i == 0 || strcmp(all[i - 1]->name, all[i]->name) < 0);
        found |= strcmp(all[i]->name, "TestAdd") == 0;
    }
    MR_CHECK(found);
    mr_free(all);
}

static mr_status *run(mr_run *r)
{
    (void)r;
    return NULL;
}

MR_TEST(registry_kernel_of_the_exact_type_and_highest_priority_wins)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_node *n = mr_sample_source(g, "n", MR_INT32);
    MR_CHECK(!mr_kernel_find(n, "CPU"));
    MR_CHECK_OK(
        mr_kernel_register("TestSource", &(mr_kernel){.device = "CPU", .run = run, .user = "any"}));
    MR_CHECK_STR(mr_kernel_find(n, "CPU")->user, "any");
    MR_CHECK(!mr_kernel_find(n, "GPU"));
    MR_CHECK_OK(mr_kernel_register(
        "TestSource",
        &(mr_kernel){.device = "CPU", .type = MR_FLOAT, .run = run, .user = "float"}));
    MR_CHECK_STR(mr_kernel_find(n, "CPU")->user, "any");
    MR_CHECK_OK(mr_kernel_register(
        "TestSource",
        &(mr_kernel){.device = "CPU", .type = MR_INT32, .run = run, .user = "int32"}));
    MR_CHECK_STR(mr_kernel_find(n, "CPU")->user, "int32");
    MR_CHECK_OK(mr_kernel_register(
        "TestSource", &(mr_kernel){.device = "CPU", .run = run, .priority = 1, .user = "high"}));
    MR_CHECK_STR(mr_kernel_find(n, "CPU")->user, "high");
    mr_graph_unref(g);
}

MR_TEST(registry_kernel_constraints_look_at_other_attrs)
{
    static const mr_named_attr only_float[] = {{"T", {MR_ATTR_TYPE, .type = MR_FLOAT}}, {NULL}};
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    MR_CHECK_OK(mr_kernel_register(
        "TestSource", &(mr_kernel){.device = "CPU", .run = run, .constraints = only_float}));
    MR_CHECK(!mr_kernel_find(mr_sample_source(g, "a", MR_INT32), "CPU"));
    MR_CHECK(mr_kernel_find(mr_sample_source(g, "b", MR_FLOAT), "CPU"));
    mr_graph_unref(g);
}

static void look_up(void *arg)
{
    int n;
    (void)arg;
    mr_free(mr_op_all(&n));
    MR_CHECK(mr_op_find(MR_SV("BuiltA")));
    MR_CHECK(mr_op_find(MR_SV("TestAdd")));
}

MR_TEST(registry_lookup_from_several_threads)
{
    mr_thread t[4];
    set_builtin();
    for (int i = 0; i < 4; i++)
        MR_CHECK_INT(mr_thread_start(&t[i], "lookup", look_up, NULL), 0);
    for (int i = 0; i < 4; i++)
        mr_thread_join(&t[i]);
}
