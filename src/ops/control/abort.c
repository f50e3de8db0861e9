/* ops/control/abort.c -- Abort: a failure requested by the graph.
 *
 * In TensorFlow it ends the process, by SIGABRT or, with exit_without_error, by exit(0). This library never ends
 * its host process: here the step fails with ABORTED (clients start again) or with CANCELLED (clients stop without
 * an error), and the program decides. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct state {
    char *message;
    bool without_error;
} state;

static mr_status *init_abort(mr_make *m, void *p)
{
    state *s = p;
    mr_sv message;
    MR_TRY(mr_node_get_str(m->node, "error_msg", &message));
    MR_TRY(mr_node_get_bool(m->node, "exit_without_error", &s->without_error));
    s->message = mr_strndup(message.p, message.n);
    return NULL;
}

static void deinit_abort(void *p) { mr_free(((state *)p)->message); }

static mr_status *abort_op(mr_run *r)
{
    const state *s = r->state;
    return s->without_error
               ? mr_error(MR_CANCELLED, "Exiting the process: %s", s->message)
               : mr_error(MR_ABORTED, "Abort_op intentional failure; %s", s->message);
}

MR_OP(Abort,
    .doc      = "ends the step with an error; the process goes on",
    .sig      = "->",
    .attrs    = "error_msg: string = ''; exit_without_error: bool = false",
    .flags    = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(abort_op)),
    .state_bytes = sizeof(state), .init = init_abort, .deinit = deinit_abort,
    .examples = MR_EXAMPLES(
        "error_msg=\"enough\": -> !ABORTED Abort_op intentional failure; enough",
        "error_msg=\"bye\" exit_without_error=true: -> !CANCELLED Exiting the process: bye"));
