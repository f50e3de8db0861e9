/* net/naming_book.h -- what a task knows of where the others are.
 *
 * Pure: what a naming service says goes in, what is to be done about it comes out.  An address that was known stays known when
 * its entry goes: the service may have lost it, not the task; whether the task is gone say heartbeats. */
#ifndef MR_NET_NAMING_BOOK_H
#define MR_NET_NAMING_BOOK_H

#include "net/naming.h"

typedef struct mr_book_task {
    mr_naming_entry entry; /* address "": none is known; incarnation 0: it is the one from the cluster's spec */
    bool told;             /* something was heard of it, be it that there is nothing */
    bool there;            /* its entry is there now */
    bool bad;              /* there is something that cannot be read */
    int moves;             /* how often its address or its life has changed */
} mr_book_task;

typedef struct mr_book {
    int n;
    mr_book_task *tasks;
} mr_book;

typedef enum mr_book_news {
    MR_BOOK_NOTHING, /* as before */
    MR_BOOK_FOUND,   /* an address, for the first time; or its entry is there again */
    MR_BOOK_MOVED,   /* another process than before, or another address: the way to it is another one */
    MR_BOOK_ABSENT,  /* nothing stands there, and no address is known */
    MR_BOOK_LEFT,    /* nothing stands there any more; the address is as it was */
    MR_BOOK_BAD,     /* something that is no entry: as if nothing had been said */
} mr_book_news;

void mr_book_init(mr_book *b, int n);
void mr_book_deinit(mr_book *b);
/* Before the first news: an address from the cluster's spec.  Port 0 is none. */
void mr_book_expect(mr_book *b, int task, const char *address);
/* What the service says; value.p NULL: nothing stands there. */
mr_book_news mr_book_found(mr_book *b, int task, mr_sv value);
/* NULL: none is known. */
const char *mr_book_address(const mr_book *b, int task);

#endif
