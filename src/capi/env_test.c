/* capi/env_test.c */
#include "tensorflow/c/env.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "capi/internal.h"
#include "tests/harness/test.h"

static TF_Status *status;

/* A path in the test's own folder, in one of a few buffers taken in turn. */
static const char *at(const char *name)
{
    static char paths[4][512];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof(paths[0]), "%s/%s", mr_test_dir(), name);
    return p;
}

static void begin(void)
{
    status = TF_NewStatus();
}

#define CHECK_CODE(code) MR_CHECK_INT(TF_GetCode(status), code)

static void write_file(const char *path, const char *text)
{
    TF_WritableFileHandle *f;
    TF_NewWritableFile(path, &f, status);
    CHECK_CODE(TF_OK);
    TF_AppendWritableFile(f, text, strlen(text), status);
    CHECK_CODE(TF_OK);
    TF_CloseWritableFile(f, status);
    CHECK_CODE(TF_OK);
}

static void check_file(const char *path, const char *want)
{
    mr_str got = {0};
    MR_CHECK_OK(mr_file_read_all(path, &got));
    MR_CHECK_STR(mr_str_z(&got), want);
    mr_str_deinit(&got);
}

/* ---- directories and files ---- */

MR_TEST(capi_env_create_dir_makes_one_level)
{
    begin();
    TF_CreateDir(at("a"), status);
    CHECK_CODE(TF_OK);
    MR_CHECK(mr_dir_exists(at("a")));
    TF_CreateDir(at("a"), status);
    CHECK_CODE(TF_ALREADY_EXISTS);
    TF_CreateDir(at("b/c"), status);
    CHECK_CODE(TF_NOT_FOUND);
}

MR_TEST(capi_env_delete_dir_wants_an_empty_one)
{
    begin();
    TF_CreateDir(at("a"), status);
    write_file(at("a/x"), "x");
    TF_DeleteDir(at("a"), status);
    CHECK_CODE(TF_FAILED_PRECONDITION);
    TF_DeleteFile(at("a/x"), status);
    CHECK_CODE(TF_OK);
    TF_DeleteDir(at("a"), status);
    CHECK_CODE(TF_OK);
    TF_DeleteDir(at("a"), status);
    CHECK_CODE(TF_NOT_FOUND);
}

MR_TEST(capi_env_accepts_the_file_scheme)
{
    char url[600];
    begin();
    snprintf(url, sizeof(url), "file://%s", at("a"));
    TF_CreateDir(url, status);
    CHECK_CODE(TF_OK);
    MR_CHECK(mr_dir_exists(at("a")));
}

MR_TEST(capi_env_no_path_is_an_error)
{
    TF_FileStatistics stats;
    TF_WritableFileHandle *f;
    int64_t files, dirs;
    begin();
    TF_CreateDir(NULL, status);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    TF_DeleteDir(NULL, status);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    TF_DeleteFile(NULL, status);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    TF_FileStat(NULL, &stats, status);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    TF_DeleteRecursively(NULL, &files, &dirs, status);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    TF_NewWritableFile(NULL, &f, status);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    MR_CHECK(f == NULL);
    MR_CHECK(TF_GetChildren(NULL, status) == NULL);
    CHECK_CODE(TF_INVALID_ARGUMENT);
}

MR_TEST(capi_env_stat_tells_size_kind_and_time)
{
    TF_FileStatistics stats;
    begin();
    write_file(at("x"), "12345");
    TF_FileStat(at("x"), &stats, status);
    CHECK_CODE(TF_OK);
    MR_CHECK_INT(stats.length, 5);
    MR_CHECK(!stats.is_directory);
    struct stat info;
    MR_CHECK_INT(stat(at("x"), &info), 0);
    MR_CHECK_INT(stats.mtime_nsec,
                 (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec);
    TF_FileStat(mr_test_dir(), &stats, status);
    MR_CHECK(stats.is_directory);
    TF_FileStat(at("none"), &stats, status);
    CHECK_CODE(TF_NOT_FOUND);
}

MR_TEST(capi_env_file_appears_at_once_and_flush_shows_its_bytes)
{
    TF_WritableFileHandle *f;
    begin();
    write_file(at("x"), "old and longer");
    TF_NewWritableFile(at("x"), &f, status);
    check_file(at("x"), "");
    TF_AppendWritableFile(f, "ab", 2, status);
    TF_AppendWritableFile(f, NULL, 0, status);
    CHECK_CODE(TF_OK);
    TF_FlushWritableFile(f, status);
    CHECK_CODE(TF_OK);
    check_file(at("x"), "ab");
    TF_AppendWritableFile(f, "c", 1, status);
    TF_SyncWritableFile(f, status);
    CHECK_CODE(TF_OK);
    check_file(at("x"), "abc");
    TF_AppendWritableFile(f, "d", 1, status);
    TF_CloseWritableFile(f, status);
    CHECK_CODE(TF_OK);
    check_file(at("x"), "abcd");
}

MR_TEST(capi_env_file_that_cannot_be_opened)
{
    TF_WritableFileHandle *f;
    begin();
    TF_NewWritableFile(at("none/x"), &f, status);
    CHECK_CODE(TF_NOT_FOUND);
    MR_CHECK(f == NULL);
    TF_NewWritableFile(mr_test_dir(), &f, status);
    CHECK_CODE(TF_FAILED_PRECONDITION);
    TF_AppendWritableFile(f, "x", 1, status);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    TF_CloseWritableFile(f, status);
    CHECK_CODE(TF_OK);
}

MR_TEST(capi_env_full_disk_is_told)
{
    TF_WritableFileHandle *f;
    begin();
    if (access("/dev/full", W_OK) != 0)
        mr_test_skip("no /dev/full here");
    TF_NewWritableFile("/dev/full", &f, status);
    CHECK_CODE(TF_OK);
    TF_AppendWritableFile(f, "x", 1, status);
    TF_FlushWritableFile(f, status);
    CHECK_CODE(TF_RESOURCE_EXHAUSTED);
    TF_CloseWritableFile(f, status);
}

/* ---- whole trees ---- */

MR_TEST(capi_env_delete_recursively_removes_all_but_follows_no_link)
{
    int64_t files = -1, dirs = -1;
    begin();
    TF_CreateDir(at("kept"), status);
    write_file(at("kept/x"), "x");
    TF_CreateDir(at("a"), status);
    TF_CreateDir(at("a/b"), status);
    write_file(at("a/b/x"), "x");
    write_file(at("a/y"), "y");
    MR_CHECK_INT(symlink(at("kept"), at("a/link")), 0);
    TF_DeleteRecursively(at("a"), &files, &dirs, status);
    CHECK_CODE(TF_OK);
    MR_CHECK_INT(files, 0);
    MR_CHECK_INT(dirs, 0);
    MR_CHECK(!mr_file_exists(at("a")));
    check_file(at("kept/x"), "x");
}

MR_TEST(capi_env_delete_recursively_of_nothing_is_not_found)
{
    int64_t files = -1, dirs = -1;
    begin();
    TF_DeleteRecursively(at("none"), &files, &dirs, status);
    CHECK_CODE(TF_NOT_FOUND);
    MR_CHECK_INT(files, 0);
    MR_CHECK_INT(dirs, 1);
}

MR_TEST(capi_env_delete_recursively_refuses_a_file)
{
    int64_t files = -1, dirs = -1;
    begin();
    write_file(at("x"), "x");
    TF_DeleteRecursively(at("x"), &files, &dirs, status);
    CHECK_CODE(TF_FAILED_PRECONDITION);
    MR_CHECK_INT(files, 1);
    MR_CHECK_INT(dirs, 0);
    MR_CHECK(mr_file_exists(at("x")));
}

/* Root may delete everything, so the rest of the test runs as somebody else; a test is a process.
 */
static void drop_root(void)
{
    chmod(mr_test_dir(), 0777);
    if (geteuid() == 0 && seteuid(65534) != 0)
        mr_test_skip("root cannot become nobody here");
}

static void take_root(void)
{
    if (getuid() == 0)
        MR_CHECK_INT(seteuid(0), 0);
}

MR_TEST(capi_env_delete_recursively_counts_what_stays)
{
    int64_t files = -1, dirs = -1;
    begin();
    drop_root();
    TF_CreateDir(at("a"), status);
    if (TF_GetCode(status) != TF_OK) {
        take_root();
        mr_test_skip("nobody may not write here: %s", TF_Message(status));
    }
    TF_CreateDir(at("a/locked"), status);
    write_file(at("a/locked/x"), "x");
    write_file(at("a/y"), "y");
    chmod(at("a/locked"), 0500);
    TF_DeleteRecursively(at("a"), &files, &dirs, status);
    chmod(at("a/locked"), 0700);
    take_root();
    CHECK_CODE(TF_PERMISSION_DENIED);
    MR_CHECK_INT(files, 1);
    MR_CHECK_INT(dirs, 2);
    MR_CHECK(!mr_file_exists(at("a/y")));
}

/* ---- lists ---- */

MR_TEST(capi_env_children_are_names_without_dots)
{
    const char *name;
    bool seen[2] = {false, false};
    begin();
    write_file(at("x"), "x");
    TF_CreateDir(at("d"), status);
    TF_StringStream *list = TF_GetChildren(mr_test_dir(), status);
    CHECK_CODE(TF_OK);
    for (int i = 0; i < 2; i++) {
        MR_CHECK(TF_StringStreamNext(list, &name));
        MR_CHECK(strcmp(name, "x") == 0 || strcmp(name, "d") == 0);
        seen[name[0] == 'x'] = true;
    }
    MR_CHECK(seen[0] && seen[1]);
    MR_CHECK(!TF_StringStreamNext(list, &name));
    MR_CHECK(name == NULL);
    TF_StringStreamDone(list);
    MR_CHECK(TF_GetChildren(at("none"), status) == NULL);
    CHECK_CODE(TF_NOT_FOUND);
    TF_StringStreamDone(NULL);
}

MR_TEST(capi_env_temp_directories_begin_with_the_users_own)
{
    const char *dir;
    unsetenv("TEST_TMPDIR");
    setenv("TMPDIR", "/does/not/exist", 1);
    setenv("TMP", mr_test_dir(), 1);
    TF_StringStream *list = TF_GetLocalTempDirectories();
    MR_CHECK(TF_StringStreamNext(list, &dir));
    MR_CHECK_STR(dir, at(""));
    TF_StringStreamDone(list);
}

MR_TEST(capi_env_temp_file_is_made_and_fresh)
{
    setenv("TEST_TMPDIR", mr_test_dir(), 1);
    char *a = TF_GetTempFileName("txt"), *b = TF_GetTempFileName("txt");
    MR_CHECK(a && b && strcmp(a, b) != 0);
    MR_CHECK(strncmp(a, mr_test_dir(), strlen(mr_test_dir())) == 0);
    MR_CHECK_STR(a + strlen(a) - 4, ".txt");
    check_file(a, "");
    free(a);
    free(b);
    MR_CHECK(TF_GetTempFileName("a/b") == NULL);
}

/* ---- time ---- */

MR_TEST(capi_env_clocks_agree)
{
    int64_t before = mr_wall_us();
    uint64_t ns = TF_NowNanos(), us = TF_NowMicros(), s = TF_NowSeconds();
    int64_t after = mr_wall_us();
    MR_CHECK((int64_t)(ns / 1000) >= before && (int64_t)(ns / 1000) <= after);
    MR_CHECK((int64_t)us >= before && (int64_t)us <= after);
    MR_CHECK((int64_t)s >= before / 1000000 && (int64_t)s <= after / 1000000);
}

/* ---- threads ---- */

static void set_to_7(void *p)
{
    *(int *)p = 7;
}

static void read_name(void *p)
{
    pthread_getname_np(pthread_self(), p, 16);
}

static void read_stack(void *p)
{
    pthread_attr_t attr;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstacksize(&attr, p);
    pthread_attr_destroy(&attr);
}

MR_TEST(capi_env_thread_runs_and_joins)
{
    TF_ThreadOptions options;
    int value = 0;
    TF_DefaultThreadOptions(&options);
    MR_CHECK_INT(options.stack_size, 0);
    MR_CHECK_INT(options.guard_size, 0);
    MR_CHECK_INT(options.numa_node, -1);
    TF_JoinThread(TF_StartThread(&options, "t", set_to_7, &value));
    MR_CHECK_INT(value, 7);
    TF_JoinThread(NULL);
}

MR_TEST(capi_env_thread_name_is_cut_to_fit)
{
    char name[16] = "";
    TF_JoinThread(TF_StartThread(NULL, "a name of many characters", read_name, name));
    MR_CHECK_STR(name, "a name of many ");
}

MR_TEST(capi_env_thread_gets_the_stack_it_asks_for)
{
    TF_ThreadOptions options;
    size_t bytes = 0;
    TF_DefaultThreadOptions(&options);
    options.stack_size = (3 << 20) + 1;
    options.guard_size = 1 << 16;
    TF_JoinThread(TF_StartThread(&options, "t", read_stack, &bytes));
    MR_CHECK(bytes >= options.stack_size && bytes < (4 << 20));
    options.stack_size = 1; /* less than the system allows: as little as it allows */
    TF_Thread *t = TF_StartThread(&options, "t", set_to_7, &(int){0});
    MR_CHECK(t != NULL);
    TF_JoinThread(t);
    options.stack_size = SIZE_MAX;
    MR_CHECK(TF_StartThread(&options, "t", set_to_7, NULL) == NULL);
}

/* ---- shared libraries ---- */

MR_TEST(capi_env_finds_symbols_of_a_library)
{
    begin();
    void *lib = TF_LoadSharedLibrary("libm.so.6", status);
    CHECK_CODE(TF_OK);
    double (*cosine)(double) =
        (double (*)(double))(uintptr_t)TF_GetSymbolFromLibrary(lib, "cos", status);
    CHECK_CODE(TF_OK);
    MR_CHECK_NEAR(cosine(0), 1, 0);
    MR_CHECK(TF_GetSymbolFromLibrary(lib, "no_such_symbol", status) == NULL);
    CHECK_CODE(TF_NOT_FOUND);
    MR_CHECK(TF_GetSymbolFromLibrary(NULL, "cos", status) == NULL);
    CHECK_CODE(TF_INVALID_ARGUMENT);
    MR_CHECK(TF_LoadSharedLibrary("/no/such/lib.so", status) == NULL);
    CHECK_CODE(TF_NOT_FOUND);
}
