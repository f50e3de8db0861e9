/* ps/inbox.c -- a thread that handles one event after the other.
 *
 * The thread takes the whole list of notes at once, so a sender holds the lock only to append,
 * however busy the thread is. `turn` then runs once for the whole batch; that is where messages to
 * the same peer are put together.
 *
 * Invariant under `mu`: `last` points at the link behind the last note, which is `first` itself if
 * the list is empty. Notes and turn run without the lock, because they put notes into this and
 * other inboxes. */
#include "ps/inbox.h"

#include <string.h>

#include "base/clock.h"

/* Empties the inbox; the caller owns the list. */
static mr_ps_note *take_all_locked(mr_ps_inbox *b) MR_REQUIRES(b->mu);
static mr_ps_note *take_all_locked(mr_ps_inbox *b)
{
    mr_ps_note *n = b->first;
    b->first = NULL;
    b->last = &b->first;
    return n;
}

/* Handles a batch of notes, then the turn. A note may be freed by its own function, so the next one
 * is read before the call. */
static void carry_out(mr_ps_inbox *b, mr_ps_note *n)
{
    while (n) {
        mr_ps_note *next = n->next;
        n->fn(b->owner, n);
        n = next;
    }
    if (b->turn)
        b->turn(b->owner);
}

/* The thread. It wakes for a note, for the next tick, or to close; it ends only when the inbox is
 * empty and closing, so notes that were put in before mr_ps_inbox_stop are all handled. */
static void run_thread(void *arg)
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

/* The first tick comes at once. After an error the inbox is as it was before. */
mr_status *mr_ps_inbox_start(mr_ps_inbox *b, const char *name)
{
    MR_ASSERT(b->owner && b->tick && !b->running);
    mr_mutex_init(&b->mu);
    mr_cond_init(&b->wake);
    b->first = NULL;
    b->last = &b->first;
    b->closing = false;
    int e = mr_thread_start(&b->thread, name, run_thread, b);
    b->running = e == 0;
    if (!e)
        return NULL;
    mr_cond_deinit(&b->wake);
    mr_mutex_deinit(&b->mu);
    return mr_error(MR_RESOURCE_EXHAUSTED, "Cannot start thread %s: %s", name, strerror(e));
}

/* A thread that still has notes to fetch needs no signal: it looks again before it sleeps. */
void mr_ps_inbox_put(mr_ps_inbox *b, mr_ps_note *n, void (*fn)(void *owner, mr_ps_note *n))
{
    MR_ASSERT(fn);
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

/* Does nothing if the thread was never started, or has ended. */
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

typedef struct question { /* on the stack of mr_ps_inbox_ask until `done` */
    mr_ps_note note; /* first */
    void (*fn)(void *owner, void *arg);
    void *arg;
    mr_mutex mu;
    mr_cond answered;
    bool done MR_GUARDED_BY(mu);
} question;

/* The asker frees the question as soon as it sees `done`, so nothing touches it after the unlock. */
static void answer_question(void *owner, mr_ps_note *n)
{
    question *q = (question *)n;
    q->fn(owner, q->arg);
    mr_lock(&q->mu);
    q->done = true;
    mr_cond_signal(&q->answered);
    mr_unlock(&q->mu);
}

/* The question waits behind the notes that are in the inbox already. Called from the thread itself it would wait for
 * ever. */
void mr_ps_inbox_ask(mr_ps_inbox *b, void (*fn)(void *owner, void *arg), void *arg)
{
    if (!b->running) {
        fn(b->owner, arg);
        return;
    }
    question q = {.fn = fn, .arg = arg};
    mr_mutex_init(&q.mu);
    mr_cond_init(&q.answered);
    mr_ps_inbox_put(b, &q.note, answer_question);
    mr_lock(&q.mu);
    while (!q.done)
        mr_cond_wait(&q.answered, &q.mu);
    mr_unlock(&q.mu);
    mr_cond_deinit(&q.answered);
    mr_mutex_deinit(&q.mu);
}
