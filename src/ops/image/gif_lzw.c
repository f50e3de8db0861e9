/* ops/image/gif_lzw.c -- the compression of GIF.
 *
 * A code represents a string: below `clear` one byte, above clear + 1 a string of the table, which consists of
 * another string (prefix) and a byte (suffix). After every code but the first, the string of the previous code plus
 * the first byte of this one is added to the table. The code that is about to be added may be used at once: its
 * string is the previous one plus that string's first byte. Codes grow by a bit when the table has outgrown them,
 * up to 12; a full table does not change. */
#include "ops/image/gif_lzw.h"

#include "base/memory.h"

static void clear_table(mr_lzw *z)
{
    z->next = z->clear + 2;
    z->width = __builtin_ctz((unsigned)z->clear) + 1;
    z->last = -1;
}

bool mr_lzw_init(mr_lzw *z, mr_sv bytes)
{
    if (bytes.n == 0 || (uint8_t)bytes.p[0] > 8)
        return false;
    z->rest = (mr_sv){bytes.p + 1, bytes.n - 1};
    z->left = 0;
    z->bits = 0;
    z->n_bits = z->n_string = 0;
    z->clear = 1 << bytes.p[0];
    for (int i = 0; i < z->clear; i++) {
        z->first[i] = (uint8_t)i;
        z->length[i] = 1;
    }
    clear_table(z);
    return true;
}

/* A block is its length and that many bytes; a block of length 0 is the last. */
static bool next_byte(mr_lzw *z, uint8_t *out)
{
    if (z->left == 0) {
        if (z->rest.n == 0 || (z->left = (uint8_t)z->rest.p[0]) == 0)
            return false;
        z->rest = (mr_sv){z->rest.p + 1, z->rest.n - 1};
    }
    if (z->rest.n == 0)
        return false;
    *out = (uint8_t)z->rest.p[0];
    z->rest = (mr_sv){z->rest.p + 1, z->rest.n - 1};
    z->left--;
    return true;
}

static bool next_code(mr_lzw *z, int *out)
{
    while (z->n_bits < z->width) {
        uint8_t b;
        if (!next_byte(z, &b))
            return false;
        z->bits |= (uint32_t)b << z->n_bits;
        z->n_bits += 8;
    }
    *out = (int)(z->bits & ((1u << z->width) - 1));
    z->bits >>= z->width;
    z->n_bits -= z->width;
    return true;
}

/* Writes the string of a code that is in the table, last byte first. */
static void lay_out(mr_lzw *z, int code)
{
    while (code >= z->clear + 2) {
        z->string[z->n_string++] = z->suffix[code];
        code = z->prefix[code]; /* smaller than the code itself, so this terminates */
    }
    z->string[z->n_string++] = (uint8_t)code;
}

static void enter_code(mr_lzw *z, uint8_t first)
{
    if (z->last < 0 || z->next >= MR_LZW_CODES)
        return;
    z->prefix[z->next] = (uint16_t)z->last;
    z->suffix[z->next] = first;
    z->first[z->next] = z->first[z->last];
    z->length[z->next] = (uint16_t)(z->length[z->last] + 1);
    z->next++;
    if (z->next >= 1 << z->width && z->width < 12)
        z->width++;
}

/* Reads codes until there is a string, and writes it if `wanted`; false at the end or at an invalid code. */
static bool next_string(mr_lzw *z, bool wanted)
{
    int code;
    for (;;) {
        if (!next_code(z, &code) || code == z->clear + 1)
            return false;
        if (code != z->clear)
            break;
        clear_table(z);
    }
    bool known = code < z->clear || code < z->next;
    if (!known && (code != z->next || z->last < 0 || z->next >= MR_LZW_CODES))
        return false;
    enter_code(z, z->first[known ? code : z->last]); /* adds a code that was about to be added */
    if (wanted)
        lay_out(z, code);
    else
        z->n_string = z->length[code];
    z->last = code;
    return true;
}

bool mr_lzw_read(mr_lzw *z, uint8_t *out, size_t n)
{
    for (size_t done = 0; done < n;) {
        if (z->n_string == 0 && !next_string(z, out != NULL))
            return false;
        size_t now = MR_MIN((size_t)z->n_string, n - done);
        for (size_t i = 0; out && i < now; i++)
            out[done + i] = z->string[z->n_string - 1 - (int)i];
        z->n_string -= (int)now;
        done += now;
    }
    return true;
}

bool mr_lzw_finish(mr_lzw *z)
{
    for (;;) {
        if (z->rest.n < z->left)
            return false;
        z->rest = (mr_sv){z->rest.p + z->left, z->rest.n - z->left};
        if (z->rest.n == 0)
            return false;
        z->left = (uint8_t)z->rest.p[0];
        z->rest = (mr_sv){z->rest.p + 1, z->rest.n - 1};
        if (z->left == 0)
            return true;
    }
}
