/* net/naming_book.c -- what a task knows about where the others are.
 *
 * An address that is known stays known when its entry disappears: the service may have lost it, not
 * the task. A task has moved if its address or its incarnation changed; `moves` counts that.
 *
 *     report             known address   news
 *     no entry           none            ABSENT the first time, then NOTHING
 *     no entry           some            LEFT if there was an entry, else NOTHING
 *     not readable       any             BAD the first time, then NOTHING
 *     entry              none            FOUND
 *     entry              the same        FOUND if there was no entry, else NOTHING
 *     entry              another         MOVED */
#include "net/naming_book.h"

#include "base/memory.h"

/* n tasks, none of which is known. */
void mr_book_init(mr_book *b, int n) { *b = (mr_book){.n = n, .tasks = mr_new_array(mr_book_task, n + 1)}; }

void mr_book_deinit(mr_book *b)
{
    mr_free(b->tasks);
    *b = (mr_book){0};
}

/* An address that no entry could have, such as one with port 0, is ignored: the naming service will provide another
 * one. Its incarnation is 0, since no process has been seen there. */
void mr_book_expect(mr_book *b, int task, const char *address)
{
    MR_ASSERT(task >= 0 && task < b->n && !b->tasks[task].told);
    mr_naming_entry e;
    mr_status *st = mr_naming_entry_init(&e, address, 1); /* port 0 is refused */
    e.incarnation = 0;
    if (!st)
        b->tasks[task].entry = e;
    mr_status_free(st);
}

const char *mr_book_address(const mr_book *b, int task)
{
    MR_ASSERT(task >= 0 && task < b->n);
    return b->tasks[task].entry.address[0] ? b->tasks[task].entry.address : NULL;
}

/* The entry is gone, or there was none. Only a change is news: the first answer, or an entry that existed before. */
static mr_book_news entry_left(mr_book_task *t)
{
    bool first = !t->told, was_there = t->there;
    t->told = true;
    t->there = t->bad = false;
    if (t->entry.address[0])
        return was_there ? MR_BOOK_LEFT : MR_BOOK_NOTHING;
    return first || was_there ? MR_BOOK_ABSENT : MR_BOOK_NOTHING;
}

/* Whether an entry is for the process that is known already. An address from the cluster's spec has no
 * incarnation; the first process there is the expected one. */
static bool is_same(const mr_naming_entry *have, const mr_naming_entry *now)
{
    return strcmp(have->address, now->address) == 0 &&
           (have->incarnation == now->incarnation || have->incarnation == 0);
}

/* An entry that cannot be read is reported once, and otherwise ignored: the task stays where it was. */
mr_book_news mr_book_found(mr_book *b, int task, mr_sv value)
{
    MR_ASSERT(task >= 0 && task < b->n);
    mr_book_task *t = &b->tasks[task];
    mr_naming_entry now;
    if (!value.p)
        return entry_left(t);
    if (!mr_naming_decode(value, &now)) {
        bool known = t->bad;
        t->told = t->bad = true;
        return known ? MR_BOOK_NOTHING : MR_BOOK_BAD;
    }
    bool had = t->entry.address[0] != 0, same = had && is_same(&t->entry, &now), was_there = t->there;
    MR_ASSERT(had || !was_there); /* an entry that exists has an address */
    t->told = t->there = true;
    t->bad = false;
    t->moves += had && !same;
    t->entry = now;
    return had && !same ? MR_BOOK_MOVED : was_there ? MR_BOOK_NOTHING : MR_BOOK_FOUND;
}
