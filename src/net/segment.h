/* net/segment.h -- memory that two processes share.
 *
 * The sender makes segments, writes a message's large pieces into one and lends it to the receiver,
 * which reads them in place and returns the segment; then the sender fills it again.  A segment is
 * an anonymous file, sealed so that nobody can make it shorter while it is read.  Its descriptor is
 * sent once; afterwards both sides know it by a small number.
 *
 * Each connection has one pool (what we send) and one table (what we receive).  Neither locks: a
 * pool is used under its connection's lock, a table by the thread that reads.  Only loans may end in
 * any thread. */
#ifndef MR_NET_SEGMENT_H
#define MR_NET_SEGMENT_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/thread.h"
#include "net/budget.h"

enum {
    MR_SEGMENTS = 512, /* of one connection and direction; numbers are 1 .. MR_SEGMENTS */
    MR_SEGMENT_ALIGN = 64,
};

/* ---- files ---- */

/* A sealed anonymous file of this size with all its pages; -1: the system has no memory for it. */
int mr_segment_file_new(size_t bytes);
/* Checks that a file from a peer is such a file, of this size; INVALID_ARGUMENT if not. */
mr_status *mr_segment_file_check(int fd, int64_t bytes);

/* ---- sending ---- */

typedef struct mr_segment {
    uint32_t id;
    size_t bytes;
    char *data; /* NULL: not made yet */
    int fd;     /* -1 once the caller has taken it to send it to the receiver */
    bool lent;
    int64_t returned_ns;
} mr_segment;

typedef struct mr_segment_pool {
    mr_net_budget *budget; /* shared with other connections */
    mr_segment *segments[MR_SEGMENTS];
    MR_VEC(uint32_t)
    gone; /* numbers the receiver is to forget, before any new segment is announced */
} mr_segment_pool;

/* A segment of at least n bytes, lent from now on: one that was returned, or a new one that is still
 * to be made. NULL: there are too many. */
mr_segment *mr_segment_take(mr_segment_pool *p, size_t n);
/* Makes a new segment, which takes a while: without the pool's lock.  false: the budget or the
 * system has no memory; then trim and try again, or discard it and send another way. */
bool mr_segment_make(mr_segment_pool *p, mr_segment *s);
void mr_segment_discard(mr_segment_pool *p, mr_segment *s);
/* The receiver returned it; false: the receiver does not have it. */
bool mr_segment_return(mr_segment_pool *p, uint64_t id, int64_t now_ns);
/* Frees segments that were returned before then. */
void mr_segment_trim(mr_segment_pool *p, int64_t before_ns);
void mr_segment_pool_deinit(mr_segment_pool *p);

/* ---- receiving ---- */

typedef struct mr_mapping mr_mapping;

typedef struct mr_segment_table {
    mr_mapping *mappings[MR_SEGMENTS];
    size_t bytes;
    size_t limit; /* of addresses, not of memory: pages count where they are written */
    /* The owner is kept by each loan (keep) until it is over (returned), from any thread. */
    void *owner;
    void (*keep)(void *owner);
    void (*returned)(void *owner, uint32_t id);
} mr_segment_table;

/* Maps the file of a new segment; closes fd in any case.  A violation of the protocol is
 * INVALID_ARGUMENT. */
mr_status *mr_segment_map(mr_segment_table *t, uint64_t id, int64_t bytes, int fd);
mr_status *mr_segment_forget(mr_segment_table *t, uint64_t id);

/* A message in a segment: lives until the caller and every piece have dropped it. */
typedef struct mr_loan mr_loan;
mr_status *mr_loan_begin(mr_segment_table *t, uint64_t id, mr_loan **out);
mr_status *mr_loan_piece(mr_loan *l, uint64_t offset, uint64_t n, mr_piece *out);
void mr_loan_drop(void *loan);
void mr_segment_table_deinit(mr_segment_table *t); /* loans stay valid */

#endif
