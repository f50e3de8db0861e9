/* net/frame.h -- the messages between two processes, as bytes; docs/formats/local.md and docs/formats/direct.md
 * describe the whole protocols.
 *
 * A frame is a head of 40 bytes, then `meta` (a text, and where the body's parts are), then those
 * bytes of the body that travel in the stream.  Numbers are little-endian.
 *
 *     offset size
 *          0    1  kind
 *          1    1  0
 *          2    2  n_parts       0: the body is what follows in the stream
 *          4    4  text_bytes
 *          8    8  id            of the call (request, reply, cancel) or of the segment
 *         16    8  stream_bytes  of the body in the stream
 *         24    8  value         request: ns until the deadline, 0 none; reply: code; segment:
 *                                its bytes
 *         32    4  segment       where parts outside the stream are, 0: none
 *         36    4  0
 *
 * A part is 16 bytes: its offset in the segment (all ones: it is in the stream) and its size.  Parts in
 * the stream are received into aligned memory, each for itself, so that a tensor needs no copy.  The
 * text is a request's method or the message of a reply's error.
 *
 * The reader below has no socket: the caller asks it where to put bytes, reads them from its socket, and
 * reports how many came. */
#ifndef MR_NET_FRAME_H
#define MR_NET_FRAME_H

#include <sys/uio.h>

#include "base/bytes.h"
#include "net/segment.h"

enum {
    MR_FRAME_REQUEST = 1,
    MR_FRAME_REPLY = 2,
    MR_FRAME_CANCEL = 3,  /* the caller no longer wants the reply; a reply still comes */
    MR_FRAME_SEGMENT = 4, /* a new segment; its descriptor comes with this frame's first byte */
    MR_FRAME_RETURN = 5,  /* the receiver has read what was in a segment */
    MR_FRAME_FORGET = 6,  /* the sender has let go of a segment */
};

enum {
    MR_FRAME_HEAD = 40,
    MR_FRAME_PART = 16,
    MR_FRAME_MAX_TEXT = 8192,
    MR_FRAME_MAX_PARTS = 1024,
    MR_FRAME_MAX_META = MR_FRAME_MAX_TEXT + MR_FRAME_MAX_PARTS * MR_FRAME_PART,
};

typedef struct mr_frame_head {
    uint8_t kind;
    uint16_t n_parts;
    uint32_t text_bytes;
    uint64_t id;
    uint64_t stream_bytes;
    int64_t value;
    uint32_t segment;
} mr_frame_head;

#define MR_FRAME_IN_STREAM UINT64_MAX
typedef struct mr_frame_part {
    uint64_t offset, n;
} mr_frame_part;

void mr_frame_head_write(const mr_frame_head *h, uint8_t out[MR_FRAME_HEAD]);
mr_status *mr_frame_head_read(const uint8_t in[MR_FRAME_HEAD], mr_frame_head *out);
void mr_frame_part_write(mr_frame_part p, uint8_t out[MR_FRAME_PART]);
mr_frame_part mr_frame_part_read(const uint8_t in[MR_FRAME_PART]);

typedef struct mr_net_frame {
    mr_frame_head head;
    mr_sv text;     /* lives until the reader is asked again */
    mr_bytes body;  /* the caller's */
    bool too_large; /* the body went over a limit and was thrown away */
} mr_net_frame;

typedef struct mr_frame_reader {
    mr_segment_table *table;
    mr_net_budget *budget; /* for what comes in the stream; held until the pieces are dropped */
    size_t max_message;    /* of one body */
    uint8_t *stage;        /* bytes that came and are not parsed yet: begin .. end */
    size_t begin, end;
    int state;
    mr_frame_head head;
    mr_sv text;
    uint8_t meta[MR_FRAME_MAX_META];
    size_t meta_got, meta_bytes;
    struct mr_frame_block *block; /* for the body's bytes in the stream; NULL: they are thrown away */
    uint64_t body_got;
    int run; /* the part after the present run */
    size_t run_at, run_bytes, run_got; /* where the present run is in the block */
    bool too_large;
} mr_frame_reader;

void mr_frame_reader_init(mr_frame_reader *r, mr_segment_table *table, mr_net_budget *budget,
                          size_t max_message);
void mr_frame_reader_deinit(mr_frame_reader *r);
/* Where the next bytes go: one or two places.  Only when mr_frame_reader_next asked for more. */
int mr_frame_reader_space(mr_frame_reader *r, struct iovec out[2]);
void mr_frame_reader_came(mr_frame_reader *r, size_t n);
/* The next whole frame; *got false: more bytes are needed.  After an error nothing more comes. */
mr_status *mr_frame_reader_next(mr_frame_reader *r, mr_net_frame *out, bool *got);
/* A part of a frame has come. */
bool mr_frame_reader_is_inside(const mr_frame_reader *r);

#endif
