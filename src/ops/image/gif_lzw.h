/* ops/image/gif_lzw.h -- the compression of GIF: variable-length codes in blocks of up to 255 bytes. */
#ifndef MR_OPS_IMAGE_GIF_LZW_H
#define MR_OPS_IMAGE_GIF_LZW_H

#include <stdint.h>

#include "base/str.h"

enum { MR_LZW_CODES = 4096 };

typedef struct mr_lzw {
    mr_sv rest;  /* the file from the next byte on */
    size_t left; /* bytes left in the current block */
    uint32_t bits;
    int n_bits;
    int width, next, clear; /* bits of a code; code of the next string, clear if none; 2^code size */
    int last;               /* previous code, -1: none */
    uint16_t prefix[MR_LZW_CODES];
    uint16_t length[MR_LZW_CODES];
    uint8_t first[MR_LZW_CODES], suffix[MR_LZW_CODES]; /* bytes of a string */
    uint8_t string[MR_LZW_CODES]; /* string of the current code, backwards: the part that was not read yet */
    int n_string;
} mr_lzw;

/* Starts with the byte that gives the code size; false when it is more than 8, or missing. */
bool mr_lzw_init(mr_lzw *z, mr_sv bytes);
/* Reads n bytes to out; NULL: discards them, which takes time only for the codes, not for the bytes they represent.
 * False when the data ends too early or is invalid. */
bool mr_lzw_read(mr_lzw *z, uint8_t *out, size_t n);
/* Skips the remaining blocks; z->rest is then what follows. False when they have no end. */
bool mr_lzw_finish(mr_lzw *z);

#endif
