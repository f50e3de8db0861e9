/* group/post.h -- a transport over the calls of net/net.h: gRPC between hosts, or a local socket.
 *
 * A message is one call, /millrace.Group/Put; its answer says that the receiver has received it.  A process has one
 * mr_post, to which its server hands such calls; each transport of its groups has a key there.  Calls for a key that
 * does not exist yet stay pending, because members do not begin at the same time.
 *
 * The body of a call, numbers little-endian, then the message:
 *
 *     offset size
 *          0    4  "MRGP"
 *          4    4  from     the sender's rank
 *          8    8  key      of group, generation and lane
 *         16    8  number   of the message, from this sender to this receiver, from 0
 *         24    8  bytes */
#ifndef MR_GROUP_POST_H
#define MR_GROUP_POST_H

#include "group/transport.h"
#include "net/net.h"

#define MR_POST_METHOD "/millrace.Group/Put"
enum { MR_POST_HEAD = 32, MR_POST_PENDING = 4096 /* pending calls at most */ };
#define MR_POST_PENDING_BYTES (INT64_C(1) << 32) /* of all pending calls; a single one may have more */

typedef struct mr_post mr_post;
mr_post *mr_post_new(void);
/* All its transports must be freed before; pending calls end with UNAVAILABLE. */
void mr_post_free(mr_post *p);
/* Takes over a call of MR_POST_METHOD, from the thread of a server. */
void mr_post_handle(mr_post *p, mr_net_call *c);

typedef struct mr_post_route {
    mr_net *net;
    mr_net_peer *peer;
} mr_post_route;
/* routes: by rank, borrowed until the transport is freed; that of this member itself is not used. */
mr_transport *mr_post_transport(mr_post *p, uint64_t key, int rank, int size, const mr_post_route *routes);

typedef struct mr_post_head {
    uint32_t from;
    uint64_t key, number, bytes;
} mr_post_head;
void mr_post_head_write(const mr_post_head *h, uint8_t out[MR_POST_HEAD]);
/* Reads the header of a whole body; INVALID_ARGUMENT if it is not one. */
mr_status *mr_post_head_read(const mr_bytes *body, mr_post_head *out);

#endif
