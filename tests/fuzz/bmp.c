/* tests/fuzz/bmp.c -- mutated BMP files: every kind of pixel, rows upwards and downwards, numbers of the head made odd. */
#include "base/memory.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/picture.h"

enum { AS_IS, RGB, RGBA, N_FORMS };
static const char *const names[N_FORMS] = {"as-is", "rgb", "rgba"};
static const int channels[N_FORMS] = {0, 3, 4};

static uint64_t odd_or(fuzz_rng *r, uint64_t v) { return fuzz_once_in(r, 40) ? (uint64_t)fuzz_odd_int(r) : v; }

static void make_file(fuzz_rng *r, mr_str *out)
{
    static const int kinds[] = {8, 24, 32, 24, 32, 16, 1};
    int bits = fuzz_pick(r, kinds);
    int64_t width = fuzz_between(r, 1, 12), height = fuzz_between(r, 1, 9);
    uint64_t start = 32 + fuzz_below(r, 40), row = (uint64_t)((width * (bits / 8) + 3) / 4 * 4);
    mr_str_append(out, "BM", 2);
    fuzz_put_le(out, fuzz_u64(r), 8);
    fuzz_put_le(out, odd_or(r, start), 4);
    fuzz_put_le(out, 40, 4);
    fuzz_put_le(out, odd_or(r, (uint64_t)width), 4);
    fuzz_put_le(out, odd_or(r, (uint64_t)(fuzz_once_in(r, 2) ? -height : height)), 4);
    fuzz_put_le(out, 1, 2);
    fuzz_put_le(out, odd_or(r, (uint64_t)bits), 2);
    while (out->n < start + row * (uint64_t)height)
        mr_str_appendc(out, (char)fuzz_u64(r));
}

static void try_bytes(fuzz_run *r, int form, mr_sv bytes)
{
    fuzz_picture p;
    mr_sv exact = fuzz_exact(bytes);
    fuzz_picture_init(&p, 1);
    mr_status *st = mr_bmp_decode(exact, channels[form], &p.room);
    fuzz_say(r, "%s of %zu bytes: %s", names[form], bytes.n, mr_status_message(st));
    if (!st) {
        r->counts[form]++;
        if (!p.pixels || (channels[form] && p.channels != channels[form]) || p.height * p.width > (int64_t)bytes.n)
            fuzz_fail("%lld x %lld pixels out of %zu bytes", (long long)p.height, (long long)p.width, bytes.n);
        for (int64_t i = 0; i < fuzz_picture_samples(&p); i++)
            r->counts[N_FORMS] += ((const uint8_t *)p.pixels)[i] > 128; /* nothing is left unset */
    }
    mr_status_free(st);
    fuzz_picture_deinit(&p);
    mr_free((void *)(uintptr_t)exact.p);
}

static void run(fuzz_run *r)
{
    mr_str file = {0};
    make_file(&r->rng, &file);
    for (uint64_t k = fuzz_once_in(&r->rng, 2) ? 0 : fuzz_below(&r->rng, 3); k > 0; k--)
        fuzz_damage(&r->rng, &file);
    fuzz_note(r, mr_str_view(&file));
    try_bytes(r, (int)(r->number % N_FORMS), mr_str_view(&file));
    mr_str_deinit(&file);
}

static void replay(fuzz_run *r, mr_sv input)
{
    for (int i = 0; i < N_FORMS; i++)
        try_bytes(r, i, input);
}

static void prepare(void) {} /* nothing is shared */
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_FORMS + 1; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("bmp", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_bmp = {.name = "bmp", .about = "BMP files", .prepare = prepare, .n_runs = n_runs, .n_counts = n_counts, .run = run,
                              .replay = replay, .summary = summary};
