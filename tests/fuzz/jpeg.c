/* tests/fuzz/jpeg.c -- mutated JPEG files, read in every supported way.
 *
 * The files are what the library writes: gray and in color, progressive or not, of any quality; every second one is cut
 * short or has bytes of its markers changed. JPEG has no checksums, so damaged files still reach deep code. */
#include "base/memory.h"
#include "ops/image/jpeg.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/picture.h"

enum { READ, CROP, RECOVER, SHAPE, N_FORMS, N_SEEDS = 200 };
static const char *const names[N_FORMS] = {"read", "crop", "recover", "shape"};

static const mr_jpeg *codec;
static mr_str seeds[N_SEEDS];

/* ---- files to start from ---- */

static void make_seed(fuzz_rng *r, mr_str *out)
{
    mr_jpeg_writing w = {.height = fuzz_between(r, 1, 40), .width = fuzz_between(r, 1, 40), .channels = fuzz_once_in(r, 3) ? 1 : 3,
                         .quality = (int)fuzz_below(r, 101), .progressive = fuzz_once_in(r, 2), .optimize = fuzz_once_in(r, 2),
                         .downsample = fuzz_once_in(r, 2), .density_unit = 1, .x_density = 300, .y_density = 300};
    size_t n = (size_t)(w.height * w.width * w.channels);
    uint8_t *pixels = mr_alloc(n);
    bool noisy = fuzz_once_in(r, 3);
    for (size_t i = 0; i < n; i++)
        pixels[i] = (uint8_t)(noisy ? fuzz_u64(r) : i * 3 + i / 50 * 40);
    w.pixels = pixels;
    if (fuzz_once_in(r, 4))
        w.xmp = MR_SV("<x:xmpmeta/>");
    fuzz_must(codec->encode(&w, out), "a picture that can be written");
    mr_free(pixels);
}

/* The same picture with four components: C, M, Y and K, with and without Adobe's marker. Only the header differs from
 * one with three: an additional component in the frame and in the scan, whose pixels come from the rest of the file. */
static void add_component(fuzz_rng *r, mr_str *s)
{
    mr_str out = {0};
    for (size_t at = 0; at < s->n;) {
        uint8_t marker = at + 4 < s->n && (uint8_t)s->p[at] == 0xff ? (uint8_t)s->p[at + 1] : 0;
        size_t length = marker >= 0xc0 && marker != 0xd8 ? (size_t)((uint8_t)s->p[at + 2] << 8 | (uint8_t)s->p[at + 3]) : 0;
        bool frame = (marker == 0xc0 || marker == 0xc2) && length == 17, scan = marker == 0xda && length == 12;
        if (!length || at + 2 + length > s->n) {
            mr_str_append(&out, s->p + at, marker == 0xd8 ? 2 : s->n - at);
            at += marker == 0xd8 ? 2 : s->n - at;
            continue;
        }
        size_t from = out.n;
        mr_str_append(&out, s->p + at, 2 + length);
        if (frame) { /* one more of three bytes, all of them not sampled down */
            mr_str_append(&out, "\x04\x11\x00", 3);
            out.p[from + 3] += 3, out.p[from + 9] = 4;
            for (int i = 0; i < 4; i++)
                out.p[from + 11 + 3 * (size_t)i] = 0x11;
        }
        if (scan) { /* one more of two bytes, before the last three */
            mr_str tail = {0};
            mr_str_append(&tail, out.p + out.n - 3, 3);
            out.n -= 3;
            mr_str_append(&out, "\x04\x00", 2);
            mr_str_append(&out, tail.p, 3);
            out.p[from + 3] += 2, out.p[from + 4] = 4;
            mr_str_deinit(&tail);
        }
        at += 2 + length;
        if (marker == 0xe0 && fuzz_once_in(r, 2))
            mr_str_append(&out, "\xff\xee\x00\x0e" "Adobe\x00\x64\x00\x00\x00\x00\x02", 16);
    }
    mr_str_deinit(s);
    *s = out;
}

static void prepare(void)
{
    fuzz_rng r = {7};
    if (codec)
        return;
    fuzz_must(mr_jpeg_codec(&codec), "libmillrace-image.so");
    for (int i = 0; i < N_SEEDS; i++) {
        make_seed(&r, &seeds[i]);
        if (i % 8 == 0)
            add_component(&r, &seeds[i]);
    }
}

/* ---- mutants ---- */

/* A byte of the markers, which come first: sizes, factors, tables. */
static void change_head(fuzz_rng *r, mr_str *s)
{
    size_t at = 2 + fuzz_below(r, MR_MIN(s->n, 700));
    if (at < s->n)
        s->p[at] = (char)(fuzz_once_in(r, 2) ? fuzz_u64(r) : (uint64_t)(uint8_t)s->p[at] + fuzz_below(r, 5) - 2);
}

static void mutate(fuzz_rng *r, mr_str *s)
{
    for (uint64_t k = fuzz_once_in(r, 4) ? 0 : 1 + fuzz_below(r, 3); k > 0; k--)
        if (fuzz_once_in(r, 2))
            change_head(r, s);
        else
            fuzz_damage(r, s);
    if (fuzz_once_in(r, 6))
        s->n = fuzz_below(r, s->n + 1);
}

/* ---- trying it ---- */

static void choose(fuzz_rng *r, int form, mr_jpeg_reading *how)
{
    static const int channels[] = {0, 0, 1, 3}, ratios[] = {1, 1, 2, 4, 8};
    *how = (mr_jpeg_reading){.channels = fuzz_pick(r, channels), .ratio = fuzz_pick(r, ratios), .fancy_upscaling = fuzz_once_in(r, 2),
                             .accurate = fuzz_once_in(r, 2), .recover = form == RECOVER, .acceptable = fuzz_once_in(r, 3) ? 0.3f : 1};
    if (form != CROP)
        return;
    how->crop = true;
    how->ratio = fuzz_once_in(r, 3) ? how->ratio : 1;
    how->crop_y = (int)(fuzz_once_in(r, 30) ? fuzz_odd_int(r) : fuzz_between(r, 0, 3));
    how->crop_x = (int)(fuzz_once_in(r, 30) ? fuzz_odd_int(r) : fuzz_between(r, 0, 10));
    how->crop_height = (int)(fuzz_once_in(r, 30) ? fuzz_odd_int(r) : fuzz_between(r, 1, 5));
    how->crop_width = (int)(fuzz_once_in(r, 30) ? fuzz_odd_int(r) : fuzz_between(r, 1, 5));
}

static void check(fuzz_run *r, int form, const mr_jpeg_reading *how, const fuzz_picture *p)
{
    if (!p->pixels || (p->channels != 1 && p->channels != 3) || (how->channels && p->channels != how->channels))
        fuzz_fail("%lld channels", (long long)p->channels);
    if (how->crop && (p->height != how->crop_height || p->width != how->crop_width))
        fuzz_fail("a cropped image does not have the requested size");
    r->counts[form]++;
    for (int64_t i = 0; i < fuzz_picture_samples(p); i++)
        r->counts[N_FORMS] += ((const uint8_t *)p->pixels)[i] > 128; /* no pixel is left unset */
}

static void try_bytes(fuzz_run *r, int form, mr_sv bytes)
{
    fuzz_picture p;
    mr_jpeg_reading how;
    int64_t dims[3];
    mr_sv exact = fuzz_exact(bytes);
    fuzz_picture_init(&p, 1);
    choose(&r->rng, form, &how);
    mr_status *st = form == SHAPE ? codec->shape(exact, dims) : codec->decode(exact, &how, &p.room);
    fuzz_say(r, "%s of %zu bytes: %s", names[form], bytes.n, mr_status_message(st));
    if (!st && form != SHAPE)
        check(r, form, &how, &p);
    else if (!st)
        r->counts[form]++;
    mr_status_free(st);
    fuzz_picture_deinit(&p);
    mr_free((void *)(uintptr_t)exact.p);
}

static void run(fuzz_run *r)
{
    const mr_str *seed = &seeds[fuzz_below(&r->rng, N_SEEDS)];
    mr_str file = {0};
    mr_str_append(&file, seed->p, seed->n);
    mutate(&r->rng, &file);
    fuzz_note(r, mr_str_view(&file));
    try_bytes(r, (int)(r->number % N_FORMS), mr_str_view(&file));
    mr_str_deinit(&file);
}

static void replay(fuzz_run *r, mr_sv input)
{
    prepare();
    for (int i = 0; i < N_FORMS; i++)
        try_bytes(r, i, input);
}

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_FORMS + 1; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("jpeg", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_jpeg = {.name = "jpeg", .about = "JPEG files, read in every way", .prepare = prepare, .n_runs = n_runs,
                               .n_counts = n_counts, .run = run, .replay = replay, .summary = summary};
