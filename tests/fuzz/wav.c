/* tests/fuzz/wav.c -- mutated WAV files, and samples that must be the same after being written and read. */
#include <math.h>

#include "base/memory.h"
#include "ops/audio/wav.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/picture.h"

enum { READ, ROUND_TRIP, N_FORMS };
static const char *const names[N_FORMS] = {"file", "round-trip"};

static uint64_t odd_or(fuzz_rng *r, uint64_t v) { return fuzz_once_in(r, 60) ? (uint64_t)fuzz_odd_int(r) : v; }

static void put_chunk(fuzz_rng *r, const char *name, size_t n, mr_str *out)
{
    mr_str_append(out, name, 4);
    fuzz_put_le(out, odd_or(r, n), 4);
    for (size_t i = 0; i < n; i++)
        mr_str_appendc(out, (char)fuzz_u64(r));
}

static void make_file(fuzz_rng *r, mr_str *out)
{
    static const char *const before[] = {"JUNK", "bext", "iXML", "qlty", "mext", "levl", "link", "axml", "LIST"};
    uint64_t channels = (uint64_t)fuzz_between(r, 1, 4), rate = fuzz_below(r, 100000), wide = fuzz_once_in(r, 4) ? 18 : 16;
    mr_str_append(out, "RIFF", 4);
    fuzz_put_le(out, fuzz_u64(r), 4);
    mr_str_append(out, "WAVE", 4);
    for (; fuzz_once_in(r, 4);)
        put_chunk(r, before[fuzz_below(r, fuzz_once_in(r, 10) ? 9 : 8)], fuzz_below(r, 20), out);
    mr_str_append(out, "fmt ", 4);
    fuzz_put_le(out, odd_or(r, wide), 4);
    fuzz_put_le(out, odd_or(r, 1), 2);
    fuzz_put_le(out, odd_or(r, channels), 2);
    fuzz_put_le(out, odd_or(r, rate), 4);
    fuzz_put_le(out, odd_or(r, rate * channels * 2), 4);
    fuzz_put_le(out, odd_or(r, channels * 2), 2);
    fuzz_put_le(out, odd_or(r, 16), 2);
    fuzz_put_le(out, 0, (int)wide - 16);
    for (; fuzz_once_in(r, 4);)
        put_chunk(r, "LIST", fuzz_below(r, 20), out);
    put_chunk(r, "data", fuzz_below(r, 100), out);
    for (; fuzz_once_in(r, 6);)
        put_chunk(r, fuzz_once_in(r, 4) ? "data" : "id3 ", fuzz_below(r, 20), out);
}

static void try_bytes(fuzz_run *r, mr_sv bytes)
{
    mr_wav w;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_wav_decode(exact, &w);
    fuzz_say(r, "%zu bytes: %s", bytes.n, mr_status_message(st));
    if (!st) {
        r->counts[READ]++;
        for (uint64_t i = 0; i < (uint64_t)w.frames * w.channels; i++)
            if (!(fabsf(mr_wav_sample(&w, i)) <= 1))
                fuzz_fail("a sample of %g", (double)mr_wav_sample(&w, i));
    }
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

static void round_trip(fuzz_run *r)
{
    float samples[64];
    mr_str file = {0};
    mr_wav w;
    uint64_t channels = (uint64_t)fuzz_between(&r->rng, 1, 4), frames = fuzz_below(&r->rng, 16), rate = 1 + fuzz_below(&r->rng, 1u << 20);
    for (uint64_t i = 0; i < frames * channels; i++)
        samples[i] = (float)(int16_t)fuzz_u64(&r->rng) / 32768;
    fuzz_must(mr_wav_encode(samples, frames, channels, rate, &file), "sounds that can be written");
    fuzz_must(mr_wav_decode(mr_str_view(&file), &w), "a file that was just written");
    bool same = w.channels == channels && w.frames == frames && w.rate == rate;
    for (uint64_t i = 0; same && i < frames * channels; i++)
        same = mr_wav_sample(&w, i) == samples[i];
    if (!same)
        fuzz_fail("a sound differs after a round trip");
    r->counts[ROUND_TRIP]++;
    mr_str_deinit(&file);
}

static void run(fuzz_run *r)
{
    mr_str file = {0};
    if (r->number % N_FORMS == ROUND_TRIP) {
        round_trip(r);
        return;
    }
    make_file(&r->rng, &file);
    for (uint64_t k = fuzz_once_in(&r->rng, 2) ? 0 : fuzz_below(&r->rng, 3); k > 0; k--)
        fuzz_damage(&r->rng, &file);
    fuzz_note(r, mr_str_view(&file));
    try_bytes(r, mr_str_view(&file));
    mr_str_deinit(&file);
}

static void prepare(void) {} /* nothing is shared */
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_FORMS; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("wav", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_wav = {.name = "wav", .about = "WAV files, and what the library writes", .prepare = prepare, .n_runs = n_runs,
                              .n_counts = n_counts, .run = run, .replay = try_bytes, .summary = summary};
