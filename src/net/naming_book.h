/* net/naming_book.h -- what a task knows about where the others are.
 *
 * No I/O, no threads: it takes what a naming service reports and returns what follows from it.  An address that was
 * known stays known when its entry disappears: the service may have lost it, not the task.  Heartbeats decide whether
 * the task is gone. */
#ifndef MR_NET_NAMING_BOOK_H
#define MR_NET_NAMING_BOOK_H

#include "net/naming.h"

typedef struct mr_book_task {
    mr_naming_entry entry; /* address "": none is known; incarnation 0: it is the one from the cluster's spec */
    bool told;             /* the service has reported on it, even if only that there is no entry */
    bool there;            /* its entry exists now */
    bool bad;              /* its entry cannot be parsed */
    int moves;             /* how often its address or its incarnation has changed */
} mr_book_task;

typedef struct mr_book {
    int n;
    mr_book_task *tasks;
} mr_book;

typedef enum mr_book_news {
    MR_BOOK_NOTHING, /* as before */
    MR_BOOK_FOUND,   /* an address, for the first time; or its entry exists again */
    MR_BOOK_MOVED,   /* another process than before, or another address: it needs a new route */
    MR_BOOK_ABSENT,  /* there is no entry, and no address is known */
    MR_BOOK_LEFT,    /* the entry is gone; the address is as it was */
    MR_BOOK_BAD,     /* the entry cannot be parsed, and is ignored */
} mr_book_news;

void mr_book_init(mr_book *b, int n);
void mr_book_deinit(mr_book *b);
/* Before the first report: an address from the cluster's spec.  One with port 0 is ignored. */
void mr_book_expect(mr_book *b, int task, const char *address);
/* The service's report; value.p NULL: there is no entry. */
mr_book_news mr_book_found(mr_book *b, int task, mr_sv value);
/* NULL: none is known. */
const char *mr_book_address(const mr_book *b, int task);

#endif
