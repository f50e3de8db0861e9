/* ps/request.h -- a client's push, pull or reduction as a message: Request in docs/formats/ps.md.
 *
 * One message has the parts of one task that go to one server. What all parts share is said once,
 * the rest in lists of numbers, so a part costs only a few bytes. Keys and floats of all parts
 * follow each other. */
#ifndef MR_PS_REQUEST_H
#define MR_PS_REQUEST_H

#include "ps/codec.h"
#include "ps/keys.h"
#include "ps/wire.h"

typedef enum mr_ps_key_form { MR_PS_KEYS_RAW, MR_PS_KEYS_PACKED, MR_PS_KEYS_HASH } mr_ps_key_form;

typedef struct mr_ps_request {
    uint64_t client, ts;
    int table;
    mr_ps_change_kind kind;
    bool whole;              /* pull: whole rows */
    mr_ps_algebra what;      /* ALGEBRA, and sums */
    int other;
    double alpha;
    mr_ps_numbers ranges, prevs, epochs, generations; /* one entry per part; prevs: ts - prev */
    mr_ps_numbers counts;    /* keys of each part; empty for a range of keys, where they follow from the ranges */
    uint64_t first, n;       /* a range of keys if n > 0; else a list */
    mr_ps_key_form key_form;
    uint64_t key_hash;
    bool remember;           /* the server shall keep the list under its hash */
    uint64_t key_bytes;
    bool packed;             /* values are packed by ps/codec.h */
    uint64_t value_bytes;
    int answer_form;         /* pull: 0 raw, else 1 + mr_ps_form */
    bool snappy;             /* pull: compress the answer with Snappy */
} mr_ps_request;

void mr_ps_request_deinit(mr_ps_request *q);
void mr_ps_request_put(mr_pb_writer *w, const mr_ps_request *q);
/* Checks that the lists have equal lengths, ranges rise, and enums are in range. */
mr_status *mr_ps_request_get(mr_sv head, int n_ranges, mr_ps_request *out);

/* The keys of part i of a request for a range of keys. */
mr_ps_keys mr_ps_request_range(const mr_ps_request *q, uint64_t num_keys, int n_ranges, int i);

/* The keys and floats of a request in one blob, in the order of the parts. */
typedef struct mr_ps_unpacked {
    mr_ps_blob *blob; /* NULL: no keys in a list and no floats */
    const uint64_t *list; /* NULL: a range of keys */
    const float *floats;
    MR_VEC(mr_ps_keys) parts; /* keys of each part */
    MR_VEC(size_t) at;        /* the first row of each part */
    size_t n_rows;
} mr_ps_unpacked;
/* t: the request's table; width: floats per key (0: none). cache: key lists by client.
 * NOT_FOUND: the request names a list by its hash, and the list is unknown.
 * UNAVAILABLE: the unpacked keys and floats would take more than `most` bytes. */
mr_status *mr_ps_request_unpack(const mr_ps_request *q, const mr_ps_frame *f, const mr_ps_table_spec *t,
                                int n_ranges, size_t width, size_t most, mr_ps_key_cache *cache,
                                mr_ps_unpacked *out);
void mr_ps_unpacked_deinit(mr_ps_unpacked *u);

#endif
