/* exec/config.c -- ConfigProto and RunOptions, as far as a session uses them.
 *
 * Fields that nothing here reads are accepted and ignored, as TensorFlow does with options of other versions. Values
 * are checked where they are used, for example device_count in env.c. */
#include <stdio.h>

#include "base/memory.h"
#include "exec/session.h"
#include "passes/passes.h"
#include "proto/config.pb-c.h"
#include "wire/message.h"

/* Level L0 turns optimizations off unless they are asked for one by one; the RewriterConfig can only turn
 * them off. */
static void read_graph_options(const Tensorflow__GraphOptions *g, mr_session_config *out)
{
    const Tensorflow__OptimizerOptions *o = g->optimizer_options;
    const Tensorflow__RewriterConfig *r = g->rewrite_options;
    out->place_pruned = g->place_pruned_graph;
    out->cost_model_every = g->build_cost_model;
    out->cost_model_after = g->build_cost_model_after;
    out->lossy_sends = g->enable_bfloat16_sendrecv;
    if (o) {
        bool none = o->opt_level == TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L0;
        out->no_fold = none && !o->do_constant_folding;
        out->no_cse = none && !o->do_common_subexpression_elimination;
        out->no_fuse = none;
        out->no_simplify = none;
        out->schedule = none && !g->enable_recv_scheduling ? MR_SCHEDULE_NONE : MR_SCHEDULE_REMOTE;
        out->max_folded_bytes = o->max_folded_constant_in_bytes;
    }
    if (r && r->constant_folding == TENSORFLOW__REWRITER_CONFIG__TOGGLE__OFF)
        out->no_fold = true;
    if (r && r->common_subgraph_elimination == TENSORFLOW__REWRITER_CONFIG__TOGGLE__OFF)
        out->no_cse = true;
    if (r && r->remapping == TENSORFLOW__REWRITER_CONFIG__TOGGLE__OFF)
        out->no_fuse = true;
    if (r && r->arithmetic_optimization == TENSORFLOW__REWRITER_CONFIG__TOGGLE__OFF)
        out->no_simplify = true;
}

/* For equal keys the last one counts. A type that does not fit cannot have a device and is skipped. */
static void read_device_count(const char *type, int most, mr_session_config *out)
{
    mr_device_count *at = out->counts;
    if (strcmp(type, "CPU") == 0) {
        out->n_cpus = most;
        return;
    }
    while (at < out->counts + out->n_counts && strcmp(at->type, type) != 0)
        at++;
    if (at == out->counts + MR_DEVICE_COUNTS || strlen(type) >= sizeof at->type)
        return;
    memcpy(at->type, type, strlen(type) + 1);
    at->most = most;
    out->n_counts = MR_MAX(out->n_counts, (int)(at - out->counts) + 1);
}

/* Copies everything: *out does not point into the message. */
mr_status *mr_session_config_parse(mr_sv config_proto, mr_session_config *out)
{
    Tensorflow__ConfigProto *c = NULL;
    *out = (mr_session_config){0};
    MR_TRY(mr_message_unpack(&tensorflow__config_proto__descriptor, config_proto, "ConfigProto",
                             (ProtobufCMessage **)&c));
    for (size_t i = 0; i < c->n_device_count; i++)
        read_device_count(c->device_count[i]->key, c->device_count[i]->value, out);
    out->intra_threads = c->intra_op_parallelism_threads;
    out->inter_threads = c->inter_op_parallelism_threads;
    if (c->n_session_inter_op_thread_pool > 0 && c->session_inter_op_thread_pool[0]->num_threads)
        out->inter_threads = c->session_inter_op_thread_pool[0]->num_threads;
    out->per_session_threads = c->use_per_session_threads;
    out->soft_placement = c->allow_soft_placement;
    out->log_placement = c->log_device_placement;
    out->timeout_ms = c->operation_timeout_in_ms;
    out->placement_period = c->placement_period;
    if (c->graph_options)
        read_graph_options(c->graph_options, out);
    /* Texts are copied into arrays of fixed size. A leader that does not fit is no task's name and is ignored; an
     * executor type is cut, and then refused as unknown. */
    if (c->experimental) {
        const char *leader = c->experimental->collective_group_leader;
        out->share_brought = c->experimental->share_session_state_in_clusterspec_propagation;
        out->order_collectives = c->experimental->collective_deterministic_sequential_execution;
        snprintf(out->executor_type, sizeof out->executor_type, "%s", c->experimental->executor_type);
        if (strlen(leader) < sizeof out->group_leader)
            memcpy(out->group_leader, leader, strlen(leader) + 1);
    }
    mr_message_free(&c->base);
    return NULL;
}

/* TensorFlow's master looks only at the remainder, so with build_cost_model 1 it skips no step at all. Its
 * direct session follows the documentation of the options, and so do both of ours. */
bool mr_session_config_wants_costs(const mr_session_config *c, _Atomic int64_t *n_steps)
{
    if (c->cost_model_every <= 0)
        return false;
    int64_t skipped = MR_MAX(c->cost_model_after, INT64_MIN / 2); /* no overflow below */
    int64_t counted = atomic_fetch_add_explicit(n_steps, 1, memory_order_relaxed) - skipped;
    return counted >= 0 && (counted + 1) % c->cost_model_every == 0;
}

/* Copies everything: *out does not point into the message. */
mr_status *mr_run_options_parse(mr_sv run_options_proto, mr_run_options *out)
{
    Tensorflow__RunOptions *o = NULL;
    *out = (mr_run_options){0};
    MR_TRY(mr_message_unpack(&tensorflow__run_options__descriptor, run_options_proto, "RunOptions",
                             (ProtobufCMessage **)&o));
    out->timeout_ms = o->timeout_in_ms;
    out->trace_level = (int)o->trace_level;
    out->output_partition_graphs = o->output_partition_graphs;
    out->inter_op_in_caller = o->inter_op_thread_pool < 0;
    out->graph_key = o->experimental ? o->experimental->collective_graph_key : 0;
    mr_message_free(&o->base);
    return NULL;
}

mr_status *mr_run_interrupted(void) { return mr_error(MR_CANCELLED, "The run was interrupted"); }

/* A run whose cancellation has started before it begins fails at once, without side effects. */
mr_status *mr_run_options_check(const mr_run_options *o)
{
    return o && o->cancel && mr_cancel_started(o->cancel) ? mr_run_interrupted() : NULL;
}

/* Accepts NULL. */
void mr_device_infos_free(mr_device_info *d, int n)
{
    for (int i = 0; d && i < n; i++) {
        mr_free(d[i].name);
        mr_free(d[i].type);
    }
    mr_free(d);
}
