/* server/cluster_named_test.c -- clusters whose tasks find each other through a naming service: here one inside this process, with which
 * everything happens that a real one may bring about. */
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "ops/table.h"
#include "server/cluster_fixture.h"

/* ---- a naming service: a table, and a thread for each that looks at it ---- */

enum { MAX_NAMES = 16 };

typedef struct entry {
    char name[32], value[MR_NAMING_MAX_VALUE + 1];
    bool there;
} entry;

static struct {
    mr_mutex mu;
    mr_cond changed;
    int n, version;
    entry entries[MAX_NAMES];
} table = {.mu = {PTHREAD_MUTEX_INITIALIZER}, .changed = {PTHREAD_COND_INITIALIZER}};

typedef struct looker {
    mr_naming naming; /* first */
    mr_naming_options o;
    mr_thread thread;
    bool closing;
    char own[32], own_value[MR_NAMING_MAX_VALUE + 1];
    int n;
    struct {
        char name[32];
        int task;
        bool told;
        entry last;
    } watched[MAX_NAMES];
} looker;

static entry *entry_locked(const char *name)
{
    for (int i = 0; i < table.n; i++)
        if (strcmp(table.entries[i].name, name) == 0)
            return &table.entries[i];
    MR_CHECK(table.n < MAX_NAMES);
    strcpy(table.entries[table.n].name, name);
    return &table.entries[table.n++];
}

/* What anybody may do to the table; NULL takes out. */
static void put(const char *name, const char *value)
{
    mr_lock(&table.mu);
    entry *e = entry_locked(name);
    e->there = value != NULL;
    strcpy(e->value, value ? value : "");
    table.version++;
    mr_cond_broadcast(&table.changed);
    mr_unlock(&table.mu);
}

/* The next one to tell of; false: there is none. */
static bool next_news_locked(looker *l, int *task, entry *out)
{
    for (int i = 0; i < l->n; i++) {
        const entry *e = entry_locked(l->watched[i].name);
        entry *last = &l->watched[i].last;
        if (l->watched[i].told && last->there == e->there && strcmp(last->value, e->value) == 0)
            continue;
        l->watched[i].told = true;
        *last = *e;
        *out = *e;
        *task = l->watched[i].task;
        return true;
    }
    return false;
}

static void look(void *arg)
{
    looker *l = arg;
    int task;
    entry e;
    mr_lock(&table.mu);
    while (!l->closing) {
        if (!next_news_locked(l, &task, &e)) {
            pthread_cond_wait(&table.changed.c, &table.mu.m);
            continue;
        }
        mr_unlock(&table.mu);
        l->o.found(l->o.arg, task, e.there ? mr_sv_of(e.value) : (mr_sv){NULL, 0});
        mr_lock(&table.mu);
    }
    mr_unlock(&table.mu);
}

static void looker_enter(mr_naming *n, const char *name, const mr_naming_entry *e)
{
    looker *l = (looker *)n;
    mr_str value = {0};
    mr_naming_encode(e, &value);
    strcpy(l->own, name);
    strcpy(l->own_value, mr_str_z(&value));
    put(name, mr_str_z(&value));
    mr_str_deinit(&value);
}

static void looker_watch(mr_naming *n, const char *name, int task)
{
    looker *l = (looker *)n;
    mr_lock(&table.mu);
    MR_CHECK(l->n < MAX_NAMES);
    strcpy(l->watched[l->n].name, name);
    l->watched[l->n++].task = task;
    mr_cond_broadcast(&table.changed);
    mr_unlock(&table.mu);
}

static void looker_close(mr_naming *n)
{
    looker *l = (looker *)n;
    mr_lock(&table.mu);
    l->closing = true;
    entry *e = l->own[0] ? entry_locked(l->own) : NULL;
    if (e && strcmp(e->value, l->own_value) == 0)
        e->there = false, e->value[0] = 0;
    mr_cond_broadcast(&table.changed);
    mr_unlock(&table.mu);
    mr_thread_join(&l->thread);
    mr_free(l);
}

static looker *newest; /* of those that were opened */

static mr_status *looker_open(const mr_naming_options *o, mr_naming **out)
{
    looker *l = newest = mr_new(looker);
    l->naming = (mr_naming){looker_enter, looker_watch, looker_close};
    l->o = *o;
    MR_CHECK_INT(mr_thread_start(&l->thread, "looker", look, l), 0);
    *out = &l->naming;
    return NULL;
}

/* ---- clusters ---- */

static void start_at(cluster_fixture *b, int i, const char *address)
{
    b->options.address = address;
    cluster_fixture_start_task(b, i);
}

/* ps 0 and worker 0, of which nobody knows beforehand where they are.  The session's master is the worker's. */
static void begin_with(cluster_fixture *b, mr_net *net, bool ps)
{
    *b = (cluster_fixture){.net = net, .n = 2};
    b->options = (mr_server_options){.net = net, .lost_ms = 20000, .zookeeper = "here:1", .open_naming = looker_open};
    mr_ops_register();
    MR_CHECK_INT(chdir(mr_test_dir()), 0);
    MR_CHECK_OK(mr_cluster_add(&b->cluster, MR_SV("ps"), 0, MR_SV("zk")));
    MR_CHECK_OK(mr_cluster_add(&b->cluster, MR_SV("worker"), 0, MR_SV("zk")));
    start_at(b, 1, "worker0:1");
    if (ps)
        start_at(b, 0, "ps0:1");
    mr_free(b->cluster.tasks.p[1].address); /* for cluster_fixture_session_of */
    b->cluster.tasks.p[1].address = mr_strdup("worker0:1");
    b->g = mr_graph_new();
    mr_scope_init(&b->s, b->g, "");
}

static void begin(cluster_fixture *b) { begin_with(b, mr_net_loop(), true); }

/* x squared on the parameter server. */
static mr_out square_on_ps(cluster_fixture *b, mr_out *x)
{
    *x = mr_placeholder(&b->s, MR_FLOAT, "x", &mr_pshape_scalar);
    b->s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&b->s, "Square", *x);
    b->s.device = "";
    return y;
}

/* A value that never comes from there. */
static mr_out wait_on_ps(cluster_fixture *b)
{
    const int types[] = {MR_FLOAT};
    b->s.device = "/job:ps/task:0";
    mr_out q = mr_emit0_with(&b->s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}, {"shared_name", mr_a_str("q")}));
    mr_out v = mr_emit_with(&b->s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    b->s.device = "";
    return v;
}

static void squares(cluster_fixture *b, mr_out x, mr_out y)
{
    float v = 0;
    MR_CHECK_OK(cluster_fixture_run(b, x, 3, y, NULL, &v));
    MR_CHECK_NEAR(v, 9, 0);
}

typedef struct later { /* something in a thread of its own */
    cluster_fixture *b;
    mr_out fetch;
    mr_status *st;
    _Atomic bool over;
    mr_thread thread;
} later;

static void run_it(void *arg)
{
    later *l = arg;
    float v;
    l->st = cluster_fixture_run(l->b, cluster_fixture_nothing, 0, l->fetch, NULL, &v);
    l->over = true;
}

static void open_it(void *arg)
{
    later *l = arg;
    l->st = mr_remote_session_new(l->b->net, "worker0:1", l->b->g, NULL, MR_SV(""), NULL, &l->b->session);
    l->over = true;
}

static void start(later *l, cluster_fixture *b, void (*fn)(void *), mr_out fetch)
{
    *l = (later){.b = b, .fetch = fetch};
    MR_CHECK_INT(mr_thread_start(&l->thread, "later", fn, l), 0);
}

/* ---- */

MR_TEST(named_tasks_find_each_other)
{
    cluster_fixture b;
    mr_out x, y;
    begin(&b);
    y = square_on_ps(&b, &x);
    squares(&b, x, y);
    MR_CHECK_STR(mr_server_target(b.servers[0]), "grpc://ps0:1");
    cluster_fixture_end(&b);
}

MR_TEST(named_task_that_was_started_elsewhere_is_found_again)
{
    cluster_fixture b;
    mr_out x, y;
    static const char *const places[] = {"ps0b:1", "ps0c:1", "ps0:1"};
    begin_with(&b, mr_net_local(), true);
    y = square_on_ps(&b, &x);
    squares(&b, x, y);
    for (int i = 0; i < MR_COUNT(places); i++) {
        float v;
        cluster_fixture_stop_task(&b, 0);
        mr_status *st = cluster_fixture_run(&b, x, 3, y, NULL, &v);
        MR_CHECK(mr_status_code(st) == MR_UNAVAILABLE || mr_status_code(st) == MR_ABORTED);
        MR_CHECK(strstr(mr_status_message(st), "/job:ps/replica:0/task:0") != NULL);
        mr_status_free(st);
        cluster_fixture_end_session(&b);
        start_at(&b, 0, places[i]);
        squares(&b, x, y);
    }
    cluster_fixture_end(&b);
}

/* The former process is there and answers; only naming tells that it is not the task any more. */
static void is_replaced(mr_net *net)
{
    cluster_fixture b;
    mr_out x, y;
    later l;
    begin_with(&b, net, true);
    y = square_on_ps(&b, &x);
    mr_out never = wait_on_ps(&b);
    squares(&b, x, y);
    start(&l, &b, run_it, never);
    mr_sleep_ns(100000000);
    MR_CHECK(!l.over);
    mr_server *former = b.servers[0];
    start_at(&b, 0, "ps0b:1");
    mr_thread_join(&l.thread);
    MR_CHECK_ERR(l.st, MR_ABORTED, "/job:ps/replica:0/task:0 was restarted");
    cluster_fixture_end_session(&b);
    squares(&b, x, y);
    mr_server_free(former);
    squares(&b, x, y);
    cluster_fixture_end(&b);
}

MR_TEST(named_task_that_another_process_replaces_ends_its_steps) { is_replaced(mr_net_loop()); }
MR_TEST(named_task_that_another_process_replaces_ends_its_steps_of_one_host) { is_replaced(mr_net_local()); }

/* It was where the spec says, for all anybody knows, and comes up elsewhere. */
static void is_waited_for(mr_net *net, const char *expected)
{
    cluster_fixture b;
    mr_out x, y;
    later l;
    begin_with(&b, net, false);
    y = square_on_ps(&b, &x);
    if (expected)
        put("ps/0", expected);
    start(&l, &b, open_it, cluster_fixture_nothing);
    mr_sleep_ns(200000000);
    MR_CHECK(!l.over);
    start_at(&b, 0, "ps0:1");
    mr_thread_join(&l.thread);
    MR_CHECK_OK(l.st);
    squares(&b, x, y);
    cluster_fixture_end(&b);
}

MR_TEST(named_task_is_waited_for_until_it_enters) { is_waited_for(mr_net_loop(), NULL); }
MR_TEST(named_task_is_waited_for_until_it_enters_on_one_host) { is_waited_for(mr_net_local(), NULL); }
MR_TEST(named_task_is_waited_for_where_it_was_and_found_where_it_is)
{
    is_waited_for(mr_net_local(), "gone:1 0000000000000007");
}
MR_TEST(named_task_is_waited_for_behind_what_is_no_address) { is_waited_for(mr_net_loop(), "http://evil.example/ 0"); }

/* A service that is away for long ends the wait for addresses, with its own reason. */
MR_TEST(named_task_is_not_waited_for_when_the_service_is_away)
{
    cluster_fixture b;
    later l;
    begin_with(&b, mr_net_loop(), false);
    start(&l, &b, open_it, cluster_fixture_nothing);
    newest->o.unreachable(newest->o.arg, "ZooKeeper could not be reached for 60 s: here:1: Connection refused");
    mr_thread_join(&l.thread);
    MR_CHECK_ERR(l.st, MR_DEADLINE_EXCEEDED,
                 "/job:ps/replica:0/task:0 cannot be found: ZooKeeper could not be reached for 60 s: here:1");
    newest->o.unreachable(newest->o.arg, NULL); /* it is back */
    start(&l, &b, open_it, cluster_fixture_nothing);
    start_at(&b, 0, "ps0:1");
    mr_thread_join(&l.thread);
    MR_CHECK_OK(l.st);
    cluster_fixture_end(&b);
}

MR_TEST(named_task_that_never_enters_can_be_given_up)
{
    cluster_fixture b;
    later l;
    begin_with(&b, mr_net_loop(), false);
    start(&l, &b, open_it, cluster_fixture_nothing);
    mr_sleep_ns(100000000);
    cluster_fixture_stop_task(&b, 1); /* with the master */
    mr_thread_join(&l.thread);
    MR_CHECK(mr_status_code(l.st) == MR_CANCELLED || mr_status_code(l.st) == MR_UNAVAILABLE);
    mr_status_free(l.st);
    cluster_fixture_end(&b);
}

/* The service has lost everything, as after a restart without its data: who answers is not lost. */
MR_TEST(named_task_whose_entry_has_gone_is_not_lost_when_it_answers)
{
    cluster_fixture b;
    mr_out x, y;
    later l;
    begin(&b);
    y = square_on_ps(&b, &x);
    mr_out never = wait_on_ps(&b);
    squares(&b, x, y);
    start(&l, &b, run_it, never);
    put("ps/0", NULL);
    put("worker/0", NULL);
    mr_sleep_ns(2500000000); /* it would be lost after half of that */
    MR_CHECK(!l.over);
    squares(&b, x, y);
    cluster_fixture_stop_task(&b, 0);
    mr_thread_join(&l.thread);
    mr_status_free(l.st);
    cluster_fixture_end(&b);
}

/* ---- a task that falls silent, as its host is lost ---- */

static _Atomic bool dumb;
static mr_net_listen heard[4];
static int n_heard;

static void forget(void *arg, mr_net_call *c)
{
    (void)arg;
    c->net->reply(c, mr_error(MR_CANCELLED, "nobody heard it"), NULL);
}

static void pass(void *arg, mr_net_call *c)
{
    mr_net_listen *to = arg;
    if (!dumb || strcmp(to->address, "ps0:1") != 0)
        to->handle(to->arg, c);
    else if (!c->net->on_cancel(c, forget, NULL))
        forget(NULL, c);
}

static mr_status *listen_behind(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    (void)n;
    heard[n_heard] = *o;
    mr_net_listen behind = *o;
    behind.handle = pass;
    behind.arg = &heard[n_heard++];
    return mr_net_local()->listen(mr_net_local(), &behind, out, port);
}

MR_TEST(named_task_whose_entry_has_gone_is_lost_when_it_is_silent)
{
    cluster_fixture b;
    mr_out x, y;
    later l;
    mr_net net = *mr_net_local();
    net.listen = listen_behind;
    begin_with(&b, &net, true); /* silence alone would say so after 20 s */
    y = square_on_ps(&b, &x);
    mr_out never = wait_on_ps(&b);
    squares(&b, x, y);
    start(&l, &b, run_it, never);
    mr_sleep_ns(100000000);
    dumb = true;
    int64_t since_ns = mr_now_ns();
    put("ps/0", NULL);
    mr_thread_join(&l.thread);
    MR_CHECK(mr_now_ns() - since_ns < INT64_C(10000000000));
    MR_CHECK_ERR(l.st, MR_UNAVAILABLE, "/job:ps/replica:0/task:0 is lost");
    dumb = false;
    cluster_fixture_end(&b);
}

MR_TEST(named_tasks_without_a_service_are_refused)
{
    mr_server *s;
    mr_server_def def = {.job = "ps", .task = 0};
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("ps"), 0, MR_SV("zk")));
    MR_CHECK_ERR(mr_server_new(&def, &(mr_server_options){.net = mr_net_loop(), .zookeeper = ""}, &s), MR_INVALID_ARGUMENT,
                 "has no address; give one, or set MILLRACE_ZOOKEEPER");
    MR_CHECK_ERR(mr_server_new(&def, &(mr_server_options){.net = mr_net_loop(), .zookeeper = "a b", .open_naming = looker_open}, &s),
                 MR_INVALID_ARGUMENT, "is not the address of a ZooKeeper");
    mr_cluster_deinit(&def.cluster);
}
