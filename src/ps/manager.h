/* ps/manager.h -- the manager of a parameter server: carries out what dist/ps_manager.h decides. */
#ifndef MR_PS_MANAGER_H
#define MR_PS_MANAGER_H

#include "ps/peers.h"

/* o: 0 means the default; address may begin with MR_PS_INSIDE. task: the server of o->task, or NULL. */
mr_status *mr_ps_manager_open(const mr_ps_manager_options *o, struct mr_server *task, mr_ps_manager **out);
const char *mr_ps_manager_where(const mr_ps_manager *m);
void mr_ps_manager_close(mr_ps_manager *m); /* NULL is fine */

#endif
