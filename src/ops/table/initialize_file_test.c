/* ops/table/initialize_file_test.c -- initializes tables from text files. */
#include <stdio.h>

#include "base/memory.h"
#include "ops/queue/calls_fixture.h"

typedef struct rig {
    mr_calls calls;
    mr_callee make, fill, find, size;
    mr_tensor *handle;
    char *path;
} rig;

/* A table of strings to int64, and a file of this content. */
static void begin(rig *g, const char *content, int key_index, int value_index, int vocab, int offset)
{
    mr_named_attr table[] = {{"key_dtype", mr_a_type(MR_STRING)}, {"value_dtype", mr_a_type(MR_INT64)}};
    mr_named_attr fill[] = {{"key_index", mr_a_int(key_index)}, {"value_index", mr_a_int(value_index)},
                            {"vocab_size", mr_a_int(vocab)}, {"offset", mr_a_int(offset)},
                            {"delimiter", mr_a_str(",")}};
    mr_named_attr find[] = {{"Tin", mr_a_type(MR_STRING)}, {"Tout", mr_a_type(MR_INT64)}};
    mr_calls *c = &g->calls;
    mr_calls_init(c);
    g->make = mr_callee_make(c, "HashTableV2", table, 2, MR_NO_OUT, 0, NULL);
    mr_out h = {g->make.node, 0};
    g->fill = mr_callee_make(c, "InitializeTableFromTextFileV2", fill, 5, h, MR_TYPES(MR_STRING));
    g->find = mr_callee_make(c, "LookupTableFindV2", find, 2, h, MR_TYPES(MR_STRING, MR_INT64));
    g->size = mr_callee_make(c, "LookupTableSizeV2", NULL, 0, h, 0, NULL);
    mr_call *call = mr_call_new(c, &g->make, 0, NULL);
    mr_call_begin(call);
    MR_CHECK_OK(mr_call_end(call, &g->handle));
    g->path = mr_printf("%s/words", mr_test_dir());
    FILE *f = fopen(g->path, "w");
    MR_CHECK(f);
    fputs(content, f);
    fclose(f);
}

static void end(rig *g)
{
    mr_callee *all[] = {&g->make, &g->fill, &g->find, &g->size};
    for (int i = 0; i < MR_COUNT(all); i++)
        mr_callee_deinit(all[i]);
    mr_tensor_unref(g->handle);
    mr_calls_deinit(&g->calls);
    mr_free(g->path);
}

static mr_status *fill(rig *g)
{
    mr_call *c = mr_call_new(&g->calls, &g->fill,
                             MR_VALUES(mr_live(mr_tensor_ref(g->handle)),
                                       mr_live(mr_tensor_scalar_str(mr_sv_of(g->path)))));
    mr_call_begin(c);
    return mr_call_end(c, NULL);
}

static int64_t find(rig *g, const char *key)
{
    mr_tensor *t;
    mr_call *c = mr_call_new(&g->calls, &g->find,
                             MR_VALUES(mr_live(mr_tensor_ref(g->handle)),
                                       mr_live(mr_tensor_scalar_str(mr_sv_of(key))),
                                       mr_live(mr_tensor_scalar_i64(-1))));
    mr_call_begin(c);
    MR_CHECK_OK(mr_call_end(c, &t));
    int64_t v = *MR_DATA(int64_t, t);
    mr_tensor_unref(t);
    return v;
}

MR_TEST(table_from_whole_lines_and_their_numbers)
{
    rig g;
    begin(&g, "the\nquick\r\nfox", -2, -1, -1, 0);
    MR_CHECK_OK(fill(&g));
    MR_CHECK_INT(find(&g, "the"), 0);
    MR_CHECK_INT(find(&g, "quick"), 1);
    MR_CHECK_INT(find(&g, "fox"), 2);
    MR_CHECK_INT(find(&g, ""), -1);
    MR_CHECK_OK(fill(&g)); /* the same content again is fine */
    end(&g);
}

MR_TEST(table_from_columns)
{
    rig g;
    begin(&g, "x,a,10\ny,b, 20\n", 1, 2, 2, 0);
    MR_CHECK_OK(fill(&g));
    MR_CHECK_INT(find(&g, "b"), 20);
    end(&g);
}

MR_TEST(table_of_the_first_lines_counted_from_an_offset)
{
    rig g;
    begin(&g, "a\nb\nc\n", -2, -1, 2, 100);
    MR_CHECK_OK(fill(&g));
    MR_CHECK_INT(find(&g, "b"), 101);
    MR_CHECK_INT(find(&g, "c"), -1);
    end(&g);
}

static void check_refused(const char *content, int key, int value, int vocab, const char *part)
{
    rig g;
    begin(&g, content, key, value, vocab, 0);
    mr_status *st = fill(&g);
    MR_CHECK(st && strstr(mr_status_message(st), part));
    mr_status_free(st);
    end(&g);
}

MR_TEST(table_file_with_too_few_columns_is_refused)
{
    check_refused("a,1\nb\n", 0, 1, -1, "Invalid number of columns in ");
}

MR_TEST(table_file_with_too_few_lines_is_refused)
{
    check_refused("a\n", -2, -1, 5, "expected 5 but got 1");
}

MR_TEST(table_file_with_a_wrong_number_is_refused)
{
    check_refused("a,one\n", 0, 1, -1, "Field one in line 0 is not a valid int64.");
}

MR_TEST(table_file_with_two_values_for_a_key_is_refused)
{
    check_refused("a,1\na,2\n", 0, 1, -1, "HashTable has different value for same key. Key a has 1");
}
