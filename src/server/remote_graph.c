/* server/remote_graph.c -- the graph by which a function is called on a device of another task.
 *
 *     arg_0: _Recv ---> call: StatefulPartitionedCall(f) ---> ret_0: _Send
 *
 * All of it is on that device. The RunGraph request puts the arguments into the step's rendezvous, and
 * its answer takes the results out, as a master does with feeds and fetches. The graph has the caller's
 * whole function library, since the function may call others. */
#include "base/memory.h"
#include "graph/graph_def.h"
#include "run/rendezvous.h"
#include "server/remote_call.h"

/* The rendezvous key of an argument or result. Both ends are the device, whose incarnation is part of
 * the key. */
mr_status *mr_remote_key(const mr_remote_device *on, const char *what, int i, char **out)
{
    mr_rendezvous_key k;
    char *name = mr_printf("%s_%d", what, i);
    mr_status *st = mr_rendezvous_key_make(mr_sv_of(on->name), on->incarnation, mr_sv_of(on->name), mr_sv_of(name), &k);
    mr_free(name);
    if (st)
        return st;
    *out = mr_printf("%s;0:0", k.text);
    mr_rendezvous_key_deinit(&k);
    return NULL;
}

/* Completes a node on the device. Internal ops are allowed. */
static mr_status *finish_node(mr_node_builder *b, const mr_remote_device *on, mr_node **out)
{
    mr_nb_device(b, on->name);
    mr_nb_internal(b);
    return mr_node_finish(b, out);
}

/* Adds a _Recv of argument i or, if `from` is given, a _Send of result i. */
static mr_status *add_end(mr_graph *g, const mr_remote_device *on, const char *what, int i, mr_dtype type,
                          const mr_out *from, mr_node **out)
{
    char *name = mr_printf("%s_%d", what, i);
    mr_node_builder *b = mr_node_begin(g, from ? "_Send" : "_Recv", name);
    if (from)
        mr_nb_input(b, *from);
    mr_nb_attr(b, from ? "T" : "tensor_type", mr_a_type(type));
    mr_nb_attr(b, "tensor_name", mr_a_str(name));
    mr_nb_attr(b, "send_device", mr_a_str(on->name));
    mr_nb_attr(b, "send_device_incarnation", mr_a_int((int64_t)on->incarnation));
    mr_nb_attr(b, "recv_device", mr_a_str(on->name));
    mr_nb_attr(b, "client_terminated", mr_a_bool(true));
    mr_free(name);
    return finish_node(b, on, out);
}

/* Adds the node that calls the function. */
static mr_status *add_call(mr_graph *g, const mr_run *r, const mr_func_ref *f, const mr_out *args, int n_args,
                           const mr_remote_device *on, mr_node **out)
{
    int *types = mr_new_array(int, n_args + r->n_out + 1);
    for (int i = 0; i < n_args; i++)
        types[i] = mr_out_type(args[i]);
    for (int i = 0; i < r->n_out; i++)
        types[n_args + i] = mr_out_dtype(r, i);
    mr_node_builder *b = mr_node_begin(g, "StatefulPartitionedCall", "call");
    mr_nb_input_list(b, args, n_args);
    mr_nb_attr(b, "Tin", mr_a_types(n_args, types));
    mr_nb_attr(b, "Tout", mr_a_types(r->n_out, types + n_args));
    mr_nb_attr(b, "f", (mr_attr){MR_ATTR_FUNC, .func = (mr_func_ref *)(uintptr_t)f});
    mr_status *st = finish_node(b, on, out);
    mr_free(types);
    return st;
}

/* Builds the graph, with a copy of the caller's function library. ins has room for n_args outputs. */
static mr_status *fill_graph(mr_graph *g, const mr_run *r, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                       const mr_remote_device *on, mr_out *ins)
{
    mr_node *n, *call;
    if (r->step->library)
        MR_TRY(mr_library_copy(r->step->library, g->library));
    for (int i = 0; i < n_args; i++) {
        MR_TRY(add_end(g, on, "arg", i, (mr_dtype)args[i]->dtype, NULL, &n));
        ins[i] = (mr_out){n, 0};
    }
    MR_TRY(add_call(g, r, f, ins, n_args, on, &call));
    for (int i = 0; i < r->n_out; i++)
        MR_TRY(add_end(g, on, "ret", i, mr_out_dtype(r, i), &(mr_out){call, i}, &n));
    return NULL;
}

/* Called while the node runs, because r, f and args are valid only then. *out is a GraphDef. */
mr_status *mr_remote_graph(const mr_run *r, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                           const mr_remote_device *on, mr_str *out)
{
    mr_graph *g = mr_graph_new();
    mr_out *ins = mr_new_array(mr_out, n_args + 1);
    mr_status *st = fill_graph(g, r, f, args, n_args, on, ins);
    if (!st)
        st = mr_graph_export(g, out);
    mr_free(ins);
    mr_graph_unref(g);
    return st;
}
