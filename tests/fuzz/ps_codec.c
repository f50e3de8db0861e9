/* tests/fuzz/ps_codec.c -- the encodings of workers and parameter servers: values, key lists, sketches, Snappy blocks.
 *
 * A message is created, sometimes damaged, and decoded. Everything that is accepted satisfies the contracts in the
 * headers: rows and keys ascend and are in range; encoded again as floats, it decodes to the same values. */
#include <math.h>

#include "base/memory.h"
#include "ps/codec.h"
#include "ps/count_min.h"
#include "ps/keys.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "wire/snappy.h"

enum { VALUES, KEYS, SKETCH, BLOCK, N_FORMS };
enum { MOST_ROWS = 300, MOST_WIDTH = 10 };

typedef struct shape { /* known to the receiver in advance */
    size_t n_rows;
    int width;
    uint64_t num_keys;
} shape;

/* ---- making one ---- */

static void make_values(fuzz_rng *r, const shape *s, mr_str *out)
{
    static float v[MOST_ROWS * MOST_WIDTH];
    uint8_t present[MOST_ROWS];
    uint64_t share = fuzz_between(r, 1, 20);
    for (size_t i = 0; i < s->n_rows * (size_t)s->width; i++)
        v[i] = (float)fuzz_between(r, -1000, 1000) / (float)(1 << fuzz_below(r, 20));
    for (size_t i = 0; i < s->n_rows; i++)
        present[i] = fuzz_once_in(r, share);
    mr_ps_codec c = {(mr_ps_form)fuzz_below(r, 3), fuzz_once_in(r, 2), fuzz_u64(r)};
    fuzz_must(mr_ps_values_pack(&c, v, share > 1 ? present : NULL, s->n_rows, s->width, out), "packing values");
}

static void make_keys(fuzz_rng *r, const shape *s, mr_str *out)
{
    uint64_t keys[MOST_ROWS], at = 0;
    for (size_t i = 0; i < s->n_rows; i++)
        keys[i] = at += 1 + fuzz_below(r, fuzz_once_in(r, 5) ? 1000 : 10);
    fuzz_must(mr_ps_keys_pack(keys, s->n_rows, out), "packing keys");
}

static void make_sketch(fuzz_rng *r, mr_str *out)
{
    mr_count_min *s;
    uint64_t keys[100];
    fuzz_must(mr_count_min_new(1 + fuzz_below(r, 64), (int)fuzz_between(r, 1, 8), fuzz_u64(r), &s), "a sketch");
    size_t n = fuzz_below(r, 100);
    for (size_t i = 0; i < n; i++)
        keys[i] = fuzz_below(r, 30);
    mr_count_min_insert(s, keys, n);
    fuzz_must(mr_count_min_pack(s, out), "packing a sketch");
    mr_count_min_free(s);
}

static void make_block(fuzz_rng *r, mr_str *out)
{
    mr_str text = {0};
    for (uint64_t k = fuzz_below(r, 30); k > 0; k--) {
        size_t n = fuzz_below(r, 100), back = text.n ? 1 + fuzz_below(r, text.n) : 0;
        bool copy = back && fuzz_once_in(r, 2);
        for (; n > 0; n--)
            mr_str_appendc(&text, copy ? text.p[text.n - back] : (char)fuzz_u64(r));
    }
    fuzz_must(mr_snappy_compress(mr_str_view(&text), out), "compressing");
    mr_str back = {0};
    fuzz_must(mr_snappy_uncompress(mr_str_view(out), &back), "uncompressing");
    if (!mr_sv_eq(mr_str_view(&back), mr_str_view(&text)))
        fuzz_fail("the text differs after a round trip through Snappy");
    mr_str_deinit(&back);
    mr_str_deinit(&text);
}

/* ---- taking one ---- */

/* Decoded floats survive a round trip bit by bit. */
static void pack_again(const shape *s, const float *dense)
{
    static float back[MOST_ROWS * MOST_WIDTH];
    uint8_t present[MOST_ROWS];
    mr_str out = {0};
    mr_ps_values_nonzero(dense, s->n_rows, s->width, present);
    fuzz_must(mr_ps_values_pack(&(mr_ps_codec){MR_PS_FLOAT32, true, 0}, dense, present, s->n_rows, s->width, &out),
              "packing again");
    fuzz_must(mr_ps_values_unpack(mr_str_view(&out), s->n_rows, s->width, back), "unpacking again");
    for (size_t i = 0; i < s->n_rows * (size_t)s->width; i++)
        if (back[i] != dense[i] && !(isnan(back[i]) && isnan(dense[i])))
            fuzz_fail("value %zu differs after a round trip", i);
    mr_str_deinit(&out);
}

static mr_status *take_values(mr_sv in, const shape *s)
{
    static float dense[MOST_ROWS * MOST_WIDTH];
    mr_ps_rows rows;
    mr_status *st = mr_ps_values_unpack(in, s->n_rows, s->width, dense);
    mr_status *also = mr_ps_rows_unpack(in, s->n_rows, s->width, &rows);
    if (!st != !also)
        fuzz_fail("dense %s, rows %s", mr_status_message(st), mr_status_message(also));
    for (size_t i = 0; !also && rows.rows && i < rows.n; i++)
        if (rows.rows[i] >= s->n_rows || (i > 0 && rows.rows[i] <= rows.rows[i - 1]))
            fuzz_fail("row %u is out of place", rows.rows[i]);
    if (!st)
        pack_again(s, dense);
    mr_ps_rows_deinit(&rows);
    mr_status_free(also);
    return st;
}

static mr_status *take_keys(mr_sv in, const shape *s)
{
    uint64_t *keys = NULL;
    mr_status *st = mr_ps_keys_unpack(in, s->n_rows, s->num_keys, &keys);
    if (!st)
        fuzz_must(mr_ps_keys_check(keys, s->n_rows, s->num_keys), "keys that were accepted");
    mr_free(keys);
    return st;
}

static mr_status *take_sketch(mr_sv in)
{
    mr_count_min *s, *other;
    MR_TRY(mr_count_min_unpack(in, 1 << 16, &s));
    mr_str out = {0};
    fuzz_must(mr_count_min_pack(s, &out), "packing a sketch again");
    fuzz_must(mr_count_min_unpack(mr_str_view(&out), 1 << 16, &other), "unpacking it");
    mr_count_min_insert(other, (const uint64_t[]){1, 2, 3}, 3);
    fuzz_must(mr_count_min_merge(s, other), "merging");
    if (mr_count_min_get(s, 2) == 0)
        fuzz_fail("an inserted key cannot be found");
    mr_count_min_free(s);
    mr_count_min_free(other);
    mr_str_deinit(&out);
    return NULL;
}

static mr_status *take_block(mr_sv in)
{
    mr_str out = {0};
    mr_status *st = mr_snappy_uncompress(in, &out);
    mr_str_deinit(&out);
    return st;
}

static void try_bytes(fuzz_run *r, int form, const shape *s, mr_sv bytes)
{
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = form == VALUES   ? take_values(exact, s)
                    : form == KEYS   ? take_keys(exact, s)
                    : form == SKETCH ? take_sketch(exact)
                                     : take_block(exact);
    fuzz_say(r, "form %d, %zu rows of %d: %s", form, s->n_rows, s->width, mr_status_message(st));
    r->counts[form] += !st;
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

/* ---- the target ---- */

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_FORMS; }

static shape draw_shape(fuzz_rng *r)
{
    return (shape){fuzz_below(r, MOST_ROWS), (int)fuzz_between(r, 1, MOST_WIDTH), fuzz_below(r, 40000)};
}

static void run(fuzz_run *r)
{
    int form = (int)(r->number % N_FORMS);
    shape s = draw_shape(&r->rng);
    mr_str bytes = {0};
    switch (form) {
    case VALUES: make_values(&r->rng, &s, &bytes); break;
    case KEYS: make_keys(&r->rng, &s, &bytes); break;
    case SKETCH: make_sketch(&r->rng, &bytes); break;
    default: make_block(&r->rng, &bytes);
    }
    for (uint64_t k = fuzz_below(&r->rng, 4); k > 0; k--)
        fuzz_damage(&r->rng, &bytes);
    if (fuzz_once_in(&r->rng, 10)) /* a receiver that knows another list */
        s = draw_shape(&r->rng);
    fuzz_note(r, mr_str_view(&bytes));
    try_bytes(r, form, &s, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
}

/* A file has no shape: all forms of a small one are tried. */
static void replay(fuzz_run *r, mr_sv input)
{
    for (int form = 0; form < N_FORMS; form++)
        try_bytes(r, form, &(shape){20, 2, 1000}, input);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"values", "keys", "sketches", "blocks"};
    return fuzz_shares("ps_codec", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_ps_codec = {.name = "ps_codec",
                                   .about = "what workers and parameter servers pack",
                                   .n_runs = n_runs,
                                   .n_counts = n_counts,
                                   .run = run,
                                   .replay = replay,
                                   .summary = summary};
