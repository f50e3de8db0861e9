/* web/wasm/no_zlib.c -- in the place of zlib, which Debian has for the machine alone.
 *
 * The page computes values only to fold constants. Constants that must be decompressed (DecodePng, DecodeCompressed)
 * are not folded: no stream can be opened, so the op fails, and a node that fails is left as it is. */
#include <stdint.h>
#include <zlib.h>

/* What zlib answers if there is no memory. */
int inflateInit_(z_streamp s, const char *version, int bytes)
{
    (void)s, (void)version, (void)bytes;
    return Z_MEM_ERROR;
}

int inflateInit2_(z_streamp s, int bits, const char *version, int stream_bytes)
{
    (void)bits;
    return inflateInit_(s, version, stream_bytes);
}

int deflateInit2_(z_streamp s, int level, int method, int bits, int memory, int strategy, const char *version, int bytes)
{
    (void)level, (void)method, (void)bits, (void)memory, (void)strategy;
    return inflateInit_(s, version, bytes);
}

/* What zlib answers for a stream that is not open. */
static int refuse_stream(z_streamp s) { return (void)s, Z_STREAM_ERROR; }

int inflate(z_streamp s, int flush) { return (void)flush, refuse_stream(s); }
int inflateReset(z_streamp s) { return refuse_stream(s); }
int inflateEnd(z_streamp s) { return refuse_stream(s); }
int deflate(z_streamp s, int flush) { return (void)flush, refuse_stream(s); }
int deflateEnd(z_streamp s) { return refuse_stream(s); }

uLong crc32(uLong before, const Bytef *p, uInt n)
{
    uint32_t crc = ~(uint32_t)before;
    for (uInt i = 0; p && i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return p ? (uint32_t)~crc : 0;
}
