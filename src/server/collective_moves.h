/* server/collective_moves.h -- shared by the files that decide which pieces of an exchange go where; for
 * collective_*.c. */
#ifndef MR_SERVER_COLLECTIVE_MOVES_H
#define MR_SERVER_COLLECTIVE_MOVES_H

#include "server/collective_internal.h"

enum { MR_X_RAW, MR_X_FINAL, MR_X_HEAD }; /* phases of an mr_xname */

static inline int64_t mr_x_size(const mr_exchange *x) { return (int64_t)mr_dtype_size(x->call.type); }
static inline int64_t mr_x_chunk(const mr_exchange *x) { return MR_MAX(x->all->chunk_bytes / mr_x_size(x), 1); } /* elements */
static inline int64_t mr_x_chunks(const mr_exchange *x, int64_t n) { return (n + mr_x_chunk(x) - 1) / mr_x_chunk(x); }
static inline char *mr_x_at(const mr_tensor *t, int64_t i) { return (char *)t->data + i * (int64_t)mr_dtype_size(t->dtype); }

/* ---- collective_moves.c ---- */
/* then(q, reply) is called with ctx and `at` in q; bytes -1: as many as there are. */
void mr_x_fetch(mr_exchange *x, int from, mr_xname name, int64_t bytes, void (*then)(mr_xrequest *q, mr_bytes *reply), void *ctx,
                int64_t at);
/* Offers n elements of t, from `at` on, to n_others members. */
void mr_x_offer(mr_exchange *x, mr_xname name, const mr_tensor *t, int64_t at, int64_t n, int64_t n_others);
/* Copies the reply into the output, from element `at` on.  Error unless it has exactly that many bytes. */
mr_status *mr_x_put(mr_exchange *x, int64_t at, int64_t bytes, mr_bytes *reply);
/* The same as the `then` of a request: to q->at. */
void mr_x_put_it(mr_xrequest *q, mr_bytes *reply);
/* Makes the output: the input's shape with another number of rows. */
mr_status *mr_x_new_output(mr_exchange *x, int64_t rows);
mr_status *mr_x_check_rows(const mr_tensor *t, int64_t n, bool exactly);

/* ---- collective_reduce.c ---- */
/* Among many members, up to this many bytes per member are reduced by halving, and more in a ring.  Measured with
 * bench/collectives on one host with 9, 12 and 16 members: between half of this and this, halving took 0.5 to 0.8 of
 * the ring's time; at twice as much both took equally long for some; at ten times the ring took 0.7 to 0.9 of halving's
 * time. */
enum { MR_X_HALVING_BYTES = 128 << 10 };
/* DIRECT, RING or HALVING; the same at all members whose environments and calls are the same. */
mr_group_algorithm mr_x_choose(const mr_exchange *x);
mr_status *mr_x_all_reduce(mr_exchange *x);
mr_status *mr_x_reduce_scatter(mr_exchange *x);
/* The n numbers of a reply: in place if they are aligned, otherwise copied to *tmp (made if it is NULL). */
mr_status *mr_x_numbers(mr_exchange *x, int64_t n, mr_bytes *reply, mr_tensor **tmp, const void **out);
/* Runs a task that merges this many bytes, perhaps on another thread; the exchange waits for it (mr_exchange_less). */
void mr_x_merge_soon(mr_exchange *x, int64_t bytes, mr_task *t);

/* ---- collective_halving.c ---- */
mr_status *mr_x_reduce_by_halving(mr_exchange *x);
void mr_x_forget_flows(mr_exchange *x);

#endif
