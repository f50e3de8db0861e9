/* ops/image/jpeg/encode.c -- writes JPEG files with libjpeg. */
#include <stdlib.h>

#include "base/memory.h"
#include "ops/image/jpeg/internal.h"

typedef struct work {
    struct jpeg_compress_struct info;
    mr_jpeg_errors errors;
    const mr_jpeg_writing *what;
    unsigned char *file; /* allocated by libjpeg with malloc */
    unsigned long bytes;
    uint8_t *packet; /* of XMP */
} work;

/* XMP is a marker that begins with a name and a NUL. */
static void put_xmp(work *w)
{
    static const char name[] = "http://ns.adobe.com/xap/1.0/";
    size_t n = sizeof(name) + w->what->xmp.n;
    if (w->what->xmp.n == 0)
        return;
    if (n > 65533) /* a marker's length has 16 bits and includes itself */
        mr_jpeg_leave((j_common_ptr)&w->info, mr_error(MR_INTERNAL,
                                                       "JPEG encoding failed: xmp_metadata of %zu bytes is too long",
                                                       w->what->xmp.n));
    w->packet = mr_alloc(n);
    memcpy(w->packet, name, sizeof(name));
    memcpy(w->packet + sizeof(name), w->what->xmp.p, w->what->xmp.n);
    jpeg_write_marker(&w->info, JPEG_APP0 + 1, w->packet, (unsigned)n);
}

static void set_up(work *w)
{
    const mr_jpeg_writing *what = w->what;
    struct jpeg_compress_struct *info = &w->info;
    info->image_width = (JDIMENSION)what->width;
    info->image_height = (JDIMENSION)what->height;
    info->input_components = what->channels;
    info->in_color_space = what->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(info);
    info->optimize_coding = what->optimize;
    info->density_unit = (UINT8)what->density_unit;
    info->X_density = (UINT16)what->x_density;
    info->Y_density = (UINT16)what->y_density;
    jpeg_set_quality(info, what->quality, TRUE);
    if (what->progressive)
        jpeg_simple_progression(info);
    for (int i = 0; !what->downsample && i < info->num_components; i++)
        info->comp_info[i].h_samp_factor = info->comp_info[i].v_samp_factor = 1;
}

static void encode_image(void *ctx)
{
    work *w = ctx;
    const mr_jpeg_writing *what = w->what;
    jpeg_create_compress(&w->info);
    jpeg_mem_dest(&w->info, &w->file, &w->bytes);
    set_up(w);
    jpeg_start_compress(&w->info, TRUE);
    put_xmp(w);
    while (w->info.next_scanline < w->info.image_height) {
        JSAMPROW row = (uint8_t *)(uintptr_t)what->pixels + (size_t)w->info.next_scanline * (size_t)(what->width * what->channels);
        jpeg_write_scanlines(&w->info, &row, 1);
    }
    jpeg_finish_compress(&w->info);
}

mr_status *mr_jpeg_encode(const mr_jpeg_writing *what, mr_str *out)
{
    if (what->width <= 0 || what->height <= 0 || what->width > JPEG_MAX_DIMENSION || what->height > JPEG_MAX_DIMENSION ||
        what->width * what->height >= (int64_t)1 << 29)
        return mr_error(MR_INTERNAL, "JPEG encoding failed: cannot encode an image of %lld by %lld pixels",
                        (long long)what->height, (long long)what->width);
    work *w = mr_new(work);
    mr_jpeg_errors_init(&w->errors);
    w->info.err = &w->errors.base;
    w->what = what;
    bool ok = mr_jpeg_guard(&w->errors, encode_image, w);
    mr_status *st = w->errors.st;
    if (ok && !mr_str_try_append(out, w->file, w->bytes))
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a JPEG of %lu bytes", w->bytes);
    jpeg_destroy_compress(&w->info);
    free(w->file);
    mr_free(w->packet);
    mr_free(w);
    return st;
}
