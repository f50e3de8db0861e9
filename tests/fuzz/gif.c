/* tests/fuzz/gif.c -- mutated GIF files.
 *
 * Films are made here: frames of any place and size, with or without colors of their own, interlaced, transparent,
 * between extensions. Their pixels are random and compressed by codes of one pixel each, sometimes by random codes,
 * which exercise the table of strings. */
#include "base/memory.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/picture.h"

enum { FIRST, ALL, N_FORMS };
static const char *const names[N_FORMS] = {"first-frame", "all-frames"};

/* ---- making a file ---- */

typedef struct bits {
    mr_str bytes;
    uint32_t held;
    int n;
} bits;

static void put_code(bits *b, uint32_t code, int width)
{
    b->held |= code << b->n;
    b->n += width;
    for (; b->n >= 8; b->n -= 8, b->held >>= 8)
        mr_str_appendc(&b->bytes, (char)b->held);
}

/* In blocks of at most 255 bytes, sometimes of random length. */
static void put_blocks(fuzz_rng *r, const mr_str *data, mr_str *out)
{
    for (size_t at = 0; at < data->n;) {
        size_t n = fuzz_once_in(r, 3) ? 1 + fuzz_below(r, 9) : 255;
        n = MR_MIN(n, data->n - at);
        mr_str_appendc(out, (char)n);
        mr_str_append(out, data->p + at, n);
        at += n;
    }
    mr_str_appendc(out, 0);
}

/* One code for each pixel: strings are added to the table, but not used; the table is cleared before codes grow beyond
 * 12 bits. */
static void put_plain(fuzz_rng *r, bits *b, int code_size, int n_colors, int64_t pixels)
{
    int clear = 1 << code_size, next = 0, width = 0;
    for (int64_t i = 0; i < pixels; i++) {
        if (next == 0 || next == 4095) {
            put_code(b, (uint32_t)clear, width ? width : code_size + 1);
            next = clear + 1;
            width = code_size + 1;
        }
        put_code(b, (uint32_t)fuzz_below(r, (uint64_t)MR_MIN(n_colors, clear)), width);
        next++;
        if (next == 1 << width && width < 12)
            width++;
    }
    put_code(b, (uint32_t)clear + 1, width ? width : code_size + 1);
}

/* Random codes up to the last one in the table, or slightly beyond; enough for `pixels` if they are valid. */
static void put_strings(fuzz_rng *r, bits *b, int code_size, int64_t pixels)
{
    int clear = 1 << code_size, next = clear + 1, width = code_size + 1;
    put_code(b, (uint32_t)clear, width);
    for (int64_t i = 0; i < pixels; i++) {
        uint32_t code = (uint32_t)fuzz_below(r, (uint64_t)(next + (fuzz_once_in(r, 50) ? 2 : 0)));
        if (i == 0 || (int)code == clear || (int)code == clear + 1)
            code = (uint32_t)fuzz_below(r, (uint64_t)clear);
        put_code(b, code, width);
        if (next < 4095)
            next++;
        if (next == 1 << width && width < 12)
            width++;
    }
}

static void put_pixels(fuzz_rng *r, int n_colors, int64_t pixels, mr_str *out)
{
    bits b = {{0}, 0, 0};
    int code_size = fuzz_once_in(r, 3) ? (int)fuzz_between(r, 1, 8) : 2;
    mr_str_appendc(out, (char)(fuzz_once_in(r, 200) ? fuzz_below(r, 256) : (uint64_t)code_size));
    if (fuzz_once_in(r, 3))
        put_strings(r, &b, code_size, pixels);
    else
        put_plain(r, &b, code_size, n_colors, pixels);
    put_code(&b, 0, 7);
    if (fuzz_once_in(r, 20))
        fuzz_damage(r, &b.bytes);
    put_blocks(r, &b.bytes, out);
    mr_str_deinit(&b.bytes);
}

static int put_colors(fuzz_rng *r, int bits_of_n, mr_str *out)
{
    int n = 2 << bits_of_n;
    for (int i = 0; i < 3 * n; i++)
        mr_str_appendc(out, (char)fuzz_u64(r));
    return n;
}

static void put_extension(fuzz_rng *r, mr_str *out)
{
    mr_str_appendc(out, '!');
    if (fuzz_once_in(r, 4)) {
        mr_str_append(out, "\xfe\x05hello\x02:)\x00", 11);
        return;
    }
    mr_str_append(out, "\xf9\x04", 2);
    fuzz_put_le(out, fuzz_below(r, 32), 3);
    mr_str_appendc(out, (char)fuzz_below(r, 4));
    mr_str_appendc(out, 0);
}

static void put_frame(fuzz_rng *r, int n_colors, mr_str *out)
{
    uint64_t width = fuzz_once_in(r, 40) ? (uint64_t)fuzz_odd_int(r) & 0xffff : (uint64_t)fuzz_between(r, 1, 12);
    uint64_t height = fuzz_once_in(r, 40) ? (uint64_t)fuzz_odd_int(r) & 0xffff : (uint64_t)fuzz_between(r, 1, 12);
    bool own = fuzz_once_in(r, 3);
    int own_bits = (int)fuzz_below(r, 4);
    if (fuzz_once_in(r, 2))
        put_extension(r, out);
    mr_str_appendc(out, ',');
    fuzz_put_le(out, fuzz_once_in(r, 2) ? 0 : fuzz_below(r, 9), 2);
    fuzz_put_le(out, fuzz_once_in(r, 2) ? 0 : fuzz_below(r, 9), 2);
    fuzz_put_le(out, width, 2);
    fuzz_put_le(out, height, 2);
    mr_str_appendc(out, (char)((own ? 0x80 | own_bits : 0) | (fuzz_once_in(r, 3) ? 0x40 : 0)));
    if (own)
        n_colors = put_colors(r, own_bits, out);
    put_pixels(r, n_colors, (int64_t)MR_MIN(width * height, 200), out);
}

static void make_file(fuzz_rng *r, mr_str *out)
{
    bool global = !fuzz_once_in(r, 8);
    int global_bits = (int)fuzz_below(r, 5), n_colors = 4;
    mr_str_append(out, fuzz_once_in(r, 2) ? "GIF87a" : "GIF89a", 6);
    fuzz_put_le(out, fuzz_below(r, 20), 2);
    fuzz_put_le(out, fuzz_below(r, 20), 2);
    mr_str_appendc(out, (char)(global ? 0x80 | global_bits : 0));
    fuzz_put_le(out, 0, 2);
    if (global)
        n_colors = put_colors(r, global_bits, out);
    for (uint64_t k = 1 + fuzz_below(r, 6); k > 0; k--)
        put_frame(r, n_colors, out);
    if (!fuzz_once_in(r, 10))
        mr_str_appendc(out, ';');
}

/* ---- trying it ---- */

static void try_bytes(fuzz_run *r, int form, mr_sv bytes)
{
    fuzz_picture p;
    mr_sv exact = fuzz_exact(bytes);
    fuzz_picture_init(&p, 1);
    mr_status *st = mr_gif_decode(exact, form == ALL, &p.room);
    fuzz_say(r, "%s of %zu bytes: %s", names[form], bytes.n, mr_status_message(st));
    if (!st) {
        r->counts[form]++;
        if (!p.pixels || p.channels != 3 || (form == FIRST && p.frames != 1) || p.width > 0xffff || p.height > 0xffff)
            fuzz_fail("a film of %lld frames of %lld x %lld", (long long)p.frames, (long long)p.height, (long long)p.width);
        for (int64_t i = 0; i < fuzz_picture_samples(&p); i++)
            r->counts[N_FORMS] += ((const uint8_t *)p.pixels)[i] > 128; /* reads all pixels: none may be unset */
    }
    mr_status_free(st);
    fuzz_picture_deinit(&p);
    mr_free((void *)(uintptr_t)exact.p);
}

static void run(fuzz_run *r)
{
    mr_str file = {0};
    make_file(&r->rng, &file);
    for (uint64_t k = fuzz_once_in(&r->rng, 3) ? 0 : fuzz_below(&r->rng, 3); k > 0; k--)
        fuzz_damage(&r->rng, &file);
    fuzz_note(r, mr_str_view(&file));
    try_bytes(r, (int)(r->number % N_FORMS), mr_str_view(&file));
    mr_str_deinit(&file);
}

static void replay(fuzz_run *r, mr_sv input)
{
    try_bytes(r, FIRST, input);
    try_bytes(r, ALL, input);
}

static void prepare(void) {} /* nothing is shared */
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_FORMS + 1; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("gif", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_gif = {.name = "gif", .about = "GIF files", .prepare = prepare, .n_runs = n_runs, .n_counts = n_counts, .run = run,
                              .replay = replay, .summary = summary};
