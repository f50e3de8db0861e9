/* Rosters: single stories, and thousands of random ones with processes that come, go and die. */
#include "dist/group.h"

#include "base/memory.h"
#include "tests/harness/test.h"

/* ---- stories ---- */

static mr_roster_actions acts;

static void hear(mr_roster *r, mr_roster_event e, int64_t now_ns)
{
    acts.n = 0;
    mr_roster_step(r, &e, now_ns, &acts);
}

static void join(mr_roster *r, uint64_t who, int wanted, int64_t now_ns)
{
    hear(r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = who, .wanted = wanted}, now_ns);
}

static void start(mr_roster *r, int size)
{
    mr_roster_init(r, &(mr_roster_options){.size = size, .join_ns = 1000, .rejoin_ns = 100});
    for (int i = 0; i < size; i++)
        join(r, 10 + (uint64_t)i, i, 1);
    MR_CHECK_INT(r->generation, 1);
    MR_CHECK(r->running);
}

static void finish(mr_roster *r)
{
    mr_roster_deinit(r);
    mr_vec_deinit(&acts);
}

MR_TEST(group_roster_forms_when_all_are_there)
{
    mr_roster r;
    mr_roster_init(&r, &(mr_roster_options){.size = 2});
    join(&r, 5, 1, 1);
    MR_CHECK_INT(acts.n, 0);
    join(&r, 6, 0, 2);
    MR_CHECK_INT(acts.n, 1);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_FORM);
    MR_CHECK_INT(mr_roster_rank(&r, 6), 0);
    MR_CHECK_INT(mr_roster_rank(&r, 5), 1);
    finish(&r);
}

MR_TEST(group_roster_refuses_a_rank_that_is_taken)
{
    mr_roster r;
    mr_roster_init(&r, &(mr_roster_options){.size = 2});
    join(&r, 5, 1, 1);
    join(&r, 6, 1, 2);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_REFUSE);
    MR_CHECK_INT(acts.p[0].code, MR_ALREADY_EXISTS);
    join(&r, 7, 2, 2);
    MR_CHECK_INT(acts.p[0].code, MR_INVALID_ARGUMENT);
    finish(&r);
}

MR_TEST(group_roster_goes_on_without_who_is_gone)
{
    mr_roster r;
    start(&r, 3);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_GONE, .who = 11}, 50);
    MR_CHECK_INT(acts.n, 1);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_END);
    MR_CHECK_INT(acts.p[0].who, 11);
    MR_CHECK_STR(acts.p[0].why, "is gone");
    join(&r, 12, -1, 51);
    MR_CHECK_INT(acts.n, 0);
    join(&r, 10, -1, 52);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_FORM);
    MR_CHECK_INT(r.generation, 2);
    MR_CHECK_INT(mr_roster_rank(&r, 10), 0); /* they keep their order */
    MR_CHECK_INT(mr_roster_rank(&r, 12), 1);
    finish(&r);
}

MR_TEST(group_roster_does_not_wait_for_ever_for_who_should_come_back)
{
    mr_roster r;
    start(&r, 3);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_LEAVE, .who = 11}, 50);
    join(&r, 10, -1, 51);
    MR_CHECK_INT(mr_roster_next_ns(&r), 150);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_TICK}, 149);
    MR_CHECK_INT(acts.n, 0);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_TICK}, 150);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_FORM);
    MR_CHECK_INT(r.members.n, 1);
    finish(&r);
}

MR_TEST(group_roster_lets_new_members_in_with_the_next_generation)
{
    mr_roster r;
    start(&r, 2);
    join(&r, 20, 0, 5);
    MR_CHECK_INT(acts.n, 1);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_WAITS);
    join(&r, 11, -1, 6);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_END);
    MR_CHECK_INT(acts.p[0].who, 11);
    join(&r, 10, -1, 7);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_FORM);
    MR_CHECK_INT(r.members.n, 3);
    MR_CHECK_INT(mr_roster_rank(&r, 20), 2);
    finish(&r);
}

MR_TEST(group_roster_of_a_new_roster_server_counts_on)
{
    mr_roster r;
    uint64_t old[] = {10, 11, 12};
    mr_roster_init(&r, &(mr_roster_options){.size = 3, .rejoin_ns = 100});
    for (uint64_t who = 11; who <= 12; who++)
        hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = who, .wanted = -1, .generation = 7, .peers = old, .n_peers = 3,
                                   .lost = 10}, 1);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_FORM);
    MR_CHECK_INT(r.generation, 8);
    MR_CHECK_INT(r.members.n, 2);
    finish(&r);
}

MR_TEST(group_roster_of_a_new_roster_server_waits_for_the_peers_of_who_joins)
{
    mr_roster r;
    uint64_t old[] = {10, 11, 12};
    mr_roster_init(&r, &(mr_roster_options){.size = 3, .rejoin_ns = 100, .join_ns = 1000});
    hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = 11, .wanted = -1, .generation = 7, .peers = old, .n_peers = 3,
                               .lost = 10}, 5000000);
    MR_CHECK_INT(acts.n, 0);
    MR_CHECK_INT(mr_roster_next_ns(&r), 5000100);
    finish(&r);
}

MR_TEST(group_roster_of_a_minority_is_not_formed)
{
    mr_roster r;
    mr_roster_init(&r, &(mr_roster_options){.size = 4, .majority = true, .rejoin_ns = 10, .join_ns = 100});
    for (uint64_t who = 1; who <= 4; who++)
        join(&r, who, -1, 1);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_GONE, .who = 1}, 2);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_GONE, .who = 2}, 2);
    join(&r, 3, -1, 3);
    join(&r, 4, -1, 3);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_TICK}, 50);
    MR_CHECK(!r.running);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_TICK}, 150);
    MR_CHECK_INT(acts.n, 2);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_REFUSE);
    MR_CHECK_INT(acts.p[0].code, MR_DEADLINE_EXCEEDED);
    finish(&r);
}

/* Its members know it by its number: what others were in before does not change that. */
MR_TEST(group_roster_keeps_the_number_of_the_generation_at_work)
{
    mr_roster r;
    uint64_t old[] = {30, 31};
    start(&r, 2);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = 30, .wanted = -1, .generation = 9, .peers = old, .n_peers = 2}, 5);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_WAITS);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_GONE, .who = 11}, 6);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_END);
    MR_CHECK_INT(r.generation, 1);
    join(&r, 10, -1, 7);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_FORM);
    MR_CHECK_INT(r.generation, 10);
    finish(&r);
}

MR_TEST(group_roster_ends_the_generation_of_a_member_that_was_in_a_later_one)
{
    mr_roster r;
    uint64_t old[] = {10, 31};
    start(&r, 2);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = 10, .wanted = -1, .generation = 9, .peers = old, .n_peers = 2}, 5);
    MR_CHECK_INT(acts.n, 1);
    MR_CHECK_INT(acts.p[0].what, MR_ROSTER_END);
    MR_CHECK_INT(r.generation, 1);
    MR_CHECK_INT(mr_roster_rank(&r, 11), 1); /* it is to be told */
    finish(&r);
}

MR_TEST(group_roster_has_nothing_to_do_between_the_end_of_a_wait_and_the_refusal)
{
    mr_roster r;
    mr_roster_init(&r, &(mr_roster_options){.size = 3, .least = 2, .rejoin_ns = 10, .join_ns = 100});
    for (uint64_t who = 1; who <= 3; who++)
        join(&r, who, -1, 1);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_GONE, .who = 1}, 2);
    join(&r, 2, -1, 3); /* the third does not come back */
    MR_CHECK_INT(mr_roster_next_ns(&r), 12);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_TICK}, 12);
    MR_CHECK_INT(acts.n, 0);
    MR_CHECK_INT(mr_roster_next_ns(&r), 102);
    finish(&r);
}

MR_TEST(group_roster_ignores_messages_that_make_no_sense)
{
    mr_roster r;
    uint64_t twice[] = {7, 7};
    start(&r, 2);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = 9, .generation = -4}, 5);
    MR_CHECK_INT(acts.p[0].code, MR_INVALID_ARGUMENT);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = 9, .generation = 3, .peers = twice, .n_peers = 2}, 5);
    MR_CHECK_INT(acts.p[0].code, MR_INVALID_ARGUMENT);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_GONE, .who = 99}, 5);
    MR_CHECK_INT(acts.n, 0);
    MR_CHECK(r.running);
    finish(&r);
}

MR_TEST(group_roster_no_number_that_somebody_tells_is_the_last_one)
{
    mr_roster r;
    start(&r, 2);
    hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = 9, .wanted = -1, .generation = INT64_MAX - 1}, 5);
    MR_CHECK_INT(acts.p[0].code, MR_INVALID_ARGUMENT);
    for (int64_t told = MR_ROSTER_LAST / 2, n = 0; n < 4; told = MR_ROSTER_LAST, n++) {
        int64_t last = r.generation;
        hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = 9, .wanted = -1, .generation = told}, 5);
        for (uint64_t who = 10; who <= 11; who++) /* as they were told */
            hear(&r, (mr_roster_event){.message = MR_ROSTER_JOIN, .who = who, .wanted = -1, .generation = last}, 6);
        MR_CHECK(r.running);
        MR_CHECK_INT(r.members.n, 3);
        MR_CHECK(r.generation >= 1 && r.generation <= MR_ROSTER_LAST && r.generation != last);
    }
    finish(&r);
}

/* ---- random schedules ---- */

enum { MOST = 7, MESSAGES = 4096 };

typedef enum state { ABSENT, JOINING, IN } state;
typedef struct process {
    state state;
    uint64_t key;
    uint64_t roster_server; /* whom it has joined with, or 0 */
    int64_t generation;
    uint64_t named; /* the roster server of that generation */
    uint64_t peers[MOST * 4];
    int n_peers;
    uint64_t lost;
} process;

typedef struct message { /* on its way between a process and a roster server */
    int64_t at;
    uint64_t from, to;
    mr_roster_event e; /* to a roster server */
    mr_roster_do what; /* to a process */
    bool down;
    int64_t generation;
    uint64_t list[MOST * 4];
    int n;
} message;

typedef struct world {
    uint64_t random;
    int64_t now;
    process p[MOST];
    uint64_t roster_server; /* of the key; 0: nobody */
    mr_roster roster;
    message messages[MESSAGES];
    int n_messages;
    uint64_t next_key;
    bool faults;
    /* every generation that was ever formed: its name and list, to see that there is one */
    struct {
        int64_t generation;
        uint64_t roster_server, list[MOST * 4];
        int n;
    } formed[2048];
    int n_formed;
} world;

static uint64_t roll(world *w, uint64_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % n;
}

static process *by_key(world *w, uint64_t key)
{
    for (int i = 0; i < MOST; i++)
        if (w->p[i].state != ABSENT && w->p[i].key == key)
            return &w->p[i];
    return NULL;
}

static message *post(world *w, uint64_t from, uint64_t to)
{
    MR_CHECK(w->n_messages < MESSAGES);
    message *x = &w->messages[w->n_messages++];
    *x = (message){.from = from, .to = to, .at = w->now + 1 + (int64_t)roll(w, 20)};
    for (int i = 0; i < w->n_messages - 1; i++) /* a connection keeps the order */
        if (w->messages[i].from == from && w->messages[i].to == to)
            x->at = MR_MAX(x->at, w->messages[i].at + 1);
    return x;
}

/* A process joins at the present roster server, or becomes it. */
static void ask(world *w, process *p)
{
    p->state = JOINING;
    if (!w->roster_server) {
        w->roster_server = p->key;
        mr_roster_init(&w->roster, &(mr_roster_options){.size = 3, .rejoin_ns = 200});
    }
    p->roster_server = w->roster_server;
    message *x = post(w, p->key, w->roster_server);
    x->e = (mr_roster_event){.message = MR_ROSTER_JOIN, .who = p->key, .wanted = -1, .generation = p->generation,
                             .n_peers = p->n_peers, .lost = p->lost};
    memcpy(x->list, p->peers, sizeof(p->peers));
}

static void carry_out(world *w, const mr_roster_actions *a)
{
    const mr_roster *r = &w->roster;
    for (int i = 0; i < a->n; i++) {
        if (a->p[i].what == MR_ROSTER_FORM) {
            MR_CHECK(w->n_formed < MR_COUNT(w->formed));
            for (int k = 0; k < w->n_formed; k++)
                MR_CHECK(w->formed[k].generation != r->generation || w->formed[k].roster_server != w->roster_server);
            w->formed[w->n_formed].generation = r->generation;
            w->formed[w->n_formed].roster_server = w->roster_server;
            w->formed[w->n_formed++].n = r->members.n;
        }
        for (int m = 0; m < r->members.n && a->p[i].what != MR_ROSTER_REFUSE; m++) {
            if (a->p[i].what == MR_ROSTER_END && r->members.p[m] == a->p[i].who)
                continue;
            message *x = post(w, w->roster_server, r->members.p[m]);
            x->down = true;
            x->what = a->p[i].what;
            x->generation = r->generation;
            x->n = r->members.n;
            x->e.lost = a->p[i].what == MR_ROSTER_END ? a->p[i].who : 0;
            memcpy(x->list, r->members.p, (size_t)r->members.n * sizeof(uint64_t));
        }
    }
}

static void tell_roster_server(world *w, mr_roster_event e)
{
    mr_roster_actions out = {0};
    mr_roster_step(&w->roster, &e, w->now, &out);
    carry_out(w, &out);
    mr_vec_deinit(&out);
}

static void told(world *w, process *p, const message *x)
{
    if (p->roster_server != x->from)
        return; /* of a connection that it has closed */
    if (x->what == MR_ROSTER_FORM) {
        MR_CHECK(p->state == JOINING);
        MR_CHECK(x->generation > p->generation); /* numbers rise */
        int seen = 0;
        for (int i = 0; i < x->n; i++)
            seen += x->list[i] == p->key;
        MR_CHECK_INT(seen, 1); /* it is in the list once */
        p->state = IN;
        p->generation = x->generation;
        p->named = x->from;
        p->n_peers = x->n;
        p->lost = 0;
        memcpy(p->peers, x->list, sizeof(p->peers));
    } else if (x->what == MR_ROSTER_END && p->state == IN && x->generation == p->generation) {
        p->lost = x->e.lost;
        ask(w, p);
    } else if (x->what == MR_ROSTER_WAITS && p->state == IN) {
        ask(w, p); /* forms the group again, because a process waits */
    }
}

static void deliver(world *w, int i)
{
    message x = w->messages[i];
    w->messages[i] = w->messages[--w->n_messages];
    if (x.down) {
        process *p = by_key(w, x.to);
        if (p)
            told(w, p, &x);
    } else if (x.to == w->roster_server) {
        x.e.peers = x.list;
        tell_roster_server(w, x.e);
    }
}

/* The next message that is due, the earliest first. */
static bool deliver_next(world *w)
{
    int best = -1;
    for (int i = 0; i < w->n_messages; i++)
        if (w->messages[i].at <= w->now && (best < 0 || w->messages[i].at < w->messages[best].at))
            best = i;
    if (best >= 0)
        deliver(w, best);
    return best >= 0;
}

static void die(world *w, process *p, bool leaves)
{
    uint64_t key = p->key;
    p->state = ABSENT;
    if (key != w->roster_server) {
        if (w->roster_server) {
            message *x = post(w, key, w->roster_server); /* the end of its connection comes after all it said */
            x->e = (mr_roster_event){.message = leaves ? MR_ROSTER_LEAVE : MR_ROSTER_GONE, .who = key};
        }
        return;
    }
    w->roster_server = 0;
    mr_roster_deinit(&w->roster);
    for (int i = 0; i < MOST; i++) { /* who had a connection to it sees its end, at some time */
        process *q = &w->p[i];
        if (q->state == ABSENT || q->roster_server != key)
            continue;
        q->lost = key;
        ask(w, q);
    }
}

static void come(world *w, process *p)
{
    *p = (process){.key = ++w->next_key};
    ask(w, p);
}

static void something(world *w)
{
    process *p = &w->p[roll(w, MOST)];
    if (p->state == ABSENT)
        come(w, p);
    else if (roll(w, 3) == 0)
        die(w, p, roll(w, 2) == 0);
}

/* All that live are in one generation. */
static bool is_settled(world *w)
{
    process *first = NULL;
    int n = 0;
    for (int i = 0; i < MOST; i++) {
        process *p = &w->p[i];
        if (p->state == ABSENT)
            continue;
        first = first ? first : p;
        if (p->state != IN || p->generation != first->generation || p->named != first->named)
            return false;
        n++;
    }
    return !first || first->n_peers == n;
}

static void story(uint64_t seed)
{
    world *w = mr_new(world);
    const int64_t begin = 1000000; /* clocks do not begin at 0 */
    w->random = seed * 977 + 11;
    w->now = begin;
    for (int i = 0; i < 4; i++)
        come(w, &w->p[i]);
    for (w->now = begin; w->now < begin + 6000; w->now++) {
        if (w->now < begin + 1500 && roll(w, 60) == 0)
            something(w);
        if (w->now == begin + 1500) /* enough for a first generation, whatever happened */
            for (int i = 0; i < 4; i++)
                if (w->p[i].state == ABSENT)
                    come(w, &w->p[i]);
        while (deliver_next(w))
            ;
        if (w->roster_server && w->now >= mr_roster_next_ns(&w->roster))
            tell_roster_server(w, (mr_roster_event){.message = MR_ROSTER_TICK});
        if (w->now > begin + 1600 && w->n_messages == 0 && is_settled(w))
            break;
    }
    if (!is_settled(w))
        mr_test_fail(__FILE__, __LINE__, "seed %llu: the living are not together at the end", (unsigned long long)seed);
    if (w->roster_server)
        mr_roster_deinit(&w->roster);
    mr_free(w);
}

MR_TEST(group_roster_brings_the_living_together_in_thousands_of_random_stories)
{
    mr_test_deadline(120);
    for (uint64_t seed = 1; seed <= 4000; seed++)
        story(seed);
}
