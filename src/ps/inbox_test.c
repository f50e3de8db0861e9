/* ps/inbox_test.c -- notes are carried out one after the other, in their order. */
#include "ps/inbox.h"

#include "base/clock.h"
#include "base/memory.h"
#include "tests/harness/test.h"

typedef struct owner {
    mr_ps_inbox inbox;
    int n, last[2], turns, ticks;
} owner;

typedef struct numbered {
    mr_ps_note note;
    int sender, number;
} numbered;

static int64_t tick(void *o, int64_t now_ns)
{
    ((owner *)o)->ticks++;
    return now_ns + 1000000;
}

static void turn(void *o) { ((owner *)o)->turns++; }

static void take(void *arg, mr_ps_note *n)
{
    owner *o = arg;
    numbered *x = (numbered *)n;
    MR_CHECK_INT(x->number, ++o->last[x->sender]);
    o->n++;
    mr_free(x);
}

static void send_all(void *arg, int sender)
{
    owner *o = arg;
    for (int i = 1; i <= 2000; i++) {
        numbered *x = mr_new(numbered);
        *x = (numbered){.sender = sender, .number = i};
        mr_ps_inbox_put(&o->inbox, &x->note, take);
    }
}

static void other(void *arg) { send_all(arg, 1); }
static void look(void *o, void *arg) { *(int *)arg = ((owner *)o)->ticks; }

MR_TEST(ps_inbox_keeps_the_order_of_each_sender)
{
    owner o = {0};
    mr_thread t;
    int ticks = 0;
    o.inbox = (mr_ps_inbox){.owner = &o, .tick = tick, .turn = turn};
    MR_CHECK_OK(mr_ps_inbox_start(&o.inbox, "test"));
    MR_CHECK_INT(mr_thread_start(&t, "other", other, &o), 0);
    send_all(&o, 0);
    mr_thread_join(&t);
    while (ticks < 3) /* time passes for it too */
        mr_ps_inbox_ask(&o.inbox, look, &ticks);
    mr_ps_inbox_stop(&o.inbox);
    MR_CHECK_INT(o.n, 4000);
    MR_CHECK(o.turns > 0);
}
