/* dist/ps_manager_internal.h -- what the manager's two files share.
 *
 *     ps_manager.c       events: servers, moves that end, workers, the start
 *     ps_manager_plan.c  what happens next to each range */
#ifndef MR_DIST_PS_MANAGER_INTERNAL_H
#define MR_DIST_PS_MANAGER_INTERNAL_H

#include "dist/ps_manager.h"

/* ---- ps_manager.c ---- */
void mr_psm_remove_here(mr_psm *m, uint64_t id);

/* ---- ps_manager_plan.c ---- */
void mr_psm_act(mr_psm_actions *out, mr_psm_do what, uint64_t id, int range);
uint64_t mr_psm_next_epoch(const mr_psm *m); /* epoch of the view that is published next */
void mr_psm_touch(mr_psm *m, mr_ps_range *s); /* the range changes with the next view */
void mr_psm_remove_at(mr_ps_range *s, int i); /* removes a member of the chain */
int mr_psm_n_active(const mr_psm *m);        /* servers of the view that are not leaving */
bool mr_psm_holds(const mr_psm *m, uint64_t id); /* whether a server holds a range, or catches up with one */
/* Asks the ring where ranges should be, unless that is known. If memory is refused, the old answer is kept. It names
 * servers that may be gone, so nothing moves (false). */
bool mr_psm_find_wanted(mr_psm *m, mr_psm_actions *out);
const uint64_t *mr_psm_wanted(const mr_psm *m, int range); /* n_wanted servers, the head first */
bool mr_psm_is_wanted(const mr_psm *m, int range, uint64_t id);
void mr_psm_plan(mr_psm *m, mr_psm_actions *out); /* every event ends with this */
void mr_psm_say_let_go(mr_psm *m, uint64_t server, mr_psm_actions *out);

#endif
