/* exec/dataset_saved_test.c -- datasets that are saved and loaded. */
#include <errno.h>

#include "base/file.h"
#include "base/memory.h"
#include "exec/dataset_fixture.h"
#include "graph/library.h"

static mr_dataset_fixture fixture;
#define GIVES(d, text) MR_CHECK_ELEMENTS(&fixture, d, text)

/* Mod3(x) = x mod 3; AllShards(d) = the elements of the datasets in d, one dataset after the other; Broken(x) = float. */
static void add_functions(void)
{
    mr_dbody m = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&m, &fixture, "Mod3", (const mr_out[]){mr_emit(&m.s, "FloorMod", m.args[0], mr_const_i64(&m.s, 3))},
                 1);
    mr_dbody i = mr_dbody_new(&fixture, 1, MR_VARIANT);
    mr_dbody_end(&i, &fixture, "Itself", (const mr_out[]){mr_emit(&i.s, "Identity", i.args[0])}, 1);
    mr_dbody f = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&f, &fixture, "Broken", (const mr_out[]){mr_const_f32(&f.s, 1)}, 1);
    mr_dbody a = mr_dbody_new(&fixture, 1, MR_VARIANT);
    mr_func_ref itself = {"Itself", 0, NULL};
    static const mr_pshape *const unknown[] = {&mr_pshape_unknown, &mr_pshape_unknown};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &itself}}, {"Targuments", mr_a_types(0, fixture.types)},
                             {"output_types", mr_a_types(fixture.n_types, fixture.types)}, {"output_shapes", mr_a_shapes(fixture.n_types, unknown)}};
    mr_emit_arg args[] = {{-1, &a.args[0]}, {0, NULL}};
    mr_dbody_end(&a, &fixture, "AllShards", (const mr_out[]){mr_emit_lists(&a.s, "FlatMapDataset", attrs, 4, args, 2)},
                 1);
}

static void begin(void)
{
    mr_dataset_fixture_init(&fixture, 2);
    add_functions();
}

static void end(void) { mr_dataset_fixture_deinit(&fixture); }

static char *path_of(const char *name) { return mr_printf("%s/%s", mr_test_dir(), name); }

static mr_out path(const char *name)
{
    char *p = path_of(name);
    mr_out o = mr_const_str(&fixture.s, p);
    mr_free(p);
    return o;
}

typedef struct how {
    const char *f, *compression;
    bool plain; /* no function says where an element goes */
} how;

static mr_out emit(const char *op, const char *attr, const char *types, how h, const mr_out *in, int n_in)
{
    mr_func_ref f = {h.f, 0, NULL};
    mr_named_attr attrs[4] = {{attr, {MR_ATTR_FUNC, .func = &f}}, {types, mr_a_types(0, fixture.types)},
                              {"compression", mr_a_str(h.compression ? h.compression : "")}, {"use_shard_func", mr_a_bool(!h.plain)}};
    static const mr_pshape *const unknown[] = {&mr_pshape_unknown, &mr_pshape_unknown};
    mr_named_attr all[6];
    int n = strcmp(attr, "shard_func") == 0 ? 4 : 3;
    for (int i = 0; i < n; i++)
        all[i] = attrs[i];
    if (strcmp(op, "SaveDataset") != 0) {
        all[n++] = (mr_named_attr){"output_types", mr_a_types(fixture.n_types, fixture.types)};
        all[n++] = (mr_named_attr){"output_shapes", mr_a_shapes(fixture.n_types, unknown)};
    }
    mr_emit_arg args[3] = {{-1, &in[0]}, {-1, &in[1]}, {0, NULL}};
    args[n_in] = (mr_emit_arg){0, NULL};
    return mr_emit_lists(&fixture.s, op, all, n, args, n_in + 1);
}

static mr_status *save(mr_out d, const char *to, how h)
{
    emit("SaveDataset", "shard_func", "Tshard_func_args", h, (const mr_out[]){d, path(to)}, 2);
    MR_CHECK_OK(mr_scope_status(&fixture.s));
    return mr_dataset_fixture_run(&fixture, fixture.g->nodes.p[fixture.g->nodes.n - 1]);
}

static mr_out saving(mr_out d, const char *to, how h)
{
    return emit("SaveDatasetV2", "shard_func", "Tshard_func_args", h, (const mr_out[]){d, path(to)}, 2);
}

static mr_out load(const char *from, const char *compression)
{
    return emit("LoadDataset", "reader_func", "Treader_func_args", (how){"AllShards", compression, false}, (const mr_out[]){path(from)}, 1);
}

static mr_out range(int64_t n) { return mr_dataset_fixture_range(&fixture, 0, n); }

MR_TEST(dataset_saved_in_shards_is_loaded_shard_by_shard)
{
    begin();
    MR_CHECK_OK(save(range(8), "s", (how){"Mod3"}));
    GIVES(load("s", NULL), "0 3 6 1 4 7 2 5");
    end();
}

MR_TEST(dataset_saved_without_a_function_keeps_its_order)
{
    begin();
    MR_CHECK_OK(save(range(8), "s", (how){"Mod3", NULL, true}));
    GIVES(load("s", NULL), "0 1 2 3 4 5 6 7");
    end();
}

MR_TEST(dataset_saved_compressed)
{
    begin();
    MR_CHECK_OK(save(range(8), "z", (how){"Mod3", "ZLIB"}));
    MR_CHECK_OK(save(range(8), "g", (how){"Mod3", "GZIP"}));
    GIVES(load("z", "ZLIB"), "0 3 6 1 4 7 2 5");
    GIVES(load("g", "GZIP"), "0 3 6 1 4 7 2 5");
    MR_CHECK_ERR(save(range(8), "x", (how){"Mod3", "SNAPPY"}), MR_INVALID_ARGUMENT, "unsupported compression 'SNAPPY'");
    end();
}

MR_TEST(dataset_saved_again_is_the_new_one)
{
    begin();
    MR_CHECK_OK(save(range(8), "s", (how){"Mod3"}));
    MR_CHECK_OK(save(range(2), "s", (how){"Mod3"}));
    GIVES(load("s", NULL), "0 1");
    end();
}

MR_TEST(dataset_saved_empty_is_loaded_empty)
{
    begin();
    MR_CHECK_OK(save(range(0), "s", (how){"Mod3"}));
    GIVES(load("s", NULL), "");
    end();
}

MR_TEST(dataset_loaded_knows_its_cardinality)
{
    begin();
    MR_CHECK_OK(save(range(8), "s", (how){"Mod3"}));
    mr_str got = {0};
    MR_CHECK_OK(mr_dataset_fixture_get(&fixture, mr_emit(&fixture.s, "DatasetCardinality", load("s", NULL)), &got));
    MR_CHECK_STR(mr_str_z(&got), "8");
    mr_str_deinit(&got);
    end();
}

MR_TEST(dataset_saved_on_the_way_is_given_too)
{
    begin();
    GIVES(saving(range(5), "s", (how){"Mod3"}), "0 1 2 3 4");
    GIVES(load("s", NULL), "0 3 1 4 2");
    end();
}

static mr_status *count(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return NULL;
}

/* What is in a folder; one that was not made yet has nothing. */
static int entries(const char *name)
{
    int n = 0;
    char *p = path_of(name);
    mr_status *st = mr_dir_each(p, count, &n);
    if (mr_status_code(st) != MR_NOT_FOUND)
        MR_CHECK_OK(mr_status_copy(st));
    mr_status_free(st);
    mr_free(p);
    return n;
}

MR_TEST(dataset_saving_given_up_leaves_nothing)
{
    begin();
    mr_str got = {0};
    mr_dataset_fixture_elements(&fixture, saving(range(5), "s", (how){"Mod3"}), 3, &got);
    mr_str_deinit(&got);
    mr_session_free(fixture.session); /* with the iterator, whose thread is waited for */
    fixture.session = NULL;
    MR_CHECK_INT(entries("s"), 0);
    end();
}

MR_TEST(dataset_saving_ends_when_its_step_is_cancelled)
{
    begin();
    mr_out endless = mr_dataset_fixture_op(&fixture, "RepeatDataset", range(5), mr_dataset_fixture_i64(&fixture, -1));
    MR_CHECK_OK(save(range(5), "s", (how){"Mod3"})); /* opens the session */
    emit("SaveDataset", "shard_func", "Tshard_func_args", (how){"Mod3"}, (const mr_out[]){endless, path("t")}, 2);
    MR_CHECK_OK(mr_scope_status(&fixture.s));
    mr_node *target = fixture.g->nodes.p[fixture.g->nodes.n - 1];
    mr_run_args args = {.targets = &target, .n_targets = 1};
    MR_CHECK_ERR(mr_session_run(fixture.session, &args, &(mr_run_options){.timeout_ms = 30}, NULL), MR_DEADLINE_EXCEEDED, "");
    MR_CHECK_INT(entries("t"), 0);
    end();
}

MR_TEST(dataset_saving_ends_with_an_error_of_its_function)
{
    begin();
    MR_CHECK_ERR(save(range(5), "s", (how){"Broken"}), MR_INVALID_ARGUMENT, "must return a scalar int64");
    MR_CHECK_INT(entries("s"), 0);
    GIVES(saving(range(5), "s", (how){"Broken"}), " !INVALID_ARGUMENT");
    end();
}

MR_TEST(dataset_saving_says_what_the_disk_says)
{
    begin();
    mr_out d = range(5);
    MR_CHECK_OK(save(d, "s", (how){"Mod3"}));
    mr_file_fail_after(0, ENOSPC);
    mr_status *st = save(d, "s", (how){"Mod3"});
    mr_file_fail_after(0, 0);
    MR_CHECK_ERR(st, MR_RESOURCE_EXHAUSTED, "");
    GIVES(load("s", NULL), "0 3 1 4 2"); /* what was there before */
    end();
}

MR_TEST(dataset_saved_of_two_tensors)
{
    mr_dataset_fixture_init(&fixture, 2);
    mr_dataset_fixture_types(&fixture, 2, MR_INT64, MR_STRING);
    add_functions();
    mr_out parts[] = {mr_const(&fixture.s, mr_tensor_vector_i64(2, (const int64_t[]){5, 6})),
                      mr_const(&fixture.s, mr_tensor_vector_str(2, (const char *[]){"a", ""}))};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar, &mr_pshape_scalar};
    mr_emit_arg args[] = {{2, parts}};
    mr_named_attr attrs[] = {{"Toutput_types", mr_a_types(2, fixture.types)},
                             {"output_shapes", mr_a_shapes(2, shapes)}};
    mr_out d = mr_emit_lists(&fixture.s, "TensorSliceDataset", attrs, 2, args, 1);
    MR_CHECK_OK(save(d, "s", (how){"Mod3", NULL, true}));
    GIVES(load("s", NULL), "5,a 6,");
    end();
}

/* ---- files that are not what they should be ---- */

static void write_file(const char *name, const char *bytes, size_t n)
{
    char *p = path_of(name), *dir = mr_strndup(mr_path_dirname(p).p, mr_path_dirname(p).n);
    MR_CHECK_OK(mr_dir_make(dir));
    MR_CHECK_OK(mr_file_write_all(p, (mr_sv){bytes, n}));
    mr_free(dir);
    mr_free(p);
}

MR_TEST(dataset_load_refuses_what_is_not_there_or_not_a_saved_dataset)
{
    begin();
    GIVES(load("none", NULL), " !NOT_FOUND");
    write_file("a/snapshot.metadata", "\x12\x05..", 4);
    GIVES(load("a", NULL), " !DATA_LOSS");
    write_file("b/snapshot.metadata", "\x12\x04../x\x20\x02", 8);
    GIVES(load("b", NULL), " !DATA_LOSS");
    write_file("c/snapshot.metadata", "\x12\x01r\x20\x01", 5);
    GIVES(load("c", NULL), " !INVALID_ARGUMENT");
    write_file("d/snapshot.metadata", "\x12\x01r\x20\x02", 5);
    GIVES(load("d", NULL), " !NOT_FOUND");
    write_file("d/r/00000000.shard/00000000.snapshot", "x", 1);
    GIVES(load("d", NULL), " !DATA_LOSS");
    end();
}

MR_TEST(dataset_loaded_of_other_types_is_refused)
{
    begin();
    MR_CHECK_OK(save(range(5), "s", (how){"Mod3"}));
    end();
    mr_dataset_fixture_init(&fixture, 2);
    mr_dataset_fixture_types(&fixture, 1, MR_FLOAT);
    add_functions();
    GIVES(load("s", NULL), " !INVALID_ARGUMENT");
    end();
}
