/* store/lmdb_test.c -- reading LMDB files that liblmdb wrote, whole and damaged. */
#include "store/lmdb.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "store/lmdb_writer_fixture.h"
#include "tests/harness/test.h"

static char *in_dir(const char *name) { return mr_printf("%s/%s", mr_test_dir(), name); }

/* All records as "key=value " up to a status, whose code follows; long values are their length. */
static void read_all(const char *path, mr_str *out)
{
    mr_lmdb *l = NULL;
    mr_sv k, v;
    bool end = false;
    mr_status *st = mr_lmdb_open(path, &l);
    while (!st && !end) {
        st = mr_lmdb_next(l, &k, &v, &end);
        if (!st && !end && v.n > 20)
            mr_str_printf(out, "%.*s=%zu*%c ", MR_SV_ARG(k), v.n, v.p[v.n - 1]);
        else if (!st && !end)
            mr_str_printf(out, "%.*s=%.*s ", MR_SV_ARG(k), MR_SV_ARG(v));
    }
    if (st)
        mr_str_printf(out, "!%s %s", mr_code_name(mr_status_code(st)), mr_status_message(st));
    mr_status_free(st);
    mr_lmdb_close(l);
}

static void check_reads(const char *path, const char *expected)
{
    mr_str got = {0};
    read_all(path, &got);
    MR_CHECK_STR(mr_str_z(&got), expected);
    mr_str_deinit(&got);
}

static void check_fails(const char *path, const char *expected)
{
    mr_str got = {0};
    read_all(path, &got);
    if (!strstr(mr_str_z(&got), expected))
        mr_test_fail(__FILE__, __LINE__, "'%s' is not in '%s'", expected, mr_str_z(&got));
    mr_str_deinit(&got);
}

MR_TEST(lmdb_reads_records_in_the_order_of_keys)
{
    mr_lmdb_writer w;
    char *path = in_dir("data.mdb"), big[9000];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 'z';
    mr_lmdb_writer_open(&w, path, 0);
    mr_lmdb_put(&w, MR_SV("b"), MR_SV("two"));
    mr_lmdb_put(&w, MR_SV("a"), MR_SV("one"));
    mr_lmdb_commit(&w, true);
    mr_lmdb_put(&w, MR_SV("c"), (mr_sv){big, sizeof big});
    mr_lmdb_put(&w, MR_SV("d"), MR_SV(""));
    mr_lmdb_commit(&w, false);
    mr_lmdb_writer_close(&w);
    check_reads(path, "a=one b=two c=9000*z d= ");
    check_reads(mr_test_dir(), "a=one b=two c=9000*z d= "); /* the folder of data.mdb */
    mr_free(path);
}

/* Enough records for a tree of three levels. */
MR_TEST(lmdb_reads_trees_of_many_pages)
{
    enum { N = 20000 };
    mr_lmdb_writer w;
    char *path = in_dir("many");
    mr_lmdb_writer_open(&w, path, 0);
    for (int i = 0; i < N; i++) {
        char key[20], value[60];
        snprintf(key, sizeof key, "%08d", i * 7919 % N);
        snprintf(value, sizeof value, "%050d", i * 7919 % N);
        mr_lmdb_put(&w, mr_sv_of(key), mr_sv_of(value));
    }
    mr_lmdb_commit(&w, false);
    mr_lmdb_writer_close(&w);
    mr_lmdb *l;
    mr_sv k, v;
    bool end;
    MR_CHECK_OK(mr_lmdb_open(path, &l));
    for (int i = 0; i < N; i++) {
        char key[20];
        snprintf(key, sizeof key, "%08d", i);
        MR_CHECK_OK(mr_lmdb_next(l, &k, &v, &end));
        MR_CHECK(!end && mr_sv_is(k, key) && v.n == 50 && memcmp(v.p + 42, key, 8) == 0);
    }
    MR_CHECK_OK(mr_lmdb_next(l, &k, &v, &end));
    MR_CHECK(end);
    mr_lmdb_close(l);
    mr_free(path);
}

/* An error, never the end of the data: to a dataset, OUT_OF_RANGE means the end. */
MR_TEST(lmdb_refuses_a_file_that_shrinks)
{
    mr_lmdb_writer w;
    mr_lmdb *l;
    mr_sv k, v;
    bool end;
    char *path = in_dir("shrinks"), key[20];
    mr_lmdb_writer_open(&w, path, 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "%08d", i);
        mr_lmdb_put(&w, mr_sv_of(key), MR_SV("value"));
    }
    mr_lmdb_commit(&w, false);
    mr_lmdb_writer_close(&w);
    MR_CHECK_OK(mr_lmdb_open(path, &l)); /* which reads the root, a branch */
    MR_CHECK_INT(truncate(path, 100), 0);
    MR_CHECK_ERR(mr_lmdb_next(l, &k, &v, &end), MR_INVALID_ARGUMENT, "shrinks");
    mr_lmdb_close(l);
    mr_free(path);
}

static void write_duplicates(const char *path, int flags, int n)
{
    mr_lmdb_writer w;
    mr_lmdb_writer_open(&w, path, flags);
    for (int i = n - 1; i >= 0; i--) {
        char value[20];
        snprintf(value, sizeof value, "%04d", i);
        mr_lmdb_put(&w, MR_SV("k"), mr_sv_of(value));
    }
    mr_lmdb_put(&w, MR_SV("one"), MR_SV("0000"));
    mr_lmdb_commit(&w, false);
    mr_lmdb_writer_close(&w);
}

/* Few duplicates are a page inside the leaf, many are a tree; duplicates of one size have no offsets. */
MR_TEST(lmdb_reads_every_duplicate)
{
    static const struct { const char *name; int flags, n; } files[] = {
        {"few", MR_LMDB_DUPLICATES, 3}, {"many", MR_LMDB_DUPLICATES, 2000},
        {"few_fixed", MR_LMDB_DUPLICATES | MR_LMDB_FIXED, 3}, {"many_fixed", MR_LMDB_DUPLICATES | MR_LMDB_FIXED, 2000}};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char *path = in_dir(files[f].name);
        mr_str expected = {0};
        write_duplicates(path, files[f].flags, files[f].n);
        for (int i = 0; i < files[f].n; i++)
            mr_str_printf(&expected, "k=%04d ", i);
        mr_str_appendz(&expected, "one=0000 ");
        check_reads(path, mr_str_z(&expected));
        mr_str_deinit(&expected);
        mr_free(path);
    }
}

MR_TEST(lmdb_reads_empty_files_and_named_databases)
{
    mr_lmdb_writer w;
    char *empty = in_dir("empty"), *named = in_dir("named");
    mr_lmdb_writer_open(&w, empty, 0);
    mr_lmdb_commit(&w, false);
    mr_lmdb_writer_close(&w);
    check_reads(empty, "");
    mr_lmdb_writer_open(&w, named, 0);
    mr_lmdb_put(&w, MR_SV("a"), MR_SV("1"));
    mr_lmdb_put_database(&w, "db");
    mr_lmdb_commit(&w, false);
    mr_lmdb_writer_close(&w);
    mr_str got = {0};
    read_all(named, &got);
    MR_CHECK(strncmp(mr_str_z(&got), "a=1 db=48*", 10) == 0); /* its description, as a cursor gives it */
    mr_str_deinit(&got);
    mr_free(empty);
    mr_free(named);
}

MR_TEST(lmdb_refuses_what_is_no_such_file)
{
    char *path = in_dir("f");
    check_fails(path, "!INVALID_ARGUMENT");
    check_fails(mr_test_dir(), "No such file or directory");
    MR_CHECK_OK(mr_file_write_all(path, MR_SV("")));
    check_fails(path, "!INVALID_ARGUMENT No such file or directory");
    MR_CHECK_OK(mr_file_write_all(path, MR_SV("not a database")));
    check_fails(path, "!INVALID_ARGUMENT MDB_INVALID: File is not an LMDB file");
    mr_free(path);
}

/* Whichever byte is wrong, the file is read to its end or refused. */
MR_TEST(lmdb_survives_any_damaged_byte)
{
    char *path = in_dir("whole"), *damaged = in_dir("damaged");
    mr_str bytes = {0}, got = {0};
    write_duplicates(path, MR_LMDB_DUPLICATES, 3);
    MR_CHECK_OK(mr_file_read_all(path, &bytes));
    MR_CHECK_OK(mr_file_write_all(damaged, mr_str_view(&bytes)));
    int fd = open(damaged, O_WRONLY | O_CLOEXEC); /* byte by byte: mr_file_write_all waits for the disk each time */
    for (size_t i = 0; i < bytes.n; i++) {
        if (i % 4096 > 200 && i % 4096 < 3900) /* the middle of these pages is empty */
            continue;
        char wrong = (char)(bytes.p[i] ^ (i % 3 == 0 ? 0xff : 1 << i % 8));
        MR_CHECK_INT(pwrite(fd, &wrong, 1, (off_t)i), 1);
        read_all(damaged, &got);
        mr_str_clear(&got);
        MR_CHECK_INT(pwrite(fd, bytes.p + i, 1, (off_t)i), 1);
    }
    close(fd);
    for (size_t n = 0; n < bytes.n; n += 500) {
        MR_CHECK_OK(mr_file_write_all(damaged, (mr_sv){bytes.p, n}));
        check_fails(damaged, "!INVALID_ARGUMENT");
    }
    mr_str_deinit(&bytes);
    mr_str_deinit(&got);
    mr_free(path);
    mr_free(damaged);
}
