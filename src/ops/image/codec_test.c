/* ops/image/codec_test.c -- tests of the image file readers that examples cannot express: memory is requested only
 * for images that the file can fill, which part of a broken file is still read, and which missing part JPEG
 * reports. */
#include <stdlib.h>
#include <zlib.h>

#include "base/memory.h"
#include "ops/image/jpeg.h"
#include "ops/image/png.h"
#include "tests/harness/test.h"

/* ---- counting the memory for pixels ---- */

typedef struct counted {
    mr_image_room room;
    int n_asked;
    int64_t frames, height, width, channels;
    uint8_t pixels[4096];
} counted;

static mr_status *make(mr_image_room *room, int64_t frames, int64_t height, int64_t width, int64_t channels, void **out)
{
    counted *c = (counted *)room;
    c->n_asked++;
    c->frames = frames, c->height = height, c->width = width, c->channels = channels;
    if (frames * height * width * channels > (int64_t)sizeof(c->pixels))
        return mr_error(MR_RESOURCE_EXHAUSTED, "a budget");
    *out = c->pixels;
    return NULL;
}

/* ---- PNG ---- */

static void put_u32(mr_str *s, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        mr_str_appendc(s, (char)(v >> (24 - 8 * i)));
}

static void put_chunk(mr_str *s, const char *type, const void *data, size_t n)
{
    put_u32(s, (uint32_t)n);
    size_t from = s->n;
    mr_str_append(s, type, 4);
    mr_str_append(s, data, n);
    put_u32(s, (uint32_t)crc32(0, (const uint8_t *)s->p + from, (uInt)(s->n - from)));
}

/* A gray image of 8 bits; `raw` holds its rows, each preceded by its filter. */
static void put_png(mr_str *s, uint32_t width, uint32_t height, bool interlaced, const void *raw, size_t n)
{
    mr_str head = {0};
    uint8_t packed[256];
    uLongf n_packed = sizeof(packed);
    put_u32(&head, width);
    put_u32(&head, height);
    mr_str_append(&head, "\x08\0\0\0", 4);
    mr_str_appendc(&head, interlaced);
    mr_str_append(s, MR_PNG_SIGNATURE, 8);
    put_chunk(s, "IHDR", head.p, head.n);
    MR_CHECK(compress(packed, &n_packed, raw, n) == Z_OK);
    put_chunk(s, "IDAT", packed, n_packed);
    put_chunk(s, "IEND", "", 0);
    mr_str_deinit(&head);
}

MR_TEST(png_too_short_for_its_image_asks_for_no_room)
{
    mr_str s = {0};
    counted c = {.room = {make}};
    put_png(&s, 20000, 20000, false, "\0\1\2", 3);
    MR_CHECK_ERR(mr_png_decode(mr_str_view(&s), 0, 8, &c.room), MR_INVALID_ARGUMENT, "not enough image data");
    MR_CHECK_INT(c.n_asked, 0);
    mr_str_deinit(&s);
}

MR_TEST(png_of_too_many_pixels_is_refused)
{
    mr_str s = {0};
    counted c = {.room = {make}};
    put_png(&s, 1000000, 1000, false, "\0", 1);
    MR_CHECK_ERR(mr_png_decode(mr_str_view(&s), 0, 8, &c.room), MR_INVALID_ARGUMENT, "PNG size too large for int: 1000000 by 1000");
    MR_CHECK_INT(c.n_asked, 0);
    mr_str_deinit(&s);
}

/* Of 3 x 3 pixels pass 1 has the corner, pass 4 the third, pass 5 both of the third row, pass 6 the middle ones of
 * these rows, pass 7 the row between. */
MR_TEST(png_interlaced_pixels_go_where_they_belong)
{
    static const char raw[] = "\0\1" "\0\3" "\0\7\x09" "\0\2" "\0\x08" "\0\4\5\6";
    mr_str s = {0};
    counted c = {.room = {make}};
    put_png(&s, 3, 3, true, raw, sizeof(raw) - 1);
    MR_CHECK_OK(mr_png_decode(mr_str_view(&s), 0, 8, &c.room));
    for (int i = 0; i < 9; i++)
        MR_CHECK_INT(c.pixels[i], i + 1);
    mr_str_deinit(&s);
}

MR_TEST(png_wrong_crc_matters_in_critical_chunks_only)
{
    mr_str s = {0}, with = {0};
    counted c = {.room = {make}};
    put_png(&s, 1, 1, false, "\0\7", 2);
    mr_str_append(&with, s.p, 33); /* the signature and IHDR */
    mr_str_append(&with, "\0\0\0\1tEXtx\1\2\3\4", 13);
    mr_str_append(&with, s.p + 33, s.n - 33);
    MR_CHECK_OK(mr_png_decode(mr_str_view(&with), 0, 8, &c.room));
    MR_CHECK_INT(c.pixels[0], 7);
    s.p[s.n - 1] ^= 1; /* of IEND */
    MR_CHECK_ERR(mr_png_decode(mr_str_view(&s), 0, 8, &c.room), MR_INVALID_ARGUMENT, "wrong CRC");
    mr_str_deinit(&s);
    mr_str_deinit(&with);
}

/* ---- GIF ---- */

#define GIF_HEAD "GIF89a\2\0\1\0\x80\0\0\xff\0\0\0\0\xff"
#define GIF_FRAME ",\0\0\0\0\2\0\1\0\0\2\2D\n\0"

static mr_sv bytes_of(const char *p, size_t n) { return (mr_sv){p, n}; }
#define BYTES(literal) bytes_of(literal, sizeof(literal) - 1)

MR_TEST(gif_that_breaks_off_gives_the_frames_before)
{
    counted c = {.room = {make}};
    MR_CHECK_OK(mr_gif_decode(BYTES(GIF_HEAD GIF_FRAME ",\0\0\0\0\2\0\1\0\0\2\2D"), true, &c.room));
    MR_CHECK_INT(c.frames, 1);
    MR_CHECK_INT(c.pixels[0], 255);
    MR_CHECK_INT(c.pixels[5], 255);
}

MR_TEST(gif_canvas_is_as_large_as_the_largest_frame)
{
    counted c = {.room = {make}};
    MR_CHECK_OK(mr_gif_decode(BYTES("GIF89a\7\0\7\0\x80\0\0\xff\0\0\0\0\xff" GIF_FRAME ";"), true, &c.room));
    MR_CHECK_INT(c.height, 1);
    MR_CHECK_INT(c.width, 2);
}

MR_TEST(gif_frame_too_large_for_its_data_asks_for_no_room)
{
    counted c = {.room = {make}};
    MR_CHECK_ERR(mr_gif_decode(BYTES(GIF_HEAD ",\0\0\0\0\xff\xff\xff\xff\0\2\2D\n\0;"), true, &c.room), MR_INVALID_ARGUMENT,
                 "does not contain any image");
    MR_CHECK_INT(c.n_asked, 0);
}

/* ---- JPEG ---- */

static const mr_jpeg *codec_of(void)
{
    const mr_jpeg *codec;
    MR_CHECK_OK(mr_jpeg_codec(&codec));
    return codec;
}

static void write_gray(mr_str *out, bool progressive)
{
    static uint8_t pixels[32 * 32];
    for (int i = 0; i < 32 * 32; i++)
        pixels[i] = (uint8_t)(i * 7);
    mr_jpeg_writing w = {.pixels = pixels, .height = 32, .width = 32, .channels = 1, .quality = 90, .progressive = progressive,
                         .density_unit = 1, .x_density = 1, .y_density = 1};
    MR_CHECK_OK(codec_of()->encode(&w, out));
}

static void set_size(mr_str *s, int height, int width)
{
    for (size_t i = 0; i + 9 < s->n; i++)
        if ((uint8_t)s->p[i] == 0xff && ((uint8_t)s->p[i + 1] == 0xc0 || (uint8_t)s->p[i + 1] == 0xc2)) {
            s->p[i + 5] = (char)(height >> 8), s->p[i + 6] = (char)height;
            s->p[i + 7] = (char)(width >> 8), s->p[i + 8] = (char)width;
            return;
        }
}

static const mr_jpeg_reading whole = {.ratio = 1, .fancy_upscaling = true, .acceptable = 1};

MR_TEST(jpeg_too_short_for_its_image_asks_for_no_room)
{
    for (int progressive = 0; progressive < 2; progressive++) {
        mr_str s = {0};
        counted c = {.room = {make}};
        write_gray(&s, progressive);
        set_size(&s, 20000, 20000);
        MR_CHECK_ERR(codec_of()->decode(mr_str_view(&s), &whole, &c.room), MR_INVALID_ARGUMENT, "bytes for an image of 20000 x 20000");
        MR_CHECK_INT(c.n_asked, 0);
        mr_str_deinit(&s);
    }
}

MR_TEST(jpeg_of_too_many_pixels_is_refused)
{
    mr_str s = {0};
    counted c = {.room = {make}};
    write_gray(&s, false);
    set_size(&s, 60000, 60000);
    MR_CHECK_ERR(codec_of()->decode(mr_str_view(&s), &whole, &c.room), MR_INVALID_ARGUMENT, "image too large");
    mr_str_deinit(&s);
}

MR_TEST(jpeg_that_breaks_off_gives_rows_only_on_request)
{
    mr_str s = {0};
    counted c = {.room = {make}}, d = c, e = c;
    mr_jpeg_reading some = whole, made_up = whole;
    some.acceptable = 0.2f;
    made_up.recover = true;
    write_gray(&s, false);
    mr_sv half = {s.p, s.n * 3 / 4};
    MR_CHECK_ERR(codec_of()->decode(half, &whole, &c.room), MR_INVALID_ARGUMENT, "contains only");
    MR_CHECK_OK(codec_of()->decode(half, &some, &d.room));
    MR_CHECK_INT(d.pixels[32 * 32 - 1], 0); /* black */
    MR_CHECK_OK(codec_of()->decode(half, &made_up, &e.room));
    MR_CHECK_INT(memcmp(d.pixels, e.pixels, 8 * 32), 0);
    mr_str_deinit(&s);
}

MR_TEST(jpeg_without_room_says_why)
{
    mr_str s = {0};
    counted c = {.room = {make}};
    write_gray(&s, false);
    set_size(&s, 32, 500); /* more than the requested memory, less than the bytes could fill */
    MR_CHECK_ERR(codec_of()->decode(mr_str_view(&s), &whole, &c.room), MR_RESOURCE_EXHAUSTED, "a budget");
    mr_str_deinit(&s);
}

MR_TEST(jpeg_without_its_library_says_what_is_missing)
{
    const mr_jpeg *codec;
    setenv("MILLRACE_IMAGE_LIB", "/nowhere/libmillrace-image.so", 1);
    MR_CHECK_ERR(mr_jpeg_codec(&codec), MR_UNIMPLEMENTED, "It needs libmillrace-image.so");
    unsetenv("MILLRACE_IMAGE_LIB");
    MR_CHECK_OK(mr_jpeg_codec(&codec)); /* it is found once the library exists */
}

/* ---- failing memory ---- */

/* Every allocation that may fail does so once; the result must be a status, and nothing may leak (sanitizers). */
MR_TEST(png_bears_failing_memory_at_every_point)
{
    mr_str s = {0};
    counted c = {.room = {make}};
    put_png(&s, 3, 1, false, "\0\1\2\3", 4);
    for (int64_t i = 1; i < 20; i++) {
        mr_memory_fail_after(i);
        mr_status *st = mr_png_decode(mr_str_view(&s), 0, 8, &c.room);
        mr_memory_fail_after(0);
        MR_CHECK(!st || mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
        mr_status_free(st);
    }
    mr_str_deinit(&s);
}
