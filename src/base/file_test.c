/* base/file_test.c -- reading and directories; writing is in writer_test.c. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "tests/harness/test.h"

/* A path in the test's folder; lives until the next four calls. */
static const char *in_dir(const char *name)
{
    static char *kept[4];
    static int next;
    mr_free(kept[next & 3]);
    return kept[next++ & 3] = mr_printf("%s/%s", mr_test_dir(), name);
}

static void put(const char *path, const char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MR_CHECK(fd >= 0);
    MR_CHECK_INT(write(fd, bytes, n), n);
    close(fd);
}

MR_TEST(file_errors_name_the_path_and_the_reason)
{
    MR_CHECK_ERR(mr_errno_status(ENOENT, "open", "/x"), MR_NOT_FOUND,
                 "open /x: No such file or directory");
    MR_CHECK_ERR(mr_errno_status(ENOSPC, "a", "b"), MR_RESOURCE_EXHAUSTED, "No space");
    MR_CHECK_ERR(mr_errno_status(EACCES, "a", "b"), MR_PERMISSION_DENIED, "denied");
    MR_CHECK_ERR(mr_errno_status(EEXIST, "a", "b"), MR_ALREADY_EXISTS, "exists");
    MR_CHECK_ERR(mr_errno_status(EIO, "a", "b"), MR_UNKNOWN, "Input/output");
    MR_CHECK_ERR(mr_errno_status(12345, "a", "b"), MR_UNKNOWN, "12345");
}

MR_TEST(file_read_all_appends_every_byte)
{
    mr_str s = {0};
    const char *path = in_dir("f");
    put(path, "a\0b", 3);
    mr_str_appendz(&s, "x");
    MR_CHECK_OK(mr_file_read_all(path, &s));
    MR_CHECK(mr_sv_eq(mr_str_view(&s), (mr_sv){"xa\0b", 4}));
    char *uri = mr_printf("file://%s", path);
    mr_str_clear(&s);
    MR_CHECK_OK(mr_file_read_all(uri, &s));
    MR_CHECK_INT(s.n, 3);
    mr_free(uri);
    mr_str_deinit(&s);
}

MR_TEST(file_read_all_reads_files_that_say_they_are_empty)
{
    mr_str s = {0};
    MR_CHECK_OK(mr_file_read_all("/proc/self/status", &s));
    MR_CHECK(s.n > 100);
    mr_str_deinit(&s);
}

MR_TEST(file_read_all_is_all_or_nothing)
{
    mr_str s = {0};
    static char big[100000];
    const char *path = in_dir("big");
    put(path, big, sizeof(big));
    mr_str_appendz(&s, "kept");
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_file_read_all(path, &s), MR_RESOURCE_EXHAUSTED, "no memory for 16388 bytes");
    MR_CHECK_STR(mr_str_z(&s), "kept");
    MR_CHECK_ERR(mr_file_read_all(in_dir("none"), &s), MR_NOT_FOUND, "none");
    MR_CHECK_ERR(mr_file_read_all(mr_test_dir(), &s), MR_FAILED_PRECONDITION, "directory");
    mr_str_deinit(&s);
}

MR_TEST(file_read_at_gives_all_bytes_or_out_of_range)
{
    char buf[8] = {0};
    mr_file *f;
    put(in_dir("f"), "0123456789", 10);
    MR_CHECK_OK(mr_file_open(in_dir("f"), &f));
    MR_CHECK_INT(mr_file_bytes(f), 10);
    MR_CHECK(strstr(mr_file_path(f), "/f") != NULL);
    MR_CHECK_OK(mr_file_read_at(f, 7, 3, buf));
    MR_CHECK_STR(buf, "789");
    MR_CHECK_OK(mr_file_read_at(f, 10, 0, buf));
    MR_CHECK_ERR(mr_file_read_at(f, 8, 3, buf), MR_OUT_OF_RANGE, "3 bytes at 8");
    MR_CHECK_ERR(mr_file_read_at(f, UINT64_MAX, 3, buf), MR_OUT_OF_RANGE, "past the end");
    MR_CHECK_ERR(mr_file_read_at(f, INT64_MAX, 8, buf), MR_OUT_OF_RANGE, "past the end");
    mr_file_close(f);
    mr_file_close(NULL);
}

MR_TEST(file_open_refuses_directories_and_absent_files)
{
    mr_file *f;
    MR_CHECK_ERR(mr_file_open(mr_test_dir(), &f), MR_FAILED_PRECONDITION, "directory");
    MR_CHECK_ERR(mr_file_open(in_dir("none"), &f), MR_NOT_FOUND, "none");
}

MR_TEST(file_exists_size_remove)
{
    uint64_t bytes = 0;
    put(in_dir("f"), "abc", 3);
    MR_CHECK(mr_file_exists(in_dir("f")) && !mr_dir_exists(in_dir("f")));
    MR_CHECK_OK(mr_file_size(in_dir("f"), &bytes));
    MR_CHECK_INT(bytes, 3);
    MR_CHECK_OK(mr_file_remove(in_dir("f")));
    MR_CHECK(!mr_file_exists(in_dir("f")));
    MR_CHECK_ERR(mr_file_remove(in_dir("f")), MR_NOT_FOUND, "remove");
    MR_CHECK_ERR(mr_file_size(in_dir("f"), &bytes), MR_NOT_FOUND, "stat");
}

MR_TEST(dir_make_creates_parents_and_accepts_existing_ones)
{
    MR_CHECK_OK(mr_dir_make(in_dir("a/b//c/")));
    MR_CHECK_OK(mr_dir_make(in_dir("a/b/c")));
    MR_CHECK(mr_dir_exists(in_dir("a/b/c")));
    MR_CHECK_OK(mr_dir_make("/"));
    put(in_dir("file"), "", 0);
    MR_CHECK_ERR(mr_dir_make(in_dir("file")), MR_FAILED_PRECONDITION, "Not a directory");
    MR_CHECK_ERR(mr_dir_make(in_dir("file/x")), MR_FAILED_PRECONDITION, "Not a directory");
    MR_CHECK_ERR(mr_dir_make(""), MR_NOT_FOUND, "");
    MR_CHECK_ERR(mr_dir_remove(in_dir("a")), MR_FAILED_PRECONDITION, "not empty");
    MR_CHECK_OK(mr_dir_remove(in_dir("a/b/c")));
}

static mr_status *count_entry(void *ctx, const char *name)
{
    MR_CHECK(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
    return ++*(int *)ctx == 3 ? mr_error(MR_ABORTED, "enough") : NULL;
}

MR_TEST(dir_each_visits_entries_until_told_to_stop)
{
    int n = 0;
    put(in_dir("x"), "", 0);
    put(in_dir("y"), "", 0);
    MR_CHECK_OK(mr_dir_each(mr_test_dir(), count_entry, &n));
    MR_CHECK_INT(n, 2);
    MR_CHECK_ERR(mr_dir_each(mr_test_dir(), count_entry, &n), MR_ABORTED, "enough");
    MR_CHECK_INT(n, 3);
    MR_CHECK_ERR(mr_dir_each(in_dir("none"), count_entry, &n), MR_NOT_FOUND, "none");
}

MR_TEST(path_dirname_and_basename)
{
    static const char *const cases[][3] = {
        {"a", "", "a"},    {"a/b", "a", "b"},   {"/a", "/", "a"},
        {"/", "/", ""},    {"a/b/", "a/b", ""}, {"a//b", "a", "b"},
        {"//a", "/", "a"}, {"", "", ""},        {"/a/b/c", "/a/b", "c"},
    };
    for (int i = 0; i < MR_COUNT(cases); i++) {
        MR_CHECK(mr_sv_is(mr_path_dirname(cases[i][0]), cases[i][1]));
        MR_CHECK(mr_sv_is(mr_path_basename(cases[i][0]), cases[i][2]));
    }
}

MR_TEST(file_rename_replaces)
{
    mr_str s = {0};
    put(in_dir("from"), "new", 3);
    put(in_dir("to"), "old", 3);
    MR_CHECK_OK(mr_file_rename(in_dir("from"), in_dir("to")));
    MR_CHECK_OK(mr_file_read_all(in_dir("to"), &s));
    MR_CHECK_STR(mr_str_z(&s), "new");
    MR_CHECK_ERR(mr_file_rename(in_dir("from"), in_dir("to")), MR_NOT_FOUND, "from");
    mr_str_deinit(&s);
}

/* ---- pipes and devices ---- */

static bool asked_thrice(const void *arg) { return ++*(int *)(uintptr_t)arg == 3; }

MR_TEST(file_fifo_without_a_writer_can_be_given_up)
{
    int asked = 0;
    mr_str s = {0};
    mr_file *f;
    MR_CHECK_INT(mkfifo(in_dir("fifo"), 0600), 0);
    mr_stop before = mr_stop_swap((mr_stop){asked_thrice, &asked});
    MR_CHECK_ERR(mr_file_read_all(in_dir("fifo"), &s), MR_CANCELLED, "fifo");
    MR_CHECK_INT(asked, 3);
    MR_CHECK_ERR(mr_file_open(in_dir("fifo"), &f), MR_INVALID_ARGUMENT, "fifo"); /* at once */
    asked = 0;
    mr_writer *w;
    MR_CHECK_ERR(mr_writer_open(in_dir("fifo"), &w), MR_CANCELLED, "fifo");
    asked = 0;
    MR_CHECK_ERR(mr_writer_open_append(in_dir("fifo"), &w), MR_CANCELLED, "fifo");
    mr_stop_swap(before);
    mr_str_deinit(&s);
}

static void write_thrice(void *path)
{
    mr_writer *w;
    char big[100000]; /* more than a pipe holds */
    memset(big, 'x', sizeof(big));
    MR_CHECK_OK(mr_writer_open(path, &w));
    for (int i = 0; i < 3; i++) {
        MR_CHECK_OK(mr_writer_write(w, big, sizeof(big)));
        MR_CHECK_OK(mr_writer_flush(w));
    }
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
}

MR_TEST(file_fifo_is_read_until_its_writer_closes_it)
{
    mr_thread t;
    mr_str s = {0};
    struct stat info;
    const char *path = in_dir("fifo");
    MR_CHECK_INT(mkfifo(path, 0600), 0);
    MR_CHECK_INT(mr_thread_start(&t, "writer", write_thrice, (void *)(uintptr_t)path), 0);
    MR_CHECK_OK(mr_file_read_all(path, &s));
    mr_thread_join(&t);
    MR_CHECK_INT(s.n, 300000);
    MR_CHECK(stat(path, &info) == 0 && S_ISFIFO(info.st_mode)); /* written into, not replaced */
    mr_str_deinit(&s);
}

MR_TEST(file_write_into_a_pipe_that_nobody_reads_is_an_error)
{
    int ends[2];
    char name[64];
    mr_writer *w;
    MR_CHECK_INT(pipe(ends), 0);
    snprintf(name, sizeof(name), "/dev/fd/%d", ends[1]);
    MR_CHECK_OK(mr_writer_open(name, &w));
    close(ends[0]);
    MR_CHECK_OK(mr_writer_write(w, "abc", 3)); /* it is gathered */
    MR_CHECK_ERR(mr_writer_flush(w), MR_FAILED_PRECONDITION, "write");
    mr_writer_free(w);
    close(ends[1]);
}

static void close_lease(void *fd)
{
    mr_sleep_ns(20000000);
    close(*(int *)fd);
}

/* The kernel reports the conflict to the holder of the lease by a signal; SIGURG is ignored by default. */
MR_TEST(file_is_opened_once_another_process_gives_up_its_lease)
{
    mr_str s = {0};
    mr_thread t;
    mr_writer *w;
    put(in_dir("leased"), "abc", 3);
    for (int i = 0; i < 2; i++) {
        int fd = open(in_dir("leased"), O_RDWR | O_CLOEXEC);
        bool leased = fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0; /* not everywhere */
        MR_CHECK_INT(mr_thread_start(&t, "holder", close_lease, &fd), 0);
        if (leased && i == 0)
            MR_CHECK_OK(mr_file_read_all(in_dir("leased"), &s));
        if (leased && i == 1) {
            MR_CHECK_OK(mr_writer_open_append(in_dir("leased"), &w));
            mr_writer_free(w);
        }
        mr_thread_join(&t);
    }
    mr_str_deinit(&s);
}

/* As a shell's <(command) does: the writer is gone before the reader opens the pipe again by name. */
MR_TEST(file_pipe_of_a_process_that_has_ended_is_read)
{
    int ends[2];
    mr_str s = {0};
    char name[64];
    MR_CHECK_INT(pipe(ends), 0);
    MR_CHECK_INT(write(ends[1], "abc", 3), 3);
    close(ends[1]);
    snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
    MR_CHECK_OK(mr_file_read_all(name, &s));
    MR_CHECK_STR(mr_str_z(&s), "abc");
    close(ends[0]);
    mr_str_deinit(&s);
}

MR_TEST(file_device_without_an_end_is_refused)
{
    mr_str s = {0};
    mr_writer *w;
    MR_CHECK_ERR(mr_file_read_all("/dev/zero", &s), MR_RESOURCE_EXHAUSTED, "/dev/zero: it has more than");
    MR_CHECK_OK(mr_file_read_all("/dev/null", &s));
    MR_CHECK_OK(mr_file_read_all("/proc/self/stat", &s)); /* says that it has 0 bytes */
    MR_CHECK(s.n > 0);
    MR_CHECK_OK(mr_writer_open("/dev/null", &w));
    MR_CHECK_OK(mr_writer_write(w, "abc", 3));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    mr_str_deinit(&s);
}

MR_TEST(file_larger_than_memory_is_refused)
{
    mr_str s = {0};
    put(in_dir("sparse"), "", 0);
    if (truncate(in_dir("sparse"), (off_t)1 << 43) != 0)
        return; /* a file system with small files */
    MR_CHECK_ERR(mr_file_read_all(in_dir("sparse"), &s), MR_RESOURCE_EXHAUSTED, "memory");
    mr_str_deinit(&s);
}
