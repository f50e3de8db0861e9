/* ops/image/gif_lzw.h -- the compression of GIF: variable-length codes in blocks of up to 255 bytes. */
#ifndef MR_OPS_IMAGE_GIF_LZW_H
#define MR_OPS_IMAGE_GIF_LZW_H

#include <stdint.h>

#include "base/str.h"

enum { MR_LZW_CODES = 4096 };

typedef struct mr_lzw {
    mr_sv rest;  /* the file from the next byte on */
    size_t left; /* bytes of the block at hand */
    uint32_t bits;
    int n_bits;
    int width, next, clear; /* of a code; the code that the next string gets, clear if none; 2^code size */
    int last;               /* the code before, -1: none */
    uint16_t prefix[MR_LZW_CODES];
    uint16_t length[MR_LZW_CODES];
    uint8_t first[MR_LZW_CODES], suffix[MR_LZW_CODES]; /* bytes of a string */
    uint8_t string[MR_LZW_CODES]; /* of the code at hand, backwards: what is not handed out yet */
    int n_string;
} mr_lzw;

/* Begins with the byte that says how long codes are; false when it is more than 8, or not there. */
bool mr_lzw_init(mr_lzw *z, mr_sv bytes);
/* n bytes to out; NULL: nowhere, which takes time for the codes only, not for the bytes they stand for.  False when the data ends too early or makes no sense. */
bool mr_lzw_read(mr_lzw *z, uint8_t *out, size_t n);
/* Skips what is left of the blocks; z->rest is then what follows.  False when they have no end. */
bool mr_lzw_finish(mr_lzw *z);

#endif
