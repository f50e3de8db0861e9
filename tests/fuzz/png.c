/* tests/fuzz/png.c -- mutated PNG files.
 *
 * Files are made here, of every color type and depth, interlaced or not, with palettes, transparency and unknown
 * chunks, their rows in random filters. Then chunks, or the bytes before they are deflated, are damaged; the CRCs are
 * mostly corrected, so that mutants reach deep code. Images that the library writes must be the same when read. */
#include <zlib.h>

#include "base/memory.h"
#include "ops/image/png.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/picture.h"

enum { READ_8, READ_16, ROUND_TRIP, N_FORMS };
static const char *const names[N_FORMS] = {"8-bit", "16-bit", "round-trip"};

typedef struct head {
    uint32_t width, height;
    int depth, type, interlaced;
} head;

/* ---- making a file ---- */

static void put_chunk(mr_str *out, const char *type, mr_sv data)
{
    fuzz_put_be(out, data.n, 4);
    size_t from = out->n;
    mr_str_append(out, type, 4);
    mr_str_append(out, data.p, data.n);
    fuzz_put_be(out, crc32(0, (const uint8_t *)out->p + from, (uInt)(out->n - from)), 4);
}

static void put_random(fuzz_rng *r, mr_str *s, size_t n)
{
    bool flat = fuzz_once_in(r, 3);
    for (size_t i = 0; i < n; i++)
        mr_str_appendc(s, flat ? (char)fuzz_below(r, 2) : (char)fuzz_u64(r));
}

static void put_random_chunk(fuzz_rng *r, mr_str *out, const char *type, size_t n)
{
    mr_str data = {0};
    put_random(r, &data, n);
    put_chunk(out, type, mr_str_view(&data));
    mr_str_deinit(&data);
}

static int samples_of(int type) { return type == 2 ? 3 : type == 6 ? 4 : type == 4 ? 2 : 1; }

/* The rows of one pass, each with a filter. */
static void put_pass(fuzz_rng *r, const head *h, int64_t w, int64_t n_rows, mr_str *raw)
{
    for (int64_t y = 0; w > 0 && y < n_rows; y++) {
        mr_str_appendc(raw, (char)fuzz_below(r, fuzz_once_in(r, 200) ? 256 : 5));
        put_random(r, raw, ((size_t)w * (size_t)(samples_of(h->type) * h->depth) + 7) / 8);
    }
}

static void put_rows(fuzz_rng *r, const head *h, mr_str *raw)
{
    static const int passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                     {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    if (!h->interlaced)
        put_pass(r, h, h->width, h->height, raw);
    for (int i = 0; h->interlaced && i < 7; i++) {
        const int *p = passes[i];
        int64_t w = ((int64_t)h->width - p[0] + p[2] - 1) / p[2], n = ((int64_t)h->height - p[1] + p[3] - 1) / p[3];
        put_pass(r, h, w, n, raw);
    }
}

static void put_data(fuzz_rng *r, const head *h, mr_str *out)
{
    mr_str raw = {0};
    put_rows(r, h, &raw);
    if (fuzz_once_in(r, 20))
        fuzz_damage(r, &raw);
    uLongf n = compressBound(raw.n);
    uint8_t *packed = mr_alloc(n);
    compress2(packed, &n, (const uint8_t *)mr_str_z(&raw), raw.n, (int)fuzz_below(r, 4));
    for (size_t at = 0; at < n;) {
        size_t piece = fuzz_once_in(r, 3) ? fuzz_below(r, 20) : n - at;
        piece = MR_MIN(piece, n - at);
        put_chunk(out, "IDAT", (mr_sv){(char *)packed + at, piece});
        at += piece;
        if (fuzz_once_in(r, 100))
            put_random_chunk(r, out, "teXt", 3);
    }
    mr_free(packed);
    mr_str_deinit(&raw);
}

static void choose(fuzz_rng *r, head *h)
{
    static const uint8_t kinds[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                                       {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
    const uint8_t *kind = fuzz_pick(r, kinds);
    *h = (head){(uint32_t)fuzz_between(r, 1, 12), (uint32_t)fuzz_between(r, 1, 10), kind[1], kind[0], fuzz_once_in(r, 3)};
}

static void put_ihdr(fuzz_rng *r, head h, mr_str *out)
{
    mr_str d = {0};
    if (fuzz_once_in(r, 30))
        h.width = (uint32_t)fuzz_odd_int(r);
    if (fuzz_once_in(r, 30))
        h.height = (uint32_t)fuzz_odd_int(r);
    fuzz_put_be(&d, h.width, 4);
    fuzz_put_be(&d, h.height, 4);
    fuzz_put_be(&d, (uint64_t)(h.depth << 8 | h.type), 2);
    fuzz_put_be(&d, 0, 2);
    fuzz_put_be(&d, (uint64_t)h.interlaced, 1);
    if (fuzz_once_in(r, 100))
        fuzz_damage(r, &d);
    put_chunk(out, "IHDR", mr_str_view(&d));
    mr_str_deinit(&d);
}

static void make_file(fuzz_rng *r, mr_str *out)
{
    static const char *const odd[] = {"gAMA", "tIME", "PLTE", "tRNS", "XXXX", "IHDR", "IEND", "a1b!"};
    head h;
    choose(r, &h);
    mr_str_append(out, MR_PNG_SIGNATURE, 8);
    put_ihdr(r, h, out);
    if (fuzz_once_in(r, 40))
        put_random_chunk(r, out, fuzz_pick(r, odd), fuzz_below(r, 9));
    size_t most = h.type == 3 ? (size_t)1 << h.depth : 8;
    if (h.type == 3 || fuzz_once_in(r, 8))
        put_random_chunk(r, out, "PLTE", 3 * (1 + fuzz_below(r, most)));
    if (fuzz_once_in(r, 3))
        put_random_chunk(r, out, "tRNS", h.type == 0 ? 2 : h.type == 2 ? 6 : 1 + fuzz_below(r, most));
    if (fuzz_once_in(r, 40))
        put_random_chunk(r, out, fuzz_pick(r, odd), fuzz_below(r, 9));
    put_data(r, &h, out);
    if (fuzz_once_in(r, 20))
        put_random_chunk(r, out, fuzz_pick(r, odd), fuzz_below(r, 9));
    put_chunk(out, "IEND", (mr_sv){"", 0});
}

/* Every chunk that is still complete gets the CRC of its current contents. */
static void repair(mr_str *s)
{
    for (size_t at = 8; at + 12 <= s->n;) {
        size_t n = mr_png_u32(s->p + at);
        if (n > s->n - at - 12)
            return;
        uint32_t crc = (uint32_t)crc32(0, (const uint8_t *)s->p + at + 4, (uInt)n + 4);
        for (int i = 0; i < 4; i++)
            s->p[at + 8 + n + (size_t)i] = (char)(crc >> (24 - 8 * i));
        at += 12 + n;
    }
}

/* ---- trying it ---- */

static void try_bytes(fuzz_run *r, int form, mr_sv bytes)
{
    static const int channels[] = {0, 1, 3, 4};
    fuzz_picture p;
    mr_sv exact = fuzz_exact(bytes);
    fuzz_picture_init(&p, form == READ_16 ? 2 : 1);
    mr_status *st = mr_png_decode(exact, fuzz_pick(&r->rng, channels), form == READ_16 ? 16 : 8, &p.room);
    fuzz_say(r, "%s of %zu bytes: %s", names[form], bytes.n, mr_status_message(st));
    if (!st) {
        r->counts[form]++;
        if (!p.pixels || p.width != mr_png_u32(exact.p + 16) || p.height != mr_png_u32(exact.p + 20))
            fuzz_fail("an image does not have the size in its header");
    }
    mr_status_free(st);
    fuzz_picture_deinit(&p);
    mr_free((void *)(uintptr_t)exact.p);
}

/* Reads a written image with the reader and compares the pixels. */
static void round_trip(fuzz_run *r)
{
    fuzz_rng *g = &r->rng;
    mr_png_image image = {NULL, fuzz_between(g, 1, 40), fuzz_between(g, 1, 12), (int)fuzz_between(g, 1, 4),
                          fuzz_once_in(g, 2) ? 16 : 8, (int)fuzz_between(g, -1, 9)};
    mr_str pixels = {0}, file = {0};
    fuzz_picture p;
    put_random(g, &pixels, (size_t)(image.width * image.height * image.channels * image.bits / 8));
    image.pixels = pixels.p;
    fuzz_must(mr_png_encode(&image, &file), "an image that can be written");
    fuzz_picture_init(&p, image.bits / 8);
    fuzz_must(mr_png_decode(mr_str_view(&file), 0, image.bits, &p.room), "an image that was just written");
    if (p.channels != image.channels || memcmp(p.pixels, pixels.p, pixels.n) != 0)
        fuzz_fail("an image differs after a round trip");
    r->counts[ROUND_TRIP]++;
    fuzz_picture_deinit(&p);
    mr_str_deinit(&pixels);
    mr_str_deinit(&file);
}

static void run(fuzz_run *r)
{
    int form = (int)(r->number % N_FORMS);
    mr_str file = {0};
    if (form == ROUND_TRIP) {
        round_trip(r);
        return;
    }
    make_file(&r->rng, &file);
    for (uint64_t k = fuzz_once_in(&r->rng, 2) ? 0 : fuzz_below(&r->rng, 4); k > 0; k--)
        fuzz_damage(&r->rng, &file);
    if (!fuzz_once_in(&r->rng, 8))
        repair(&file);
    fuzz_note(r, mr_str_view(&file));
    try_bytes(r, form, mr_str_view(&file));
    mr_str_deinit(&file);
}

static void replay(fuzz_run *r, mr_sv input)
{
    try_bytes(r, READ_8, input);
    try_bytes(r, READ_16, input);
}

static void prepare(void) {} /* nothing is shared */
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_FORMS; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("png", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_png = {.name = "png", .about = "PNG files, and what the library writes", .prepare = prepare, .n_runs = n_runs,
                              .n_counts = n_counts, .run = run, .replay = replay, .summary = summary};
