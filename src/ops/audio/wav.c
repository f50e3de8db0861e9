/* ops/audio/wav.c -- WAV files of 16-bit samples. */
#include "ops/audio/wav.h"

#include <math.h>

#include "base/memory.h"

enum { HEAD_BYTES = 44, SAMPLE_BYTES = 2 };

/* ---- reading ---- */

/* Reads from front to back and keeps its first error. */
typedef struct cursor {
    mr_sv rest;
    mr_status *st;
} cursor;

static mr_sv take_bytes(cursor *c, uint64_t n)
{
    mr_sv v = {c->rest.p, 0};
    if (c->st)
        return v;
    if (n > c->rest.n) {
        c->st = mr_invalid("Data too short when trying to read string");
        return v;
    }
    v.n = (size_t)n;
    c->rest = (mr_sv){c->rest.p + n, c->rest.n - (size_t)n};
    return v;
}

static uint32_t read_number(cursor *c, int bytes)
{
    mr_sv v = take_bytes(c, (uint64_t)bytes);
    uint32_t n = 0;
    for (int i = 0; i < (int)v.n; i++)
        n |= (uint32_t)(uint8_t)v.p[i] << (8 * i);
    return n;
}

static void note_error(cursor *c, mr_status *st)
{
    if (c->st)
        mr_status_free(st);
    else
        c->st = st;
}

static void expect_tag(cursor *c, const char *name)
{
    mr_sv v = take_bytes(c, 4);
    if (!c->st && !mr_sv_is(v, name))
        note_error(c, mr_invalid("Header mismatch: Expected %s but found %.*s", name, MR_SV_ARG(v)));
}

/* Skips chunks that may precede the format: padding, and broadcast metadata. */
static void skip_to_format(cursor *c)
{
    static const char *const known[] = {"JUNK", "bext", "iXML", "qlty", "mext", "levl", "link", "axml"};
    for (;;) {
        mr_sv name = take_bytes(c, 4);
        bool fine = false;
        if (c->st || mr_sv_is(name, "fmt "))
            return;
        for (int i = 0; i < MR_COUNT(known); i++)
            fine |= mr_sv_is(name, known[i]);
        if (!fine)
            note_error(c, mr_invalid("Unexpected field %.*s", MR_SV_ARG(name)));
        take_bytes(c, read_number(c, 4));
    }
}

static mr_status *check_format(uint32_t kind, const mr_wav *w, uint32_t per_second, uint32_t per_frame, uint32_t bits)
{
    if (kind != 1)
        return mr_invalid("Bad audio format for WAV: Expected 1 (PCM), but got %u", kind);
    if (w->channels < 1)
        return mr_invalid("Bad number of channels for WAV: Expected at least 1, but got %u", w->channels);
    if (bits != 8 * SAMPLE_BYTES)
        return mr_invalid("Can only read 16-bit WAV files, but received %u", bits);
    if (per_frame != w->channels * SAMPLE_BYTES)
        return mr_invalid("Bad bytes per sample in WAV header: Expected %u but got %u", w->channels * SAMPLE_BYTES, per_frame);
    if (per_second != per_frame * w->rate)
        return mr_invalid("Bad bytes per second in WAV header: Expected %u but got %u (sample_rate=%u, bytes_per_sample=%u)",
                          per_frame * w->rate, per_second, w->rate, per_frame);
    return NULL;
}

static void read_format(cursor *c, mr_wav *w)
{
    uint32_t size = read_number(c, 4);
    if (!c->st && size != 16 && size != 18)
        note_error(c, mr_invalid("Bad format chunk size for WAV: Expected 16 or 18, but got %u", size));
    uint32_t kind = read_number(c, 2);
    w->channels = read_number(c, 2);
    w->rate = read_number(c, 4);
    uint32_t per_second = read_number(c, 4), per_frame = read_number(c, 2), bits = read_number(c, 2);
    if (!c->st)
        c->st = check_format(kind, w, per_second, per_frame, bits);
    if (size == 18)
        take_bytes(c, MR_MIN(2, c->rest.n)); /* unused */
}

static void read_data(cursor *c, mr_wav *w)
{
    bool found = false;
    while (!c->st && c->rest.n > 0) {
        mr_sv name = take_bytes(c, 4);
        uint32_t size = read_number(c, 4);
        if (!c->st && size > INT32_MAX)
            note_error(c, mr_invalid("WAV data chunk '%.*s' is too large: %u bytes, but the limit is %d",
                                     MR_SV_ARG(name), size, INT32_MAX));
        if (c->st || !mr_sv_is(name, "data")) {
            take_bytes(c, MR_MIN(size, c->rest.n)); /* the last chunk may be truncated */
            continue;
        }
        if (found)
            note_error(c, mr_invalid("More than one data chunk found in WAV"));
        found = true;
        w->frames = size / (w->channels * SAMPLE_BYTES);
        w->samples = take_bytes(c, (uint64_t)w->frames * w->channels * SAMPLE_BYTES);
    }
    if (!found)
        note_error(c, mr_invalid("No data chunk found in WAV"));
}

mr_status *mr_wav_decode(mr_sv bytes, mr_wav *out)
{
    cursor c = {bytes, NULL};
    *out = (mr_wav){0};
    expect_tag(&c, "RIFF");
    read_number(&c, 4); /* the size of the file, which is ignored */
    expect_tag(&c, "WAVE");
    skip_to_format(&c);
    read_format(&c, out);
    if (!c.st)
        read_data(&c, out);
    return c.st;
}

float mr_wav_sample(const mr_wav *w, uint64_t i)
{
    const uint8_t *p = (const uint8_t *)w->samples.p + i * SAMPLE_BYTES;
    return (float)(int16_t)(p[0] | p[1] << 8) * (1.0f / 32768);
}

/* ---- writing ---- */

static void put_number(mr_str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        mr_str_appendc(s, (char)(v >> (8 * i)));
}

static void put_head(mr_str *out, uint64_t data_bytes, uint64_t channels, uint64_t rate)
{
    mr_str_append(out, "RIFF", 4);
    put_number(out, HEAD_BYTES - 8 + data_bytes, 4);
    mr_str_append(out, "WAVEfmt ", 8);
    put_number(out, 16, 4);
    put_number(out, 1, 2);
    put_number(out, channels, 2);
    put_number(out, rate, 4);
    put_number(out, rate * channels * SAMPLE_BYTES, 4);
    put_number(out, channels * SAMPLE_BYTES, 2);
    put_number(out, 8 * SAMPLE_BYTES, 2);
    mr_str_append(out, "data", 4);
    put_number(out, data_bytes, 4);
}

static int16_t sample_of(float v)
{
    float scaled = roundf(v * 32768.0f);
    return scaled >= INT16_MAX ? INT16_MAX : scaled > INT16_MIN ? (int16_t)scaled : INT16_MIN; /* NaN becomes the
                                                                                                * lowest value */
}

mr_status *mr_wav_encode(const float *samples, uint64_t frames, uint64_t channels, uint64_t rate, mr_str *out)
{
    uint64_t n;
    if (rate == 0 || rate > UINT32_MAX)
        return mr_invalid("sample_rate must be in (0, 2^32), got: %llu", (unsigned long long)rate);
    if (channels == 0 || channels > UINT16_MAX)
        return mr_invalid("num_channels must be in (0, 2^16), got: %llu", (unsigned long long)channels);
    if (__builtin_mul_overflow(frames, channels, &n) || n > (UINT32_MAX - HEAD_BYTES) / SAMPLE_BYTES)
        return mr_invalid("Provided channels and frames cannot be encoded as a WAV.");
    if (!mr_str_try_reserve(out, HEAD_BYTES + (size_t)n * SAMPLE_BYTES))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a WAV of %llu samples", (unsigned long long)n);
    put_head(out, n * SAMPLE_BYTES, channels, rate);
    for (uint64_t i = 0; i < n; i++)
        put_number(out, (uint16_t)sample_of(samples[i]), SAMPLE_BYTES);
    return NULL;
}
