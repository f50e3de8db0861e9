/* capi/interrupter.c -- ending runs from outside: a cancellation that clients hold, and which one a thread's runs are under.
 *
 * A session registers each run with it for as long as the run lasts (mr_run_options.cancel), so an interrupter that is not
 * fired costs a run one list entry, and a thread that is under none nothing. */
#include "capi/internal.h"
#include "millrace/front_end.h"
#include "run/cancel.h"

struct mr_interrupter {
    mr_cancel *cancel;
};

static _Thread_local mr_interrupter *over_this_thread;

mr_interrupter *mr_interrupter_new(void)
{
    mr_interrupter *i = mr_new(mr_interrupter);
    i->cancel = mr_cancel_new(NULL);
    return i;
}

void mr_interrupter_free(mr_interrupter *i)
{
    if (!i)
        return;
    if (over_this_thread == i) /* of other threads nothing is known here */
        over_this_thread = NULL;
    mr_cancel_free(i->cancel);
    mr_free(i);
}

void mr_interrupter_fire(mr_interrupter *i) { mr_cancel_start(i->cancel); }
void mr_interrupter_reset(mr_interrupter *i) { mr_cancel_reset(i->cancel); }
void mr_run_under(mr_interrupter *i) { over_this_thread = i; }

mr_cancel *mr_capi_run_cancel(void) { return over_this_thread ? over_this_thread->cancel : NULL; }
