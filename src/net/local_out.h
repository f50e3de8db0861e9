/* net/local_out.h -- what connections write; for local_conn.c and local_out.c only. */
#ifndef MR_NET_LOCAL_OUT_H
#define MR_NET_LOCAL_OUT_H

#include "net/local_conn.h"

/* CONNECTING and SECURING (the handshake of TLS): only over TCP.  GREETED: the server's end has answered the first
 * message. */
enum { CONN_CONNECTING, CONN_SECURING, CONN_HELLO, CONN_GREETED, CONN_OPEN, CONN_DEAD };

/* As sendmsg, over TLS if the connection has it: the bytes taken, or -1 and errno. */
ssize_t mr_conn_send(mr_conn *c, struct iovec *iov, int n, int fd);
/* Starts reread, unless that is posted. */
void mr_conn_reread_locked(mr_conn *c) MR_REQUIRES(c->mu);

void mr_conn_flush_now(mr_conn *c);
void mr_conn_trim(mr_local_timer *t);
void mr_conn_flush_late(mr_local_timer *t); /* of lazy_timer */
/* All frames, for mr_out_frames_free without the lock: dropped pieces may call back. */
mr_out_frame *mr_conn_empty_queue_locked(mr_conn *c) MR_REQUIRES(c->mu);
void mr_out_frames_free(mr_out_frame *list);

#endif
