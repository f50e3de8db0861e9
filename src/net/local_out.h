/* net/local_out.h -- what connections write; for local_conn.c and local_out.c only. */
#ifndef MR_NET_LOCAL_OUT_H
#define MR_NET_LOCAL_OUT_H

#include "net/local_conn.h"

/* GREETED: the server's end has answered the first message. */
enum { CONN_HELLO, CONN_GREETED, CONN_OPEN, CONN_DEAD };

void mr_conn_flush_now(mr_conn *c);
void mr_conn_trim(mr_local_timer *t);
void mr_conn_flush_late(mr_local_timer *t); /* of lazy_timer */
/* All frames, for mr_out_frames_free without the lock: dropped pieces may call back. */
mr_out_frame *mr_conn_empty_queue_locked(mr_conn *c) MR_REQUIRES(c->mu);
void mr_out_frames_free(mr_out_frame *list);

#endif
