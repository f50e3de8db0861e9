/* ps/codec.c -- see codec.h, which describes the layout.
 *
 * Packing gathers the present rows into one array, in the order of the layout, and writes it;
 * unpacking goes the same way back. Bytes of a peer are checked before use: after open_packed the
 * row numbers rise and are below n_rows, and exactly the bytes of their values follow. */
#include "ps/codec.h"

#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "base/simd.h"
#include "tensor/dtype.h"
#include "wire/pb.h"
#include "wire/snappy.h"

enum { ROWS_ALL, ROWS_BITS, ROWS_GAPS, ROWS_NONE };
enum { RUN = 256, BY_COLUMN = 8, SNAPPY = 4 };

static bool by_column(int width) { return width <= BY_COLUMN; }

static mr_status *no_memory(size_t n_rows, int width)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "values: no memory for %zu rows of %d floats", n_rows, width);
}

/* Scales that precede n values. */
static size_t scales_of(mr_ps_form form, size_t n) { return form == MR_PS_FIXED16 ? (n + RUN - 1) / RUN : 0; }

/* Bytes of n values with their scales. */
static size_t packed_bytes(mr_ps_form form, size_t n)
{
    return scales_of(form, n) * sizeof(float) + n * (form == MR_PS_FLOAT32 ? sizeof(float) : 2);
}

/* *n is the number of values, if the sizes of everything made of them can be computed without
 * overflow. */
static mr_status *count_values(size_t n_rows, int width, size_t *n)
{
    if (width < 1 || n_rows > UINT32_MAX || !mr_size_mul(n_rows, (size_t)width, n) || *n > SIZE_MAX / 16)
        return mr_invalid("values: %zu rows of %d floats are too many", n_rows, width);
    return NULL;
}

/* ---- 16 bits ---- */

/* A pseudo-random number in [0, 1) for the i-th value. */
MR_INLINE float dither(uint32_t seed, uint32_t i)
{
    uint32_t z = i * 0x9e3779b9u + seed;
    z = (z ^ z >> 16) * 0x85ebca6bu;
    z = (z ^ z >> 13) * 0xc2b2ae35u;
    return (float)((z ^ z >> 16) >> 8) * 0x1p-24f;
}

/* Rounds a run of values up or down at random: floor(x + dither) has the mean x. */
MR_CLONES static void fix_run(const float *v, size_t n, float scale, uint32_t seed, uint8_t *low, uint8_t *high)
{
    for (size_t i = 0; i < n; i++) {
        float x = floorf(v[i] / scale * 32767 + dither(seed, (uint32_t)i));
        x = x < -32767 ? -32767 : x > 32767 ? 32767 : x;
        int32_t q = (int32_t)x;
        low[i] = (uint8_t)q;
        high[i] = (uint8_t)(q >> 8);
    }
}

/* The largest magnitude; false if a value is not finite. Has no early exit, so that it is
 * vectorised. */
MR_CLONES static bool largest(const float *v, size_t n, float *out)
{
    float top = 0;
    uint32_t finite = 1;
    for (size_t i = 0; i < n; i++) {
        float x = fabsf(v[i]);
        finite &= x <= FLT_MAX; /* false for NaN too */
        top = x > top ? x : top;
    }
    *out = top;
    return finite;
}

/* Each run of 256 values has its own scale, so that one large value spoils only its run. */
static mr_status *pack_fixed(const float *v, size_t n, uint64_t seed, uint8_t *out)
{
    uint8_t *low = out + scales_of(MR_PS_FIXED16, n) * sizeof(float), *high = low + n;
    for (size_t at = 0; at < n; at += RUN) {
        size_t m = MR_MIN(n - at, (size_t)RUN);
        float scale;
        if (!largest(v + at, m, &scale))
            return mr_invalid("values: one of values %zu to %zu is not finite; fixed point needs finite values", at,
                              at + m - 1);
        if (scale < FLT_MIN) { /* a division by a denormal could overflow */
            scale = 0;
            memset(low + at, 0, m);
            memset(high + at, 0, m);
        } else {
            uint64_t mixed = (seed + at / RUN) * 0x9e3779b97f4a7c15u;
            fix_run(v + at, m, scale, (uint32_t)(mixed >> 32), low + at, high + at);
        }
        memcpy(out + at / RUN * sizeof scale, &scale, sizeof scale);
    }
    return NULL;
}

/* Low and high bytes go to separate arrays, as the layout wants them. */
MR_CLONES static void pack_bf16(const float *v, size_t n, uint8_t *low, uint8_t *high)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = mr_float_to_bf16(v[i]).bits;
        low[i] = (uint8_t)bits;
        high[i] = (uint8_t)(bits >> 8);
    }
}

/* The caller has reserved the room. */
static mr_status *pack_values(const mr_ps_codec *c, const float *v, size_t n, mr_str *out)
{
    uint8_t *to = (uint8_t *)out->p + out->n;
    size_t bytes = packed_bytes(c->form, n);
    if (c->form == MR_PS_FLOAT32)
        memcpy(to, v, bytes);
    else if (c->form == MR_PS_BFLOAT16)
        pack_bf16(v, n, to, to + n);
    else
        MR_TRY(pack_fixed(v, n, c->seed, to));
    out->n += bytes;
    return NULL;
}

/* Unpacks n values, from the k-th of n_all on, to every step-th float of out. */
static void unpack_values(mr_ps_form form, const uint8_t *in, size_t n_all, size_t k, size_t n, float *out, size_t step)
{
    const uint8_t *low = in + scales_of(form, n_all) * sizeof(float), *high = low + n_all;
    if (form == MR_PS_FLOAT32) {
        for (size_t i = 0; i < n; i++)
            memcpy(&out[i * step], in + (k + i) * sizeof(float), sizeof(float));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = (uint16_t)(low[k + i] | high[k + i] << 8);
        float scale;
        if (form == MR_PS_BFLOAT16) {
            out[i * step] = mr_bf16_to_float((mr_bf16){bits});
        } else {
            memcpy(&scale, in + (k + i) / RUN * sizeof scale, sizeof scale);
            out[i * step] = (float)(int16_t)bits * (1.0f / 32767) * scale;
        }
    }
}

/* ---- present rows ---- */

size_t mr_ps_values_nonzero(const float *values, size_t n_rows, int width, uint8_t *present)
{
    size_t count = 0;
    for (size_t i = 0; i < n_rows; i++) {
        bool any = false;
        for (int j = 0; j < width; j++)
            any |= values[i * (size_t)width + (size_t)j] != 0; /* NaN counts */
        present[i] = any;
        count += any;
    }
    return count;
}

/* The caller has reserved the room. */
static void put_varint(mr_str *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        out->p[out->n++] = (char)(v | 0x80);
    out->p[out->n++] = (char)v;
}

/* A bit per row; the bits behind the last row are 0. The caller has reserved the room. */
static void put_bits(mr_str *out, const uint8_t *present, size_t n_rows)
{
    uint8_t *to = (uint8_t *)out->p + out->n;
    memset(to, 0, (n_rows + 7) / 8);
    for (size_t i = 0; i < n_rows; i++)
        to[i / 8] |= (uint8_t)((present[i] != 0) << i % 8);
    out->n += (n_rows + 7) / 8;
}

/* The count of present rows, then for each how many absent rows precede it. The caller has reserved the room. */
static void put_gaps(mr_str *out, const uint8_t *present, size_t n_rows, size_t count)
{
    put_varint(out, count);
    for (size_t i = 0, next = 0; i < n_rows; i++)
        if (present[i]) {
            put_varint(out, i - next);
            next = i + 1;
        }
}

/* The smaller form: a gap usually takes one byte, a bitmap n_rows / 8. */
static int row_form(size_t n_rows, size_t count)
{
    return count == n_rows ? ROWS_ALL : count == 0 ? ROWS_NONE : count < n_rows / 8 ? ROWS_GAPS : ROWS_BITS;
}

/* out->rows has room for n_rows numbers. */
static mr_status *get_bits(mr_pb_reader *r, size_t n_rows, mr_ps_rows *out)
{
    size_t bytes = (n_rows + 7) / 8, n = 0;
    if ((size_t)(r->end - r->at) < bytes)
        return mr_invalid("values: the bitmap of %zu rows is truncated", n_rows);
    if (n_rows % 8 && r->at[bytes - 1] >> n_rows % 8)
        return mr_invalid("values: the bitmap has bits beyond the last of %zu rows", n_rows);
    for (size_t i = 0; i < n_rows; i++)
        if (r->at[i / 8] >> i % 8 & 1)
            out->rows[n++] = (uint32_t)i;
    out->n = n;
    r->at += bytes;
    return NULL;
}

/* Each row takes at least one byte, so out->rows has room for as many rows as the bytes can name. */
static mr_status *get_gaps(mr_pb_reader *r, size_t n_rows, mr_ps_rows *out)
{
    uint64_t count = mr_pb_raw_varint(r), next = 0;
    if (r->error || count > n_rows)
        return mr_invalid("values: more rows than keys (%zu)", n_rows);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t gap = mr_pb_raw_varint(r);
        if (r->error || gap >= n_rows - next)
            return mr_invalid("values: a row number is not below %zu, the number of keys", n_rows);
        out->rows[i] = (uint32_t)(next + gap);
        next += gap + 1;
    }
    out->n = (size_t)count;
    return NULL;
}

/* ---- packing ---- */

/* Copies the present rows in the order of the layout: by column if rows are narrow, else by row. */
static void gather_rows(const float *values, const uint8_t *present, size_t n_rows, size_t width, size_t count,
                        float *to)
{
    size_t k = 0;
    MR_ASSERT(count <= n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        if (present && !present[i])
            continue;
        if (by_column((int)width))
            for (size_t j = 0; j < width; j++)
                to[j * count + k] = values[i * width + j];
        else
            memcpy(to + k * width, values + i * width, width * sizeof(float));
        k++;
    }
    MR_ASSERT(k == count);
}

/* The bytes behind byte 0, before compression. Values that are already in order are packed without
 * a copy. */
static mr_status *pack_body(const mr_ps_codec *c, const float *values, const uint8_t *present, size_t n_rows, int width,
                            size_t count, mr_str *body)
{
    mr_status *st = NULL;
    int rows = row_form(n_rows, count);
    size_t n = count * (size_t)width;
    bool as_is = !present && (width == 1 || !by_column(width));
    float *gathered = as_is ? NULL : mr_try_alloc(n * sizeof(float));
    /* An upper bound: a gap or a count takes up to 5 bytes, a bitmap one byte for 8 rows. */
    size_t most = packed_bytes(c->form, n) + n_rows / 8 + 16 + (rows == ROWS_GAPS ? 5 * count : 0);
    if ((!as_is && !gathered) || !mr_str_try_reserve(body, most))
        MR_GO(no_memory(n_rows, width));
    if (!as_is)
        gather_rows(values, present, n_rows, (size_t)width, count, gathered);
    if (rows == ROWS_BITS)
        put_bits(body, present, n_rows);
    else if (rows == ROWS_GAPS)
        put_gaps(body, present, n_rows, count);
    MR_GO(pack_values(c, as_is ? values : gathered, n, body));
out:
    MR_ASSERT(st || body->n <= most);
    mr_free(gathered);
    return st;
}

/* Compresses if asked, and if that makes it smaller. */
static mr_status *put_body(const mr_ps_codec *c, int rows, const mr_str *body, mr_str *out)
{
    size_t at = out->n;
    if (!mr_str_try_reserve(out, 1 + mr_snappy_most(body->n)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "values: no memory for %zu bytes", body->n);
    out->p[out->n++] = (char)((int)c->form | rows << 3 | SNAPPY);
    if (c->snappy) {
        MR_TRY(mr_snappy_compress(mr_str_view(body), out));
        if (out->n - at - 1 < body->n)
            return NULL;
    }
    out->n = at + 1;
    out->p[at] = (char)(out->p[at] & ~SNAPPY);
    mr_str_append(out, body->p, body->n); /* fits into the reserved room */
    return NULL;
}

/* present with all rows set is the same as NULL. */
mr_status *mr_ps_values_pack(const mr_ps_codec *c, const float *values, const uint8_t *present, size_t n_rows,
                             int width, mr_str *out)
{
    size_t n, count = n_rows, start = out->n;
    mr_str body = {0};
    mr_status *st = NULL;
    MR_TRY(count_values(n_rows, width, &n));
    if (present) {
        count = 0;
        for (size_t i = 0; i < n_rows; i++)
            count += present[i] != 0;
    }
    if (count == n_rows)
        present = NULL;
    MR_GO(pack_body(c, values, present, n_rows, width, count, &body));
    MR_GO(put_body(c, row_form(n_rows, count), &body, out));
out:
    if (st)
        out->n = start;
    mr_str_deinit(&body);
    return st;
}

/* ---- unpacking ---- */

typedef struct packed {
    mr_ps_form form;
    mr_ps_rows rows; /* without values; rows.rows is NULL if all rows are present, or none */
    const uint8_t *values;
    mr_str body; /* decompressed bytes; the pointers above may point into it */
} packed;

static void close_packed(packed *p)
{
    mr_free(p->rows.rows);
    mr_str_deinit(&p->body);
}

/* Allocates no more row numbers than the bytes can name: a gap takes at least one byte, a bitmap
 * one for 8 rows. */
static mr_status *read_rows(mr_pb_reader *r, int rows, size_t n_rows, mr_ps_rows *out)
{
    out->n = rows == ROWS_ALL ? n_rows : 0;
    if (rows == ROWS_ALL || rows == ROWS_NONE)
        return NULL;
    size_t left = (size_t)(r->end - r->at);
    size_t most = rows == ROWS_GAPS || n_rows / 8 > left ? MR_MIN(n_rows, left) : n_rows;
    out->rows = mr_try_alloc((most + 1) * sizeof *out->rows);
    if (!out->rows)
        return no_memory(n_rows, 1);
    return rows == ROWS_BITS ? get_bits(r, n_rows, out) : get_gaps(r, n_rows, out);
}

static mr_status *no_room(size_t most_rows, int width)
{
    return mr_error(MR_UNAVAILABLE, "values: room for only %zu rows of %d floats at present", most_rows, width);
}

/* A Snappy block states its decompressed size. A size that n_rows rows cannot have is refused
 * before anything is allocated. */
static mr_status *uncompress_body(mr_sv in, size_t n_rows, int width, size_t most_rows, packed *p)
{
    enum { VARINT = 10 };
    mr_pb_reader r;
    mr_pb_reader_init(&r, in);
    size_t k = MR_MIN(n_rows, most_rows);
    uint64_t n = mr_pb_raw_varint(&r);
    if (!r.error && n > packed_bytes(p->form, k * (size_t)width) + n_rows / 8 + 1 + VARINT * (k + 1))
        return k < n_rows ? no_room(most_rows, width)
                          : mr_invalid("values: %llu bytes are more than %zu rows of %d floats can have",
                                       (unsigned long long)n, n_rows, width);
    return mr_status_prepend(mr_snappy_uncompress(in, &p->body), "values: ");
}

/* Checks everything and finds the values. The caller calls close_packed, also after an error. */
static mr_status *open_packed(mr_sv in, size_t n_rows, int width, size_t most_rows, packed *p)
{
    size_t n;
    *p = (packed){0};
    MR_TRY(count_values(n_rows, width, &n));
    if (in.n < 1)
        return mr_invalid("values: no bytes");
    uint8_t head = (uint8_t)in.p[0];
    if (head >> 5 || (head & 3) > MR_PS_FIXED16)
        return mr_invalid("values: unknown form 0x%02x", head);
    p->form = (mr_ps_form)(head & 3);
    mr_sv rest = {in.p + 1, in.n - 1};
    if (head & SNAPPY) {
        MR_TRY(uncompress_body(rest, n_rows, width, most_rows, p));
        rest = mr_str_view(&p->body);
    }
    mr_pb_reader r;
    mr_pb_reader_init(&r, rest);
    MR_TRY(read_rows(&r, head >> 3, n_rows, &p->rows));
    n = p->rows.n * (size_t)width;
    if ((size_t)(r.end - r.at) != packed_bytes(p->form, n))
        return mr_invalid("values: %zu bytes, but %zu rows of %d floats take %zu", (size_t)(r.end - r.at), p->rows.n,
                          width, packed_bytes(p->form, n));
    if (p->rows.n > most_rows)
        return no_room(most_rows, width);
    p->values = r.at;
    return NULL;
}

/* All present rows, one behind the other. */
static void unpack_all(const packed *p, int width, float *out)
{
    size_t n = p->rows.n * (size_t)width;
    if (!by_column(width))
        unpack_values(p->form, p->values, n, 0, n, out, 1);
    else
        for (int j = 0; j < width; j++)
            unpack_values(p->form, p->values, n, (size_t)j * p->rows.n, p->rows.n, out + j, (size_t)width);
}

/* If rows are absent, the present ones are unpacked aside and then copied to their places. */
mr_status *mr_ps_values_unpack(mr_sv in, size_t n_rows, int width, float *values)
{
    mr_status *st = NULL;
    packed p;
    float *some = NULL;
    MR_GO(open_packed(in, n_rows, width, SIZE_MAX, &p));
    if (p.rows.n == n_rows) {
        unpack_all(&p, width, values);
        goto out;
    }
    memset(values, 0, n_rows * (size_t)width * sizeof(float));
    MR_ASSERT(p.rows.n == 0 || p.rows.rows);
    some = mr_try_alloc(p.rows.n * (size_t)width * sizeof(float));
    if (!some)
        MR_GO(no_memory(n_rows, width));
    unpack_all(&p, width, some);
    for (size_t k = 0; k < p.rows.n; k++)
        memcpy(values + p.rows.rows[k] * (size_t)width, some + k * (size_t)width, (size_t)width * sizeof(float));
out:
    mr_free(some);
    close_packed(&p);
    return st;
}

mr_status *mr_ps_rows_unpack(mr_sv in, size_t n_rows, int width, mr_ps_rows *out)
{
    return mr_ps_rows_unpack_within(in, n_rows, width, SIZE_MAX, out);
}

/* On error *out is empty. The row numbers move from the packed form to *out, unless all rows are present. */
mr_status *mr_ps_rows_unpack_within(mr_sv in, size_t n_rows, int width, size_t most_rows, mr_ps_rows *out)
{
    mr_status *st = NULL;
    packed p;
    *out = (mr_ps_rows){0};
    MR_GO(open_packed(in, n_rows, width, most_rows, &p));
    float *values = mr_try_alloc(p.rows.n * (size_t)width * sizeof(float));
    if (!values)
        MR_GO(no_memory(n_rows, width));
    unpack_all(&p, width, values);
    *out = (mr_ps_rows){.n = p.rows.n, .values = values, .rows = p.rows.n == n_rows ? NULL : p.rows.rows};
    if (out->rows)
        p.rows.rows = NULL; /* moved to out */
out:
    close_packed(&p);
    return st;
}

void mr_ps_rows_deinit(mr_ps_rows *r)
{
    mr_free(r->values);
    mr_free(r->rows);
    *r = (mr_ps_rows){0};
}
