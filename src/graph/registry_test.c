/* graph/registry_test.c */
#include "base/memory.h"
#include "base/thread.h"
#include "graph/sample_ops_test.h"

MR_TEST(registry_all_built_in_ops_parse)
{
    mr_sample_ops();
    MR_CHECK_OK(mr_op_check_all());
}

MR_TEST(registry_finds_built_in_and_registered_ops)
{
    mr_sample_ops();
    MR_CHECK_STR(mr_op_find(MR_SV("Merge"))->name, "Merge");
    MR_CHECK_STR(mr_op_find(MR_SV("TestAdd"))->name, "TestAdd");
    MR_CHECK(mr_op_find(MR_SV("TestAdd")) == mr_op_find(MR_SV("TestAdd")));
    MR_CHECK(!mr_op_find(MR_SV("NoSuchOp")));
    MR_CHECK(!mr_op_find(MR_SV("")));
    MR_CHECK(!mr_op_find(MR_SV("Merg")));
}

MR_TEST(registry_refuses_a_name_twice_and_bad_names)
{
    mr_sample_ops();
    MR_CHECK_ERR(mr_op_register(&(mr_op){.name = "Merge"}), MR_ALREADY_EXISTS, "Merge");
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
    mr_sample_ops();
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
    MR_CHECK(mr_op_find(MR_SV("Merge")));
}

MR_TEST(registry_lookup_from_several_threads)
{
    mr_thread t[4];
    mr_sample_ops();
    for (int i = 0; i < 4; i++)
        MR_CHECK_INT(mr_thread_start(&t[i], "lookup", look_up, NULL), 0);
    for (int i = 0; i < 4; i++)
        mr_thread_join(&t[i]);
}
