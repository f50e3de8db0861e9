/* base/writer_test.c -- files that appear whole or not at all, also when the disk fails midway. */
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "tests/harness/test.h"

static char path[600];

static const char *target(void)
{
    snprintf(path, sizeof(path), "%s/file", mr_test_dir());
    return path;
}

static void check_content(const char *want, size_t n)
{
    mr_str s = {0};
    MR_CHECK_OK(mr_file_read_all(target(), &s));
    MR_CHECK(mr_sv_eq(mr_str_view(&s), (mr_sv){want, n}));
    mr_str_deinit(&s);
}

static mr_status *count_one(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return NULL;
}

static int n_entries(void)
{
    int n = 0;
    MR_CHECK_OK(mr_dir_each(mr_test_dir(), count_one, &n));
    return n;
}

static mr_status *write_file(const char *bytes, size_t n)
{
    mr_writer *w = NULL;
    mr_status *st = NULL;
    MR_GO(mr_writer_open(target(), &w));
    MR_GO(mr_writer_write(w, bytes, n));
    MR_GO(mr_writer_commit(w));
out:
    mr_writer_free(w);
    return st;
}

MR_TEST(writer_shows_nothing_before_commit)
{
    mr_writer *w;
    MR_CHECK_OK(mr_writer_open(target(), &w));
    MR_CHECK_OK(mr_writer_write(w, "abc", 3));
    MR_CHECK_OK(mr_writer_flush(w));
    MR_CHECK_INT(mr_writer_offset(w), 3);
    MR_CHECK(!mr_file_exists(target()));
    MR_CHECK_OK(mr_writer_commit(w));
    check_content("abc", 3);
    MR_CHECK_ERR(mr_writer_write(w, "d", 1), MR_FAILED_PRECONDITION, "already committed");
    MR_CHECK_ERR(mr_writer_commit(w), MR_FAILED_PRECONDITION, "already committed");
    mr_writer_free(w);
    MR_CHECK_INT(n_entries(), 1);
}

MR_TEST(writer_without_commit_leaves_the_old_file)
{
    mr_writer *w;
    MR_CHECK_OK(write_file("old", 3));
    MR_CHECK_OK(mr_writer_open(target(), &w));
    MR_CHECK_OK(mr_writer_write(w, "new", 3));
    MR_CHECK_OK(mr_writer_flush(w));
    mr_writer_free(w);
    mr_writer_free(NULL);
    check_content("old", 3);
    MR_CHECK_INT(n_entries(), 1);
}

MR_TEST(writer_writes_pieces_of_all_sizes)
{
    static char all[1500000];
    mr_writer *w;
    size_t at = 0;
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)(i * 7 + i / 251);
    MR_CHECK_OK(mr_writer_open(target(), &w));
    while (at < sizeof(all)) {
        size_t n = (size_t)(mr_test_random() % (mr_test_random() % 4 ? 1000 : 600000));
        n = MR_MIN(n, sizeof(all) - at);
        MR_CHECK_OK(mr_writer_write(w, all + at, n));
        at += n;
        MR_CHECK_INT(mr_writer_offset(w), at);
    }
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    check_content(all, sizeof(all));
}

MR_TEST(writer_append_goes_on_where_the_file_ends)
{
    mr_writer *w;
    MR_CHECK_OK(mr_writer_open_append(target(), &w));
    MR_CHECK_OK(mr_writer_write(w, "ab", 2));
    MR_CHECK_OK(mr_writer_commit(w));
    check_content("ab", 2);
    MR_CHECK_OK(mr_writer_write(w, "cd", 2));
    MR_CHECK_OK(mr_writer_commit(w)); /* may go on and sync again */
    mr_writer_free(w);
    MR_CHECK_OK(mr_writer_open_append(target(), &w));
    MR_CHECK_INT(mr_writer_offset(w), 4);
    MR_CHECK_OK(mr_writer_write(w, "e", 1));
    mr_writer_free(w); /* writes what is gathered */
    check_content("abcde", 5);
}

MR_TEST(writer_open_says_why_it_cannot)
{
    mr_writer *w;
    char *none = mr_printf("%s/none/file", mr_test_dir());
    MR_CHECK_ERR(mr_writer_open(none, &w), MR_NOT_FOUND, "none/file");
    MR_CHECK_ERR(mr_writer_open_append(none, &w), MR_NOT_FOUND, "none/file");
    MR_CHECK_ERR(mr_writer_open_append(mr_test_dir(), &w), MR_FAILED_PRECONDITION, "directory");
    mr_free(none);
}

MR_TEST(writer_open_without_memory_leaves_nothing_behind)
{
    mr_writer *w;
    target();
    mr_memory_fail_after(1);
    mr_status *st = mr_writer_open(path, &w);
    for (int i = 2; !st && i < 10; i++) { /* earlier ones have a second try */
        mr_writer_free(w);
        mr_memory_fail_after(i);
        st = mr_writer_open(path, &w);
    }
    mr_memory_fail_after(0);
    MR_CHECK_ERR(st, MR_RESOURCE_EXHAUSTED, "memory");
    MR_CHECK_INT(n_entries(), 0);
}

/* A disk that is full after n bytes: for each n the old file or the new one is there, whole, and no
 * temporary one. */
MR_TEST(writer_survives_a_disk_that_fails_at_any_byte)
{
    static char big[300000];
    memset(big, 'n', sizeof(big));
    MR_CHECK_OK(write_file("old", 3));
    int n_failed = 0;
    const int64_t size = sizeof(big);
    for (int64_t n = 0; n < size + 5; n += (n > 10 && n < size - 10) ? 7001 : 1) {
        mr_file_fail_after(n, ENOSPC);
        mr_status *st = write_file(big, sizeof(big));
        mr_file_fail_after(0, 0);
        MR_CHECK_INT(n_entries(), 1);
        if (st && n < size + 2) /* the rename did not happen */
            check_content("old", 3);
        else
            check_content(big, sizeof(big));
        if (st) {
            n_failed++;
            MR_CHECK_ERR(st, MR_RESOURCE_EXHAUSTED, "No space left");
            MR_CHECK_OK(write_file("old", 3));
        }
    }
    MR_CHECK(n_failed > 50);
    MR_CHECK_OK(write_file(big, sizeof(big)));
}

MR_TEST(writer_keeps_its_first_error)
{
    mr_writer *w;
    MR_CHECK_OK(mr_writer_open(target(), &w));
    MR_CHECK_OK(mr_writer_write(w, "abc", 3));
    mr_file_fail_after(0, EIO);
    MR_CHECK_ERR(mr_writer_flush(w), MR_UNKNOWN, "write");
    mr_file_fail_after(0, 0);
    MR_CHECK_ERR(mr_writer_write(w, "d", 1), MR_UNKNOWN, "Input/output error");
    MR_CHECK_ERR(mr_writer_commit(w), MR_UNKNOWN, "Input/output error");
    mr_writer_free(w);
    MR_CHECK_INT(n_entries(), 0);
}

MR_TEST(writer_goes_on_after_signals_and_short_writes)
{
    for (int64_t n = 0; n < 10; n++) { /* interrupted at each byte, the sync and the rename */
        mr_file_fail_after(n, EINTR);
        MR_CHECK_OK(write_file("abcdef", 6));
        mr_file_fail_after(0, 0);
        check_content("abcdef", 6);
    }
}

MR_TEST(file_rename_reports_a_failing_disk)
{
    MR_CHECK_OK(write_file("abc", 3));
    char *to = mr_printf("%s/to", mr_test_dir());
    mr_file_fail_after(0, EIO);
    MR_CHECK_ERR(mr_file_rename(target(), to), MR_UNKNOWN, "(to ");
    mr_file_fail_after(1, EIO); /* the sync of the directory */
    MR_CHECK_ERR(mr_file_rename(target(), to), MR_UNKNOWN, "sync directory");
    mr_file_fail_after(0, 0);
    mr_free(to);
}

/* Writes until it is killed: the file's bytes are all the same number. */
static void write_forever(void)
{
    static char all[400000];
    for (int i = 1;; i++) {
        memset(all, i, sizeof(all));
        mr_status_free(write_file(all, sizeof(all)));
    }
}

MR_TEST(writer_killed_at_any_instant_leaves_a_whole_file)
{
    static char zeros[400000];
    MR_CHECK_OK(write_file(zeros, sizeof(zeros)));
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        MR_CHECK(pid >= 0);
        if (pid == 0)
            write_forever();
        mr_sleep_ns((int64_t)(mr_test_random() % 5000000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        mr_str s = {0};
        MR_CHECK_OK(mr_file_read_all(target(), &s));
        MR_CHECK_INT(s.n, sizeof(zeros));
        for (size_t at = 1; at < s.n; at++)
            MR_CHECK_INT(s.p[at], s.p[0]);
        mr_str_deinit(&s);
    }
}
