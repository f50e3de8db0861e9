/* store/record_test.c */
#include "store/record.h"

#include "base/memory.h"
#include "tests/harness/test.h"
#include "wire/crc32c.h"

static char *path_of(const char *name) { return mr_printf("%s/%s", mr_test_dir(), name); }

/* A file of n records "0", "11", "222" ... */
static void write_file(const char *path, mr_compression c, int n)
{
    mr_writer *f;
    mr_record_writer *w;
    MR_CHECK_OK(mr_writer_open(path, &f));
    MR_CHECK_OK(mr_record_writer_new(f, c, &w));
    for (int i = 0; i < n; i++) {
        char text[300];
        memset(text, '0' + i % 10, sizeof(text));
        MR_CHECK_OK(mr_record_write(w, (mr_sv){text, (size_t)i + 1}));
    }
    MR_CHECK_OK(mr_record_finish(w));
    MR_CHECK_OK(mr_writer_commit(f));
    mr_record_writer_free(w);
    mr_writer_free(f);
}

static void check_file(const char *path, mr_compression c, size_t buffer, int n)
{
    mr_record_reader *r;
    mr_str s = {0};
    MR_CHECK_OK(mr_record_reader_open(path, c, buffer, &r));
    for (int i = 0; i < n; i++) {
        MR_CHECK_OK(mr_record_read(r, &s));
        MR_CHECK_INT(s.n, i + 1);
        MR_CHECK(s.p[0] == '0' + i % 10 && s.p[i] == s.p[0]);
    }
    MR_CHECK_ERR(mr_record_read(r, &s), MR_OUT_OF_RANGE, "eof");
    MR_CHECK_OK(mr_record_seek(r, 0));
    for (int i = 0; i < n; i++) {
        mr_sv v;
        MR_CHECK_OK(mr_record_view(r, &s, &v));
        MR_CHECK_INT(v.n, i + 1);
        MR_CHECK(v.p[0] == '0' + i % 10 && v.p[i] == v.p[0]);
    }
    MR_CHECK_ERR(mr_record_view(r, &s, &(mr_sv){0}), MR_OUT_OF_RANGE, "eof");
    mr_record_reader_close(r);
    mr_str_deinit(&s);
}

MR_TEST(record_round_trip_in_every_compression_and_buffer)
{
    char *path = path_of("r");
    for (mr_compression c = MR_UNCOMPRESSED; c <= MR_GZIP; c++) {
        write_file(path, c, 200);
        check_file(path, c, 0, 200);
        check_file(path, c, 1, 200);
        check_file(path, c, 13, 200);
    }
    mr_free(path);
}

/* The number of records that are in memory before they are read. */
static int n_buffered(const char *path, mr_compression c, size_t buffer, int n)
{
    mr_record_reader *r;
    mr_str s = {0};
    int found = 0;
    MR_CHECK_OK(mr_record_reader_open(path, c, buffer, &r));
    MR_CHECK(!mr_record_is_buffered(r));
    for (int i = 0; i < n; i++) {
        found += mr_record_is_buffered(r);
        MR_CHECK_OK(mr_record_read(r, &s));
    }
    MR_CHECK(!mr_record_is_buffered(r)); /* the end is not known yet */
    MR_CHECK_OK(mr_record_seek(r, 0));
    MR_CHECK(!mr_record_is_buffered(r));
    mr_record_reader_close(r);
    mr_str_deinit(&s);
    return found;
}

MR_TEST(record_is_buffered_if_all_of_it_is_in_memory)
{
    char *path = path_of("r");
    for (mr_compression c = MR_UNCOMPRESSED; c <= MR_GZIP; c++) {
        write_file(path, c, 20);
        MR_CHECK_INT(n_buffered(path, c, 0, 20), 19);
        MR_CHECK_INT(n_buffered(path, c, 16, 20), 0);
    }
    mr_free(path);
}

MR_TEST(record_gzip_members_in_a_row_are_one_stream)
{
    char *a = path_of("a"), *b = path_of("b");
    mr_str bytes = {0};
    mr_writer *w;
    write_file(a, MR_GZIP, 3);
    MR_CHECK_OK(mr_file_read_all(a, &bytes));
    MR_CHECK_OK(mr_file_read_all(a, &bytes));
    MR_CHECK_OK(mr_writer_open(b, &w));
    MR_CHECK_OK(mr_writer_write(w, bytes.p, bytes.n));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    mr_record_reader *r;
    int64_t skipped;
    MR_CHECK_OK(mr_record_reader_open(b, MR_GZIP, 7, &r));
    MR_CHECK_ERR(mr_record_skip(r, 100, &skipped), MR_OUT_OF_RANGE, "eof");
    MR_CHECK_INT(skipped, 6);
    mr_record_reader_close(r);
    mr_str_deinit(&bytes);
    mr_free(a);
    mr_free(b);
}

MR_TEST(record_seek_finds_a_record_again)
{
    char *path = path_of("r");
    for (mr_compression c = MR_UNCOMPRESSED; c <= MR_GZIP; c++) {
        mr_record_reader *r;
        mr_str s = {0};
        int64_t skipped;
        write_file(path, c, 100);
        MR_CHECK_OK(mr_record_reader_open(path, c, 64, &r));
        MR_CHECK_OK(mr_record_skip(r, 41, &skipped));
        uint64_t at = mr_record_offset(r);
        MR_CHECK_OK(mr_record_read(r, &s));
        MR_CHECK_INT(s.n, 42);
        MR_CHECK_OK(mr_record_skip(r, 50, &skipped));
        MR_CHECK_OK(mr_record_seek(r, at));
        MR_CHECK_OK(mr_record_read(r, &s));
        MR_CHECK_INT(s.n, 42);
        mr_str_deinit(&s);
        mr_record_reader_close(r);
    }
    mr_free(path);
}

/* ---- files that are not right ---- */

/* A view has the same errors as a copy. */
static mr_status *read_second(mr_sv bytes)
{
    mr_stream *in;
    mr_str s = {0};
    mr_sv v;
    MR_CHECK_OK(mr_stream_of_bytes(bytes, MR_UNCOMPRESSED, &in));
    mr_record_reader *r = mr_record_reader_new(in);
    MR_CHECK_OK(mr_record_read(r, &s));
    mr_status *st = mr_record_read(r, &s);
    MR_CHECK_OK(mr_record_seek(r, 0));
    MR_CHECK_OK(mr_record_view(r, &s, &v));
    mr_status *of_view = mr_record_view(r, &s, &v);
    MR_CHECK(st && of_view && mr_status_code(st) == mr_status_code(of_view));
    MR_CHECK_STR(mr_status_message(of_view), mr_status_message(st));
    mr_status_free(of_view);
    mr_record_reader_close(r);
    mr_str_deinit(&s);
    return st;
}

/* The bytes of a file of two records: 17 + 18. */
static void two_records(mr_str *out)
{
    char *path = path_of("two");
    write_file(path, MR_UNCOMPRESSED, 2);
    MR_CHECK_OK(mr_file_read_all(path, out));
    MR_CHECK_INT(out->n, 35);
    mr_free(path);
}

MR_TEST(record_cut_at_any_byte_is_truncated)
{
    mr_str s = {0};
    two_records(&s);
    for (size_t n = 18; n < 35; n++)
        MR_CHECK_ERR(read_second((mr_sv){s.p, n}), MR_DATA_LOSS, "truncated record at 17");
    MR_CHECK_ERR(read_second((mr_sv){s.p, 17}), MR_OUT_OF_RANGE, "eof");
    mr_str_deinit(&s);
}

MR_TEST(record_changed_bytes_are_corrupted)
{
    mr_str s = {0};
    two_records(&s);
    for (size_t i = 17; i < 35; i++) {
        s.p[i] ^= 4;
        MR_CHECK_ERR(read_second(mr_str_view(&s)), MR_DATA_LOSS,
                     i < 29 ? "corrupted record at 17" : "corrupted record at 29");
        s.p[i] ^= 4;
    }
    mr_str_deinit(&s);
}

MR_TEST(record_length_is_not_trusted)
{
    mr_str s = {0};
    uint64_t n[] = {(uint64_t)1 << 40, INT64_MAX, UINT64_MAX};
    two_records(&s);
    for (int i = 0; i < MR_COUNT(n); i++) {
        uint32_t crc = mr_crc32c_mask(mr_crc32c(&n[i], 8));
        memcpy(s.p + 17, &n[i], 8);
        memcpy(s.p + 25, &crc, 4);
        MR_CHECK_ERR(read_second(mr_str_view(&s)), MR_DATA_LOSS,
                     i == 0 ? "truncated record at 17" : "record size too large");
    }
    mr_str_deinit(&s);
}

MR_TEST(record_of_bytes_that_do_not_decompress_is_data_loss)
{
    mr_stream *in;
    mr_str s = {0};
    MR_CHECK_OK(mr_stream_of_bytes(MR_SV("no stream of zlib's"), MR_ZLIB, &in));
    mr_record_reader *r = mr_record_reader_new(in);
    MR_CHECK_ERR(mr_record_read(r, &s), MR_DATA_LOSS, "inflate() failed with error -3");
    mr_record_reader_close(r);
    mr_str_deinit(&s);
}

/* A reader that came to the end reads on when the file has grown. */
MR_TEST(record_reader_follows_a_file_that_grows)
{
    char *path = path_of("log");
    mr_writer *f;
    mr_record_writer *w;
    mr_record_reader *r;
    mr_str s = {0};
    MR_CHECK_OK(mr_writer_open_append(path, &f));
    MR_CHECK_OK(mr_record_writer_new(f, MR_UNCOMPRESSED, &w));
    MR_CHECK_OK(mr_record_write(w, MR_SV("one")));
    MR_CHECK_OK(mr_record_flush(w));
    MR_CHECK_OK(mr_record_reader_open(path, MR_UNCOMPRESSED, 0, &r));
    MR_CHECK_OK(mr_record_read(r, &s));
    MR_CHECK_ERR(mr_record_read(r, &s), MR_OUT_OF_RANGE, "eof");
    MR_CHECK_OK(mr_record_write(w, MR_SV("two")));
    MR_CHECK_OK(mr_record_flush(w));
    MR_CHECK_OK(mr_record_read(r, &s));
    MR_CHECK_STR(mr_str_z(&s), "two");
    mr_record_reader_close(r);
    mr_record_writer_free(w);
    mr_writer_free(f);
    mr_str_deinit(&s);
    mr_free(path);
}

/* ---- streams ---- */

MR_TEST(stream_lines_end_at_newlines_and_have_no_carriage_returns)
{
    static const char *const lines[] = {"one", "", "two half", "last"};
    mr_stream *s;
    mr_str line = {0};
    MR_CHECK_OK(mr_stream_of_bytes(MR_SV("one\r\n\r\ntwo \rhalf\nlast"), MR_UNCOMPRESSED, &s));
    for (int i = 0; i < MR_COUNT(lines); i++) {
        MR_CHECK_OK(mr_stream_line(s, &line));
        MR_CHECK_STR(mr_str_z(&line), lines[i]);
    }
    MR_CHECK_ERR(mr_stream_line(s, &line), MR_OUT_OF_RANGE, "eof");
    mr_stream_close(s);
    mr_str_deinit(&line);
}

MR_TEST(stream_of_a_folder_or_nothing_is_an_error)
{
    mr_stream *s;
    MR_CHECK_ERR(mr_stream_open(mr_test_dir(), MR_UNCOMPRESSED, 0, &s), MR_FAILED_PRECONDITION,
                 "Is a directory");
    MR_CHECK_ERR(mr_stream_open("/nowhere/at/all", MR_UNCOMPRESSED, 0, &s), MR_NOT_FOUND, "/nowhere");
}

/* ---- golden files ---- */

/* Read and written again, each has the same bytes. */
static void check_copies(const char *golden, const char *const *files, int n_files)
{
    for (int i = 0; i < n_files; i++) {
        char *from = mr_printf("%s/%s", golden, files[i]), *to = path_of("copy");
        mr_record_reader *r;
        mr_writer *f;
        mr_record_writer *w;
        mr_status *st;
        mr_str s = {0}, a = {0}, b = {0};
        MR_CHECK_OK(mr_record_reader_open(from, MR_UNCOMPRESSED, 0, &r));
        MR_CHECK_OK(mr_writer_open(to, &f));
        MR_CHECK_OK(mr_record_writer_new(f, MR_UNCOMPRESSED, &w));
        while (!(st = mr_record_read(r, &s)))
            MR_CHECK_OK(mr_record_write(w, mr_str_view(&s)));
        MR_CHECK_ERR(st, MR_OUT_OF_RANGE, "eof");
        MR_CHECK_OK(mr_writer_commit(f));
        MR_CHECK_OK(mr_file_read_all(from, &a));
        MR_CHECK_OK(mr_file_read_all(to, &b));
        MR_CHECK(a.n > 0 && mr_sv_eq(mr_str_view(&a), mr_str_view(&b)));
        mr_record_reader_close(r);
        mr_record_writer_free(w);
        mr_writer_free(f);
        mr_str_deinit(&s);
        mr_str_deinit(&a);
        mr_str_deinit(&b);
        mr_free(from);
        mr_free(to);
    }
}

MR_TEST(record_golden_files_come_back_to_the_byte)
{
    static const char *const files[] = {"tfrecord/squares.tfrecord", "tfrecord/examples.tfrecord",
                                        "events/events.out.tfevents.1600000000.host"};
    check_copies(mr_test_golden(), files, MR_COUNT(files));
}

MR_TEST(record_golden_files_of_tensorflow_come_back_to_the_byte)
{
    static const char *const files[] = {"tfrecord/expected.tfrecord", "tfrecord/test.tfrecord",
                                        "events/events.out.tfevents.cifar"};
    check_copies(mr_test_tensorflow_golden(), files, MR_COUNT(files));
}

/* Record i has i * i bytes, byte j being j mod 251; the same file plain and compressed. */
MR_TEST(record_golden_files_hold_what_was_written)
{
    static const struct {
        const char *file;
        mr_compression how;
    } files[] = {{"squares.tfrecord", MR_UNCOMPRESSED}, {"squares.tfrecord.zlib", MR_ZLIB}, {"squares.tfrecord.gz", MR_GZIP}};
    for (int k = 0; k < MR_COUNT(files); k++) {
        char *path = mr_printf("%s/tfrecord/%s", mr_test_golden(), files[k].file);
        mr_record_reader *r;
        mr_str s = {0};
        MR_CHECK_OK(mr_record_reader_open(path, files[k].how, 0, &r));
        for (size_t i = 0; i < 40; i++) {
            MR_CHECK_OK(mr_record_read(r, &s));
            MR_CHECK_INT(s.n, i * i);
            for (size_t j = 0; j < s.n; j++)
                MR_CHECK_INT((uint8_t)s.p[j], j % 251);
        }
        MR_CHECK_ERR(mr_record_read(r, &s), MR_OUT_OF_RANGE, "eof");
        mr_record_reader_close(r);
        mr_str_deinit(&s);
        mr_free(path);
    }
}
