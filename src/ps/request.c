/* ps/request.c -- a client's push, pull or reduction as a message.
 *
 * Unpacking goes in three steps: lay_out says which rows belong to which part, find_list gets the
 * keys, and fill_blob or fill_packed puts keys and floats into one blob that pushes and records then
 * share. The message comes from a client and may be wrong in any way: every size is compared with
 * the bytes that exist before memory is allocated for it.
 *
 * Invariant after lay_out: parts and at have one entry per range of the request, and at[i] +
 * parts[i].n is at[i + 1], or n_rows for the last. */
#include "ps/request.h"

void mr_ps_request_deinit(mr_ps_request *q)
{
    mr_vec_deinit(&q->ranges);
    mr_vec_deinit(&q->prevs);
    mr_vec_deinit(&q->epochs);
    mr_vec_deinit(&q->generations);
    mr_vec_deinit(&q->counts);
}

/* Writes fields 1 to 23 of Request; zeros and empty lists are left out. The keys and values follow as raw bytes. */
void mr_ps_request_put(mr_pb_writer *w, const mr_ps_request *q)
{
    mr_pb_put_fixed64(w, 1, q->client);
    mr_pb_opt_varint(w, 2, (uint64_t)q->table);
    mr_pb_opt_varint(w, 3, (uint64_t)q->kind);
    mr_pb_opt_varint(w, 4, q->ts);
    mr_ps_put_numbers(w, 5, &q->ranges);
    mr_ps_put_numbers(w, 6, &q->prevs);
    mr_ps_put_numbers(w, 7, &q->epochs);
    mr_ps_put_numbers(w, 8, &q->generations);
    mr_ps_put_numbers(w, 9, &q->counts);
    mr_pb_opt_varint(w, 10, q->first);
    mr_pb_opt_varint(w, 11, q->n);
    mr_pb_opt_varint(w, 12, (uint64_t)q->key_form);
    mr_pb_opt_fixed64(w, 13, q->key_hash);
    mr_pb_opt_varint(w, 14, q->key_bytes);
    mr_pb_opt_varint(w, 15, q->packed);
    mr_pb_opt_varint(w, 16, q->value_bytes);
    mr_pb_opt_varint(w, 17, (uint64_t)q->what);
    mr_pb_opt_varint(w, 18, (uint64_t)(unsigned)q->other);
    mr_pb_opt_double(w, 19, q->alpha);
    mr_pb_opt_varint(w, 20, q->remember);
    mr_pb_opt_varint(w, 21, q->whole);
    mr_pb_opt_varint(w, 22, (uint64_t)q->answer_form);
    mr_pb_opt_varint(w, 23, q->snappy);
}

/* Fields 1 to 23 of Request. Errors are left in r. */
static void get_fields(mr_pb_reader *r, int max, mr_ps_request *q)
{
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: q->client = mr_pb_fixed64(r); break;
        case 2: q->table = mr_pb_int32(r); break;
        case 3: q->kind = (mr_ps_change_kind)mr_pb_int32(r); break;
        case 4: q->ts = mr_pb_varint(r); break;
        case 5: mr_ps_get_numbers(r, max, &q->ranges); break;
        case 6: mr_ps_get_numbers(r, max, &q->prevs); break;
        case 7: mr_ps_get_numbers(r, max, &q->epochs); break;
        case 8: mr_ps_get_numbers(r, max, &q->generations); break;
        case 9: mr_ps_get_numbers(r, max, &q->counts); break;
        case 10: q->first = mr_pb_varint(r); break;
        case 11: q->n = mr_pb_varint(r); break;
        case 12: q->key_form = (mr_ps_key_form)mr_pb_int32(r); break;
        case 13: q->key_hash = mr_pb_fixed64(r); break;
        case 14: q->key_bytes = mr_pb_varint(r); break;
        case 15: q->packed = mr_pb_bool(r); break;
        case 16: q->value_bytes = mr_pb_varint(r); break;
        case 17: q->what = (mr_ps_algebra)mr_pb_int32(r); break;
        case 18: q->other = mr_pb_int32(r); break;
        case 19: q->alpha = mr_pb_double(r); break;
        case 20: q->remember = mr_pb_bool(r); break;
        case 21: q->whole = mr_pb_bool(r); break;
        case 22: q->answer_form = mr_pb_int32(r); break;
        case 23: q->snappy = mr_pb_bool(r); break;
        default: mr_pb_skip(r);
        }
}

/* After this, ranges rise and are below n_ranges, so each range occurs at most once. */
mr_status *mr_ps_request_get(mr_sv head, int n_ranges, mr_ps_request *q)
{
    mr_pb_reader r;
    mr_pb_reader_init(&r, head);
    get_fields(&r, n_ranges, q);
    MR_TRY(mr_pb_reader_status(&r, "a parameter server request"));
    int n = q->ranges.n;
    if (q->epochs.n != n || (q->prevs.n && q->prevs.n != n) || (q->generations.n && q->generations.n != n) ||
        (q->counts.n && q->counts.n != n))
        return mr_invalid("A request has %d parts, but %d epochs, %d predecessors, %d generations and %d key counts", n,
                          q->epochs.n, q->prevs.n, q->generations.n, q->counts.n);
    for (int i = 0; i < n; i++)
        if (q->ranges.p[i] >= (uint64_t)n_ranges || (i > 0 && q->ranges.p[i] <= q->ranges.p[i - 1]))
            return mr_invalid("Part %d of a request is for range %llu; ranges must rise and be below %d", i,
                              (unsigned long long)q->ranges.p[i], n_ranges);
    if ((unsigned)q->kind >= MR_PS_CHANGE_KINDS || (unsigned)q->key_form > MR_PS_KEYS_HASH ||
        (unsigned)q->answer_form > 1 + MR_PS_FIXED16)
        return mr_invalid("A request has an unknown kind (%d), key form (%d) or answer form (%d)", (int)q->kind,
                          (int)q->key_form, q->answer_form);
    return NULL;
}

/* The keys that the request asks for and that are in the range of part i; possibly none. */
mr_ps_keys mr_ps_request_range(const mr_ps_request *q, uint64_t num_keys, int n_ranges, int i)
{
    MR_ASSERT(i >= 0 && i < q->ranges.n);
    int range = (int)q->ranges.p[i];
    uint64_t from = MR_MAX(q->first, mr_ps_range_first(num_keys, n_ranges, range));
    uint64_t end = MR_MIN(q->first + q->n, mr_ps_range_first(num_keys, n_ranges, range + 1));
    return (mr_ps_keys){.first = from, .n = end > from ? (size_t)(end - from) : 0};
}

/* ---- unpacking ---- */

void mr_ps_unpacked_deinit(mr_ps_unpacked *u)
{
    mr_ps_blob_unref(u->blob);
    mr_vec_deinit(&u->parts);
    mr_vec_deinit(&u->at);
    *u = (mr_ps_unpacked){0};
}

static mr_status *no_memory(size_t n)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %zu keys of a request", n);
}

/* Which rows belong to each part, before absent rows are left out. */
static mr_status *lay_out(const mr_ps_request *q, const mr_ps_table_spec *t, int n_ranges, mr_ps_unpacked *u)
{
    size_t sum = 0;
    if (q->n && (q->first >= t->o.num_keys || q->n > t->o.num_keys - q->first))
        return mr_invalid("Table '%s' has %llu keys; a request asks for %llu keys from %llu on", t->name,
                          (unsigned long long)t->o.num_keys, (unsigned long long)q->n, (unsigned long long)q->first);
    for (int i = 0; i < q->ranges.n; i++) {
        mr_ps_keys k = {0};
        if (q->n)
            k = mr_ps_request_range(q, t->o.num_keys, n_ranges, i);
        else if (q->counts.n)
            k.n = (size_t)q->counts.p[i];
        mr_vec_push(&u->parts, k);
        mr_vec_push(&u->at, sum);
        if (!mr_size_add(sum, k.n, &sum) || sum > MR_PS_MAX_KEYS)
            return mr_invalid("A request has more than %llu keys", (unsigned long long)MR_PS_MAX_KEYS);
    }
    u->n_rows = sum;
    MR_ASSERT(u->parts.n == q->ranges.n && u->at.n == q->ranges.n);
    return NULL;
}

/* The key list, from the message or from the cache; the caller owns a reference. A list that the
 * client wants remembered goes into the cache under the hash that the client computed. The cache
 * keeps clients apart, so a wrong hash harms only its sender. */
static mr_status *find_list(const mr_ps_request *q, const mr_ps_frame *f, const mr_ps_table_spec *t, size_t n,
                            mr_ps_key_cache *cache, mr_ps_key_list **out)
{
    mr_ps_key_list *l = NULL;
    uint64_t *keys = NULL;
    mr_ps_blob *b = NULL;
    mr_status *st = NULL;
    /* A list of another length under the same hash is not the list that the client means. */
    if (q->key_form == MR_PS_KEYS_HASH) {
        if (!mr_ps_key_cache_get(cache, q->client, q->key_hash, &l) || !l || l->n != n)
            return mr_error(MR_NOT_FOUND, "This server no longer knows the key list of the request's hash");
        *out = mr_ps_key_list_ref(l);
        return NULL;
    }
    if (q->key_form == MR_PS_KEYS_PACKED) {
        MR_GO(mr_ps_frame_take(f, 0, (size_t)q->key_bytes, &b));
        MR_GO(mr_ps_keys_unpack((mr_sv){b->data, b->n}, n, t->o.num_keys, &keys));
    } else if (q->key_bytes / sizeof(uint64_t) != n || q->key_bytes % sizeof(uint64_t) ||
               q->key_bytes > f->raw_n) {
        MR_GO(mr_invalid("A request has %zu keys, but %llu bytes of keys", n, (unsigned long long)q->key_bytes));
    }
    l = mr_ps_key_list_new(keys, n);
    if (!l)
        MR_GO(no_memory(n));
    if (!keys)
        MR_GO(mr_ps_frame_read(f, 0, (size_t)q->key_bytes, l->keys));
    if (q->remember) {
        l->hash = q->key_hash;
        mr_ps_key_cache_put(cache, q->client, q->key_hash, l);
    }
    *out = l;
    l = NULL;
out:
    mr_ps_key_list_unref(l);
    mr_ps_blob_unref(b);
    mr_free(keys);
    return st;
}

/* Copies keys and unpacked floats into one blob. Memory is limited to `most` bytes. */
static mr_status *fill_blob(const mr_ps_request *q, const mr_ps_frame *f, const mr_ps_key_list *l, size_t width,
                            size_t most, mr_ps_unpacked *u)
{
    size_t floats, keys = l ? u->n_rows * sizeof(uint64_t) : 0, key_raw = l ? (size_t)q->key_bytes : 0;
    if (!mr_size_mul(u->n_rows, width * sizeof(float), &floats) || q->value_bytes != floats ||
        key_raw > f->raw_n || q->value_bytes > f->raw_n - key_raw)
        return mr_invalid("A request has %zu keys of %zu floats each, but %llu bytes of values", u->n_rows, width,
                          (unsigned long long)q->value_bytes);
    if (keys > most || floats > most - keys)
        return mr_error(MR_UNAVAILABLE, "No memory for %zu keys of a request at present", u->n_rows);
    u->blob = keys < SIZE_MAX - floats ? mr_ps_blob_new(keys + floats) : NULL;
    if (!u->blob)
        return no_memory(u->n_rows);
    if (l)
        memcpy(u->blob->data, l->keys, keys);
    u->list = l ? (const uint64_t *)u->blob->data : NULL;
    u->floats = (const float *)(u->blob->data + keys);
    return mr_ps_frame_read(f, key_raw, floats, u->blob->data + keys);
}

/* The counterpart of fill_blob for packed values. Rows that the packing left out disappear from the
 * parts; for a range of keys the rows that remain become a list. */
static mr_status *gather_rows(const mr_ps_request *q, const mr_ps_key_list *l, const mr_ps_rows *rows,
                              size_t width, mr_ps_unpacked *u)
{
    size_t floats = rows->n * width * sizeof(float), keys = rows->n * sizeof(uint64_t), at = 0;
    u->blob = mr_ps_blob_new(keys + floats);
    if (!u->blob)
        return no_memory(rows->n);
    uint64_t *list = (uint64_t *)u->blob->data;
    memcpy(u->blob->data + keys, rows->values, floats);
    for (int i = 0; i < u->parts.n; i++) {
        size_t end = u->at.p[i] + u->parts.p[i].n, begin = at;
        for (; at < rows->n; at++) {
            size_t row = rows->rows ? rows->rows[at] : at;
            if (row >= end)
                break;
            list[at] = l ? l->keys[row] : u->parts.p[i].first + (row - u->at.p[i]);
        }
        u->parts.p[i] = (mr_ps_keys){.n = at - begin};
        u->at.p[i] = begin;
    }
    (void)q;
    u->n_rows = rows->n;
    MR_ASSERT(at == rows->n);
    u->list = list;
    u->floats = (const float *)(u->blob->data + keys);
    return NULL;
}

/* `most` limits the unpacked rows, because a few packed bytes may describe many rows. */
static mr_status *fill_packed(const mr_ps_request *q, const mr_ps_frame *f, const mr_ps_key_list *l,
                              size_t width, size_t most, mr_ps_unpacked *u)
{
    mr_ps_blob *b = NULL;
    size_t row = sizeof(uint64_t) + width * sizeof(float);
    mr_ps_rows rows = {0};
    mr_status *st = NULL;
    if (u->n_rows > UINT32_MAX || width > INT32_MAX)
        return mr_invalid("A request has %zu packed rows of %zu floats, which is too many", u->n_rows, width);
    MR_GO(mr_ps_frame_take(f, q->n || q->key_form == MR_PS_KEYS_HASH ? 0 : (size_t)q->key_bytes,
                           (size_t)q->value_bytes, &b));
    MR_GO(mr_ps_rows_unpack_within((mr_sv){b->data, b->n}, u->n_rows, (int)width, most / row, &rows));
    MR_GO(gather_rows(q, l, &rows, width, u));
out:
    mr_ps_rows_deinit(&rows);
    mr_ps_blob_unref(b);
    return st;
}

/* Sets each part's list, now that the list is at its final address. */
static void point_parts(mr_ps_unpacked *u)
{
    for (int i = 0; u->list && i < u->parts.n; i++)
        u->parts.p[i].list = u->list + u->at.p[i];
}

/* On error u may hold memory: the caller calls mr_ps_unpacked_deinit in any case. */
mr_status *mr_ps_request_unpack(const mr_ps_request *q, const mr_ps_frame *f, const mr_ps_table_spec *t,
                                int n_ranges, size_t width, size_t most, mr_ps_key_cache *cache,
                                mr_ps_unpacked *u)
{
    mr_ps_key_list *l = NULL;
    mr_status *st = NULL;
    *u = (mr_ps_unpacked){0};
    MR_GO(lay_out(q, t, n_ranges, u));
    if (q->n == 0 && u->n_rows > 0) {
        MR_GO(find_list(q, f, t, u->n_rows, cache, &l));
        MR_GO(mr_ps_keys_check(l->keys, l->n, t->o.num_keys));
    }
    if (width == 0 && !l)
        goto out; /* a range of keys without values is already complete */
    if (q->packed && width > 0)
        MR_GO(fill_packed(q, f, l, width, most, u));
    else
        MR_GO(fill_blob(q, f, l, width, most, u));
    point_parts(u);
out:
    mr_ps_key_list_unref(l);
    return st;
}
