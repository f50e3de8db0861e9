/* ops/io/record_input_test.c -- RecordInput gives each record once per epoch; PrintV2 appends to files. */
#include "base/memory.h"
#include "ops/io/file_example_fixture.h"
#include "ops/kernel_fixture.h"
#include "store/record.h"

/* Writes files r0, r1, .. of n records each: "a".."z" in turn. */
static void write_files(int n_files, int n)
{
    char next = 'a';
    for (int i = 0; i < n_files; i++) {
        char *path = mr_printf("r%d", i);
        mr_writer *f;
        mr_record_writer *w;
        MR_CHECK_OK(mr_writer_open(path, &f));
        MR_CHECK_OK(mr_record_writer_new(f, MR_UNCOMPRESSED, &w));
        for (int k = 0; k < n; k++, next++)
            MR_CHECK_OK(mr_record_write(w, (mr_sv){&next, 1}));
        MR_CHECK_OK(mr_writer_commit(f));
        mr_record_writer_free(w);
        mr_writer_free(f);
        mr_free(path);
    }
}

MR_TEST(record_input_gives_every_record_once_an_epoch)
{
    mr_kernel_fixture b;
    const mr_named_attr attrs[] = {{"file_pattern", mr_a_str("r*")},
                                   {"batch_size", mr_a_int(6)},
                                   {"file_buffer_size", mr_a_int(4)},
                                   {"file_shuffle_shift_ratio", mr_a_float(0.5f)}};
    mr_file_examples_begin();
    write_files(4, 3);
    mr_kernel_fixture_init(&b, 1, "RecordInput", attrs, MR_COUNT(attrs), 0, NULL);
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[12] = {0};
        for (int half = 0; half < 2; half++) {
            mr_tensor *out;
            MR_CHECK_OK(mr_kernel_fixture_run(&b, NULL, &out));
            for (int i = 0; i < 6; i++)
                seen[mr_tensor_str_at(out, i).p[0] - 'a']++;
            mr_tensor_unref(out);
        }
        for (int i = 0; i < 12; i++)
            MR_CHECK_INT(seen[i], 1);
    }
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(print_v2_adds_to_a_file)
{
    mr_file_examples_begin();
    char *path = mr_printf("%s/log", mr_test_dir());
    char *text = mr_printf("PrintV2 output_stream=\"file://%s\": \"a\"; PrintV2 "
                           "output_stream=\"file://%s\" end=\"!\": \"b\"; : \"%s\" -> \"a\\nb!\"",
                           path, path, path);
    MR_CHECK_TOLD("ReadFile", text);
    mr_free(text);
    mr_free(path);
}
