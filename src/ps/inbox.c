/* ps/inbox.c -- a thread that does one thing after the other.
 *
 * All notes that are there are taken out at once, so that a sender meets the lock of a busy thread only for the moment of a
 * list's hand-over; `turn` then runs once for all of them, which is where messages to the same peer are put together. */
#include "ps/inbox.h"

#include <string.h>

#include "base/clock.h"

static mr_ps_note *take_all_locked(mr_ps_inbox *b) MR_REQUIRES(b->mu);
static mr_ps_note *take_all_locked(mr_ps_inbox *b)
{
    mr_ps_note *n = b->first;
    b->first = NULL;
    b->last = &b->first;
    return n;
}

static void carry_out(mr_ps_inbox *b, mr_ps_note *n)
{
    while (n) {
        mr_ps_note *next = n->next; /* the note may be gone after its turn */
        n->fn(b->owner, n);
        n = next;
    }
    if (b->turn)
        b->turn(b->owner);
}

static void run(void *arg)
{
    mr_ps_inbox *b = arg;
    int64_t at_ns = mr_now_ns();
    mr_lock(&b->mu);
    for (;;) {
        while (!b->first && !b->closing && mr_cond_wait_until(&b->wake, &b->mu, at_ns))
            ;
        mr_ps_note *n = take_all_locked(b);
        if (!n && b->closing)
            break;
        mr_unlock(&b->mu);
        carry_out(b, n);
        int64_t now = mr_now_ns();
        if (now >= at_ns) {
            at_ns = b->tick(b->owner, now);
            if (b->turn)
                b->turn(b->owner);
        }
        mr_lock(&b->mu);
    }
    mr_unlock(&b->mu);
}

mr_status *mr_ps_inbox_start(mr_ps_inbox *b, const char *name)
{
    mr_mutex_init(&b->mu);
    mr_cond_init(&b->wake);
    b->first = NULL;
    b->last = &b->first;
    b->closing = false;
    int e = mr_thread_start(&b->thread, name, run, b);
    b->running = e == 0;
    if (!e)
        return NULL;
    mr_cond_deinit(&b->wake);
    mr_mutex_deinit(&b->mu);
    return mr_error(MR_RESOURCE_EXHAUSTED, "no thread %s: %s", name, strerror(e));
}

void mr_ps_inbox_put(mr_ps_inbox *b, mr_ps_note *n, void (*fn)(void *owner, mr_ps_note *n))
{
    n->fn = fn;
    n->next = NULL;
    mr_lock(&b->mu);
    bool was_empty = !b->first;
    *b->last = n;
    b->last = &n->next;
    if (was_empty)
        mr_cond_signal(&b->wake);
    mr_unlock(&b->mu);
}

void mr_ps_inbox_stop(mr_ps_inbox *b)
{
    if (!b->running)
        return;
    mr_lock(&b->mu);
    b->closing = true;
    mr_cond_signal(&b->wake);
    mr_unlock(&b->mu);
    mr_thread_join(&b->thread);
    b->running = false;
    mr_cond_deinit(&b->wake);
    mr_mutex_deinit(&b->mu);
}

typedef struct question {
    mr_ps_note note; /* first */
    void (*fn)(void *owner, void *arg);
    void *arg;
    mr_mutex mu;
    mr_cond answered;
    bool done MR_GUARDED_BY(mu);
} question;

static void answer(void *owner, mr_ps_note *n)
{
    question *q = (question *)n;
    q->fn(owner, q->arg);
    mr_lock(&q->mu);
    q->done = true;
    mr_cond_signal(&q->answered);
    mr_unlock(&q->mu);
}

void mr_ps_inbox_ask(mr_ps_inbox *b, void (*fn)(void *owner, void *arg), void *arg)
{
    if (!b->running) {
        fn(b->owner, arg);
        return;
    }
    question q = {.fn = fn, .arg = arg};
    mr_mutex_init(&q.mu);
    mr_cond_init(&q.answered);
    mr_ps_inbox_put(b, &q.note, answer);
    mr_lock(&q.mu);
    while (!q.done)
        mr_cond_wait(&q.answered, &q.mu);
    mr_unlock(&q.mu);
    mr_cond_deinit(&q.answered);
    mr_mutex_deinit(&q.mu);
}
