/* ps/server.h -- a server of parameters: carries out what dist/ps_replica.h decides for each of its ranges. */
#ifndef MR_PS_SERVER_H
#define MR_PS_SERVER_H

#include "ps/peers.h"

/* Joins the manager, and returns when that has taken it in.  task: the server of o->task, or NULL. */
mr_status *mr_ps_server_open(const mr_ps_server_options *o, struct mr_server *task, mr_ps_server **out);
const char *mr_ps_server_where(const mr_ps_server *s);
/* Waits until its ranges are with others. */
mr_status *mr_ps_server_hand_over(mr_ps_server *s);
void mr_ps_server_close(mr_ps_server *s); /* NULL is fine */

#endif
