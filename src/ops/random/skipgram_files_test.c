/* ops/random/skipgram_files_test.c -- ops that read words from files: Skipgram and
 * FixedUnigramCandidateSampler; and the sampler that learns. */
#include "base/file.h"
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "ops/table.h"
#include "tests/harness/test.h"

/* Writes a file with this text to the test's folder and returns its path, to be freed with mr_free. */
static char *file_of(const char *text)
{
    char *path = mr_printf("%s/words", mr_test_dir());
    mr_writer *w;
    MR_CHECK_OK(mr_writer_open(path, &w));
    MR_CHECK_OK(mr_writer_write(w, text, strlen(text)));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    return path;
}

/* ---- Skipgram ---- */

static mr_status *skipgram(const char *text, float subsample, mr_tensor **out)
{
    char *path = file_of(text);
    mr_scope s;
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    g->versions.producer = 18; /* the last version that may use Skipgram */
    mr_scope_init(&s, g, "");
    mr_out y = mr_emit0_with(&s, "Skipgram",
                             MR_ATTRS({"filename", mr_a_str(path)}, {"batch_size", mr_a_int(50)},
                                      {"window_size", mr_a_int(1)}, {"min_count", mr_a_int(2)},
                                      {"subsample", mr_a_float(subsample)}));
    MR_CHECK_OK(mr_scope_status(&s));
    mr_status *st = mr_eval_node(y.node, NULL, NULL, out);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_free(path);
    return st;
}

#define TEXT "b a a\nb  a c a b a\ta b a b"

MR_TEST(skipgram_numbers_words_by_frequency)
{
    mr_tensor *out[7];
    MR_CHECK_OK(skipgram(TEXT, 0, out));
    MR_CHECK_INT(out[0]->n, 3);
    MR_CHECK(mr_sv_is(mr_tensor_str_at(out[0], 0), "UNK"));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(out[0], 1), "a"));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(out[0], 2), "b"));
    static const int32_t counts[] = {1, 7, 5};
    for (int i = 0; i < 3; i++)
        MR_CHECK_INT(MR_DATA(int32_t, out[1])[i], counts[i]);
    MR_CHECK_INT(MR_DATA(int64_t, out[2])[0], 13);
    for (int i = 0; i < 7; i++)
        mr_tensor_unref(out[i]);
}

/* With a window of one, the first word has one neighbour and the others two. */
MR_TEST(skipgram_pairs_neighbours_in_the_order_of_the_text)
{
    static const int32_t text[] = {2, 1, 1, 2, 1, 0, 1};
    mr_tensor *out[7];
    MR_CHECK_OK(skipgram(TEXT, 0, out));
    const int32_t *examples = out[5]->data, *labels = out[6]->data;
    MR_CHECK_INT(examples[0], text[0]);
    MR_CHECK_INT(labels[0], text[1]);
    for (int i = 1; i < 6; i++) {
        MR_CHECK_INT(examples[2 * i - 1], text[i]);
        MR_CHECK_INT(labels[2 * i - 1], text[i - 1]);
        MR_CHECK_INT(examples[2 * i], text[i]);
        MR_CHECK_INT(labels[2 * i], text[i + 1]);
    }
    for (int i = 0; i < 7; i++)
        mr_tensor_unref(out[i]);
}

MR_TEST(skipgram_refuses_a_text_that_is_too_short)
{
    mr_tensor *out[7];
    MR_CHECK_ERR(skipgram("a b c", 0, out), MR_INVALID_ARGUMENT, "contains too little data: 3 "
                                                                 "words");
}

MR_TEST(skipgram_subsampling_leaves_all_numbers_valid)
{
    mr_tensor *out[7];
    MR_CHECK_OK(skipgram(TEXT, 0.01f, out));
    for (int i = 0; i < 50; i++)
        MR_CHECK(MR_DATA(int32_t, out[5])[i] >= 0 && MR_DATA(int32_t, out[5])[i] < 3);
    for (int i = 0; i < 7; i++)
        mr_tensor_unref(out[i]);
}

/* ---- samplers ---- */

static mr_status *sample_from(const char *text, mr_tensor **out)
{
    char *path = file_of(text);
    mr_scope s;
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "");
    int64_t dims[] = {1, 1}, zero = 0;
    mr_tensor *classes = mr_tensor_of(MR_INT64, 2, dims, &zero);
    mr_out y = mr_emit_with(&s, "FixedUnigramCandidateSampler",
                            MR_ATTRS({"num_true", mr_a_int(1)}, {"num_sampled", mr_a_int(2)},
                                     {"unique", mr_a_bool(false)}, {"range_max", mr_a_int(3)},
                                     {"vocab_file", mr_a_str(path)},
                                     {"num_reserved_ids", mr_a_int(1)}),
                            mr_const(&s, mr_tensor_ref(classes)));
    MR_CHECK_OK(mr_scope_status(&s));
    mr_status *st = mr_eval_node(y.node, NULL, &classes, out);
    mr_tensor_unref(classes);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_free(path);
    return st;
}

MR_TEST(fixed_unigram_sampler_reads_weights_behind_the_last_comma)
{
    mr_tensor *out[3];
    MR_CHECK_OK(sample_from("a,b,0\n\nc,2.5\r\n", out));
    for (int i = 0; i < 2; i++)
        MR_CHECK_INT(MR_DATA(int64_t, out[0])[i], 2);
    MR_CHECK_NEAR(MR_DATA(float, out[2])[0], 2, 1e-6);
    for (int i = 0; i < 3; i++)
        mr_tensor_unref(out[i]);
}

MR_TEST(fixed_unigram_sampler_refuses_a_line_without_a_weight)
{
    mr_tensor *out[3];
    MR_CHECK_ERR(sample_from("a,1\nb,x\n", out), MR_INVALID_ARGUMENT,
                   "Wrong vocabulary format at line: b,x");
}

/* Of two classes, one that was true 98 times has probability 99 / 100. */
MR_TEST(learned_unigram_sampler_expects_what_it_saw)
{
    mr_kernel_fixture b;
    mr_tensor *out[3];
    mr_kernel_fixture_init(&b, 1, "LearnedUnigramCandidateSampler",
                  MR_ATTRS({"num_true", mr_a_int(1)}, {"num_sampled", mr_a_int(1)},
                           {"unique", mr_a_bool(false)}, {"range_max", mr_a_int(2)}),
                  1, (mr_dtype[]){MR_INT64});
    for (int k = 0; k < 99; k++) {
        int64_t dims[] = {1, 1}, one = 1;
        mr_tensor *in[] = {mr_tensor_of(MR_INT64, 2, dims, &one)};
        MR_CHECK_OK(mr_kernel_fixture_run(&b, in, out));
        MR_CHECK_NEAR(MR_DATA(float, out[1])[0], (1 + k) / (2.0 + k), 1e-6);
        for (int i = 0; i < 3; i++)
            mr_tensor_unref(out[i]);
    }
    mr_kernel_fixture_deinit(&b);
}
