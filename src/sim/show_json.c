/* sim/show_json.c -- prints a simulated step as a JSON object. */
#include <math.h>

#include "base/memory.h"
#include "sim/show.h"
#include "wire/json.h"

static void put_number(mr_str *out, const char *key, double v)
{
    mr_str_printf(out, ", \"%s\": ", key);
    if (isfinite(v))
        mr_str_printf(out, "%.9g", v);
    else
        mr_str_appendz(out, "null");
}

static void put_text(mr_str *out, const char *key, const char *v)
{
    mr_str_printf(out, "\"%s\": ", key);
    mr_json_quote(out, mr_sv_of(v));
}

static const char *device_name(const mr_sim_step *s, int d) { return s->plan->devices.p[d].name; }

static void put_devices(const mr_sim_step *s, const double *single, mr_str *out)
{
    for (int d = 0; d < s->n_devices; d++) {
        int n = 0;
        for (int v = 0; v < s->n_nodes; v++)
            n += s->device[v] == d;
        mr_str_appendz(out, d ? ",\n  {" : "\n  {");
        put_text(out, "name", device_name(s, d));
        mr_str_appendz(out, ", ");
        put_text(out, "device", s->devices[d]->name);
        put_number(out, "nodes", n);
        put_number(out, "busy_s", s->busy_s[d]);
        if (single)
            put_number(out, "alone_s", single[d]);
        mr_str_appendc(out, '}');
    }
}

/* The numbers of the nodes that v reads or runs after; each once. */
static void put_inputs(const mr_sim_step *s, int v, int *seen, mr_str *out)
{
    const mr_node *n = s->nodes[v];
    bool first = true;
    mr_str_appendz(out, ", \"inputs\": [");
    for (int i = 0; i < n->n_in + n->n_ctrl; i++) {
        const mr_node *from = i < n->n_in ? n->in[i].node : n->ctrl[i - n->n_in];
        int number = from ? s->number[from->id] : -1;
        if (number < 0 || seen[number] == v + 1)
            continue;
        seen[number] = v + 1;
        mr_str_printf(out, first ? "%d" : ", %d", number);
        first = false;
    }
    mr_str_appendc(out, ']');
}

/* A node that stands for a feed or a fetch also has the name that people know it by. */
static void put_label(const mr_sim_step *s, int v, mr_str *label, mr_str *out)
{
    mr_str_clear(label);
    mr_sim_step_label(s, v, label);
    if (strcmp(mr_str_z(label), s->nodes[v]->name) == 0)
        return;
    mr_str_appendz(out, ", ");
    put_text(out, "label", mr_str_z(label));
}

static void put_nodes(const mr_sim_step *s, mr_str *out)
{
    static const char *const phases[] = {"forward", "backward", "update"};
    int *seen = mr_new_array(int, s->n_nodes + 1);
    mr_str label = {0};
    for (int v = 0; v < s->n_nodes; v++) {
        mr_str_appendz(out, v ? ",\n  {" : "\n  {");
        put_text(out, "name", s->nodes[v]->name);
        mr_str_appendz(out, ", ");
        put_text(out, "op", s->nodes[v]->def->name);
        mr_str_appendz(out, ", ");
        put_text(out, "device", device_name(s, s->device[v]));
        mr_str_appendz(out, ", ");
        put_text(out, "phase", phases[mr_sim_step_phase(s, v)]);
        put_number(out, "ready_s", s->planned.play.ready_at[v]);
        put_number(out, "start_s", s->planned.play.start[v]);
        put_number(out, "end_s", s->planned.play.finish[v]);
        put_label(s, v, &label, out);
        put_inputs(s, v, seen, out);
        mr_str_appendc(out, '}');
    }
    mr_str_deinit(&label);
    mr_free(seen);
}

static void put_transfers(const mr_sim_step *s, mr_str *out)
{
    mr_str label = {0};
    for (int i = 0; i < s->planned.play.sends.n; i++) {
        const mr_play_send *x = &s->planned.play.sends.p[i];
        mr_str_appendz(out, i ? ",\n  {" : "\n  {");
        mr_str_clear(&label);
        mr_sim_step_send_label(s, x, &label);
        put_text(out, "tensor", mr_str_z(&label));
        mr_str_appendz(out, ", ");
        put_text(out, "from", device_name(s, x->from));
        mr_str_appendz(out, ", ");
        put_text(out, "to", device_name(s, x->to));
        put_number(out, "source", x->node);
        put_number(out, "bytes", (double)x->bytes);
        put_number(out, "start_s", x->start);
        put_number(out, "arrival_s", x->arrival);
        mr_str_appendc(out, '}');
    }
    mr_str_deinit(&label);
}

void mr_sim_show_json(const mr_sim_step *s, const double *single, mr_str *out)
{
    put_text(out, "title", s->plan->title);
    put_number(out, "graph_nodes", s->def.g->nodes.n);
    put_number(out, "step_nodes", s->n_nodes);
    put_number(out, "step_s", s->step_s);
    mr_str_appendz(out, ",\n\"devices\": [");
    put_devices(s, single, out);
    mr_str_appendz(out, "],\n\"nodes\": [");
    put_nodes(s, out);
    mr_str_appendz(out, "],\n\"transfers\": [");
    put_transfers(s, out);
    mr_str_appendz(out, "]");
}

/* ---- reasons ---- */

typedef struct json_reasons {
    const mr_sim_step *s;
    mr_str *out;
    int n;
} json_reasons;

static void put_choice(const json_reasons *t, const mr_place_choice *c)
{
    mr_str_appendc(t->out, '{');
    put_text(t->out, "device", device_name(t->s, c->device));
    put_number(t->out, "end_s", c->ends_s);
    put_number(t->out, "step_s", c->step_s);
    mr_str_appendc(t->out, '}');
}

static void put_reason(void *arg, const mr_place_reason *r)
{
    json_reasons *t = arg;
    mr_str_appendz(t->out, t->n++ ? ",\n  {" : "\n  {");
    put_text(t->out, "node", r->node->name);
    mr_str_appendz(t->out, ", ");
    put_text(t->out, "device", device_name(t->s, r->here.device));
    mr_str_appendz(t->out, ", ");
    put_text(t->out, "why", r->why);
    mr_str_appendz(t->out, ", \"choices\": [");
    put_choice(t, &r->here);
    for (int i = 0; i < r->n_others; i++) {
        mr_str_appendz(t->out, ", ");
        put_choice(t, &r->others[i]);
    }
    mr_str_appendz(t->out, "]}");
}

mr_status *mr_sim_reasons_json(const mr_sim_step *s, const char *node, mr_str *out)
{
    json_reasons t = {s, out, 0};
    mr_str_appendz(out, "\"reasons\": [");
    MR_TRY(mr_sim_step_explain(s, node, put_reason, &t));
    mr_str_appendc(out, ']');
    return NULL;
}
