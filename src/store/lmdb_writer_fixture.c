/* store/lmdb_writer_fixture.c -- see lmdb_writer_fixture.h. */
#include "store/lmdb_writer_fixture.h"

#include <dlfcn.h>

#include "tests/harness/test.h"

typedef struct val {
    size_t n;
    void *p;
} val;

enum { NO_SUBDIR = 0x4000, NO_SYNC = 0x10000, CREATE = 0x40000, MAP_BYTES = 64 << 20 };

/* Calls a function of liblmdb by name; all of them give 0 or an error. */
#define CALL(w, name, types, ...)                                                            \
    do {                                                                                     \
        int(*fn_) types = (int(*) types)(uintptr_t)dlsym((w)->lib, name);                     \
        MR_CHECK(fn_ != NULL);                                                               \
        MR_CHECK_INT(fn_(__VA_ARGS__), 0);                                                   \
    } while (0)

static void begin(mr_lmdb_writer *w, int flags)
{
    CALL(w, "mdb_txn_begin", (void *, void *, unsigned, void **), w->env, NULL, 0, &w->txn);
    CALL(w, "mdb_dbi_open", (void *, const char *, unsigned, unsigned *), w->txn, NULL, (unsigned)flags, &w->db);
}

void mr_lmdb_writer_open(mr_lmdb_writer *w, const char *path, int flags)
{
    *w = (mr_lmdb_writer){.lib = dlopen("liblmdb.so.0", RTLD_NOW | RTLD_LOCAL)};
    if (!w->lib)
        mr_test_skip("liblmdb is not installed (package liblmdb0)");
    CALL(w, "mdb_env_create", (void **), &w->env);
    CALL(w, "mdb_env_set_mapsize", (void *, size_t), w->env, MAP_BYTES);
    CALL(w, "mdb_env_set_maxdbs", (void *, unsigned), w->env, 2);
    CALL(w, "mdb_env_open", (void *, const char *, unsigned, unsigned), w->env, path, NO_SUBDIR | NO_SYNC, 0600);
    begin(w, flags);
}

static void put(mr_lmdb_writer *w, unsigned db, mr_sv key, mr_sv value)
{
    val k = {key.n, (void *)(uintptr_t)key.p}, v = {value.n, (void *)(uintptr_t)value.p};
    CALL(w, "mdb_put", (void *, unsigned, val *, val *, unsigned), w->txn, db, &k, &v, 0);
}

void mr_lmdb_put(mr_lmdb_writer *w, mr_sv key, mr_sv value) { put(w, w->db, key, value); }

void mr_lmdb_put_database(mr_lmdb_writer *w, const char *name)
{
    unsigned db;
    CALL(w, "mdb_dbi_open", (void *, const char *, unsigned, unsigned *), w->txn, name, CREATE, &db);
    put(w, db, MR_SV("k"), MR_SV("v"));
}

void mr_lmdb_commit(mr_lmdb_writer *w, bool again)
{
    CALL(w, "mdb_txn_commit", (void *), w->txn);
    if (again)
        begin(w, 0);
}

void mr_lmdb_writer_close(mr_lmdb_writer *w)
{
    void (*end)(void *) = (void (*)(void *))(uintptr_t)dlsym(w->lib, "mdb_env_close");
    end(w->env);
    dlclose(w->lib);
}
