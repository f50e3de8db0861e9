/* capi/training_sharded_test.c -- checkpoints of several parameter servers, over clusters in one process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/memory.h"
#include "capi/training_fixture.h"
#include "tests/harness/test.h"
#include "train/replicas.h"
#include "train/saver.h"

enum { N_VARS = 5 };

/* Some variables over some parameter servers, with a saver and a session. */
typedef struct stand {
    training_fixture fixture;
    mr_graph *graph;
    mr_nn *net;
    mr_nn_saver *saver;
    mr_node *init;
    mr_session *session;
} stand;

typedef mr_nn_saver *(*saver_fn)(mr_nn *n, int max_to_keep);

static float value_of(int var) { return (float)var + 0.5f; }

static void begin(stand *s, int n_ps, saver_fn make)
{
    char name[16];
    training_fixture_begin(&s->fixture, n_ps, 1);
    s->graph = mr_graph_new();
    s->net = mr_nn_new(s->graph);
    mr_nn_replicate(s->net, "ps", n_ps, "/job:worker/task:0", MR_REPLICAS_ROUND_ROBIN);
    for (int i = 0; i < N_VARS; i++) {
        snprintf(name, sizeof name, "v%d", i);
        mr_nn_variable(s->net, name, MR_FLOAT, 1, (int64_t[]){i + 2}, (mr_nn_init){MR_NN_CONSTANT, value_of(i), 0},
                       true);
    }
    s->saver = make(s->net, 3);
    s->init = mr_nn_initializer(s->net);
    MR_CHECK_OK(mr_scope_status(&s->net->s));
    MR_CHECK_OK(training_fixture_open(&s->fixture, 0, s->graph, &s->session));
}

static void initialise(stand *s)
{
    MR_CHECK_OK(mr_session_run(s->session, &(mr_run_args){.targets = &s->init, .n_targets = 1}, NULL, NULL));
}

static void end(stand *s)
{
    mr_session_free(s->session);
    mr_nn_saver_free(s->saver);
    mr_nn_free(s->net);
    mr_graph_unref(s->graph);
    training_fixture_end(&s->fixture);
}

static void check_values(stand *s)
{
    for (int i = 0; i < N_VARS; i++) {
        mr_tensor *t;
        mr_run_args a = {.fetches = &s->net->vars.p[i].value, .fetched = &t, .n_fetches = 1};
        MR_CHECK_OK(mr_session_run(s->session, &a, NULL, NULL));
        MR_CHECK_INT(t->n, i + 2);
        for (int64_t k = 0; k < t->n; k++)
            MR_CHECK_NEAR(MR_DATA(float, t)[k], value_of(i), 0);
        mr_tensor_unref(t);
    }
}

static char *path_of(const char *name) { return mr_printf("%s/ck/%s", mr_test_dir(), name); }

static bool has_file(const char *name)
{
    char *path = path_of(name);
    bool there = mr_file_exists(path);
    mr_free(path);
    return there;
}

static void save_on(int n_ps, saver_fn make, int64_t step)
{
    stand s;
    char *prefix = path_of("m");
    begin(&s, n_ps, make);
    initialise(&s);
    MR_CHECK_OK(mr_nn_save(s.saver, s.session, prefix, step));
    end(&s);
    mr_free(prefix);
}

/* Restores the newest, and saves it again as another step. */
static void move_to(int n_ps, saver_fn make, int64_t step)
{
    stand s;
    bool found;
    char *folder = path_of(""), *prefix = path_of("m");
    begin(&s, n_ps, make);
    MR_CHECK_OK(mr_nn_restore_latest(s.saver, s.session, folder, &found));
    MR_CHECK(found);
    check_values(&s);
    MR_CHECK_OK(mr_nn_save(s.saver, s.session, prefix, step));
    end(&s);
    mr_free(folder);
    mr_free(prefix);
}

MR_TEST(sharded_saver_writes_one_file_for_each_ps)
{
    save_on(3, mr_nn_saver_new_sharded, 7);
    MR_CHECK(has_file("m-7.index"));
    MR_CHECK(has_file("m-7.data-00000-of-00003"));
    MR_CHECK(has_file("m-7.data-00001-of-00003"));
    MR_CHECK(has_file("m-7.data-00002-of-00003"));
}

static mr_status *count_entry(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return NULL;
}

static int n_entries(void)
{
    int n = 0;
    char *folder = path_of("");
    MR_CHECK_OK(mr_dir_each(folder, count_entry, &n));
    mr_free(folder);
    return n;
}

MR_TEST(sharded_saver_leaves_nothing_beside_the_checkpoint)
{
    save_on(3, mr_nn_saver_new_sharded, 7);
    MR_CHECK_INT(n_entries(), 5); /* checkpoint, index, three of data */
}

MR_TEST(sharded_checkpoint_moves_to_other_numbers_of_ps)
{
    save_on(3, mr_nn_saver_new_sharded, 1);
    move_to(1, mr_nn_saver_new_sharded, 2);
    MR_CHECK(has_file("m-2.data-00000-of-00001"));
    move_to(2, mr_nn_saver_new_sharded, 3);
    MR_CHECK(has_file("m-3.data-00001-of-00002"));
    move_to(3, mr_nn_saver_new_sharded, 4);
}

MR_TEST(sharded_and_plain_savers_read_each_other)
{
    save_on(2, mr_nn_saver_new_sharded, 1);
    move_to(3, mr_nn_saver_new, 2);
    MR_CHECK(has_file("m-2.data-00000-of-00001"));
    move_to(2, mr_nn_saver_new_sharded, 3);
}

/* The parts of a shard that cannot be written become no checkpoint. */
MR_TEST(sharded_saver_fails_as_a_whole)
{
    stand s;
    begin(&s, 2, mr_nn_saver_new_sharded);
    initialise(&s);
    char *folder = path_of(""), *prefix = path_of("m");
    MR_CHECK_OK(mr_nn_save(s.saver, s.session, prefix, 1));
    mr_file_fail_after(0, ENOSPC);
    mr_status *st = mr_nn_save(s.saver, s.session, prefix, 2);
    mr_file_fail_after(0, 0);
    MR_CHECK(st != NULL);
    mr_status_free(st);
    MR_CHECK(!has_file("m-2.index"));
    bool found;
    MR_CHECK_OK(mr_nn_restore_latest(s.saver, s.session, folder, &found));
    MR_CHECK(found);
    end(&s);
    mr_free(folder);
    mr_free(prefix);
}

static void put_file(const char *name)
{
    char *path = path_of(name);
    mr_sv dir = mr_path_dirname(path);
    char *dir_z = mr_strndup(dir.p, dir.n);
    mr_writer *w;
    MR_CHECK_OK(mr_dir_make(dir_z));
    MR_CHECK_OK(mr_writer_open_append(path, &w));
    MR_CHECK_OK(mr_writer_write(w, "x", 1));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    mr_free(dir_z);
    mr_free(path);
}

/* As if it had been written an hour ago. */
static void make_old(const char *name)
{
    char *path = path_of(name);
    struct timespec t[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    MR_CHECK_INT(utimensat(AT_FDCWD, path, t, 0), 0);
    mr_free(path);
}

static void put_old_file(const char *name)
{
    put_file(name);
    make_old(name);
}

MR_TEST(saver_leaves_alone_what_is_being_saved)
{
    char *prefix = path_of("m");
    put_file("m-2.index.tempstate123");
    put_file("m-2_temp_00000000deadbeef/part-00000-of-00002.index");
    MR_CHECK_OK(mr_nn_saver_clean(prefix));
    MR_CHECK(has_file("m-2.index.tempstate123"));
    MR_CHECK(has_file("m-2_temp_00000000deadbeef/part-00000-of-00002.index"));
    mr_free(prefix);
}

MR_TEST(saver_cleans_up_after_saves_that_were_killed)
{
    char *prefix = path_of("m");
    save_on(2, mr_nn_saver_new_sharded, 1);
    int n = n_entries();
    put_old_file("m-2.index.tempstate123");
    put_old_file("m-2_temp_00000000deadbeef/part-00000-of-00002.data-00000-of-00001");
    make_old("m-2_temp_00000000deadbeef");
    put_old_file("other.tempstate1");
    MR_CHECK_OK(mr_nn_saver_clean(prefix));
    MR_CHECK_INT(n_entries(), n + 1);
    MR_CHECK(has_file("other.tempstate1"));
    move_to(2, mr_nn_saver_new_sharded, 2);
    mr_free(prefix);
}

/* ---- beside training ---- */

typedef struct saving {
    stand *s;
    _Atomic int at;    /* odd: a save is under way */
    _Atomic bool stop; /* a step was made meanwhile */
} saving;

static void save_often(void *arg)
{
    saving *v = arg;
    char *prefix = path_of("m");
    for (int i = 0; i < 200 && !v->stop; i++) {
        v->at++;
        MR_CHECK_OK(mr_nn_save(v->s->saver, v->s->session, prefix, i));
        v->at++;
    }
    v->stop = true;
    mr_free(prefix);
}

/* Some step, of many, begins and ends while one checkpoint, of many, is written. */
MR_TEST(saving_does_not_stop_training)
{
    stand s;
    saving v = {.s = &s};
    mr_thread t;
    bool meanwhile = false;
    begin(&s, 2, mr_nn_saver_new_sharded);
    initialise(&s);
    mr_thread_start(&t, "save", save_often, &v);
    while (!v.stop) {
        int at = v.at;
        initialise(&s); /* writes all variables, as a training step does */
        if (at == v.at && at % 2)
            v.stop = meanwhile = true;
    }
    mr_thread_join(&t);
    MR_CHECK(meanwhile);
    end(&s);
}
