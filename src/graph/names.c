/* graph/names.c -- checks names and finds free ones. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>

#include "graph/graph.h"

static bool starts_part(char c) { return isalnum((unsigned char)c) || c == '.'; }
static bool goes_on(char c) { return starts_part(c) || c == '_' || c == '-' || c == '/'; }

/* Parts joined by '>' (namespaces); every part starts with a letter, a digit or a dot. */
static bool is_valid_name(mr_sv name, bool underscore_first)
{
    bool start = true;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (start ? !starts_part(c) && !(i == 0 && underscore_first && c == '_')
                  : !goes_on(c) && c != '>')
            return false;
        start = c == '>';
    }
    return !start;
}

bool mr_name_valid_node(mr_sv name) { return is_valid_name(name, false); }
bool mr_name_valid_internal(mr_sv name) { return is_valid_name(name, true); }

bool mr_name_valid_client(mr_sv name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] == ':' || name.p[i] == ';' || (unsigned char)name.p[i] < ' ')
            return false;
    return name.n > 0 && name.p[0] != '_' && name.p[0] != '^';
}

bool mr_tensor_name_parse(mr_sv text, mr_tensor_name *out)
{
    if (text.n && text.p[0] == '^') {
        *out = (mr_tensor_name){{text.p + 1, text.n - 1}, -1};
        return out->node.n > 0;
    }
    size_t digits = text.n;
    while (digits > 0 && isdigit((unsigned char)text.p[digits - 1]))
        digits--;
    *out = (mr_tensor_name){text, 0};
    if (digits == text.n || digits == 0 || text.p[digits - 1] != ':')
        return text.n > 0; /* no index: output 0 */
    int64_t index;
    if (text.n - digits > 10 || !mr_sv_to_i64((mr_sv){text.p + digits, text.n - digits}, &index) ||
        index > INT_MAX)
        return false;
    *out = (mr_tensor_name){{text.p, digits - 1}, (int)index};
    return out->node.n > 0;
}

/* ---- free names ---- */

/* The hint of a base name is the next number to try, stored in the pointer itself. */
static const char *next_free(mr_graph *g, const char *base, bool (*taken)(mr_graph *g, mr_sv name))
{
    intptr_t k = (intptr_t)mr_map_getz(&g->name_hints, base);
    mr_str name = {0};
    do {
        mr_str_clear(&name);
        mr_str_printf(&name, "%s_%lld", base, (long long)++k);
    } while (taken(g, mr_str_view(&name)));
    mr_map_putz(&g->name_hints, base, (void *)k);
    const char *out = mr_arena_strdup(&g->arena, mr_str_z(&name));
    mr_str_deinit(&name);
    return out;
}

static bool node_taken(mr_graph *g, mr_sv name) { return mr_graph_find(g, name) != NULL; }

const char *mr_graph_unique_name(mr_graph *g, const char *base)
{
    if (!node_taken(g, mr_sv_of(base)))
        return mr_arena_strdup(&g->arena, base);
    return next_free(g, base, node_taken);
}

/* Prefixes are collected only on request, from the nodes that were added since the last time. Keys are parts of node
 * names, which stay in the arena; prefixes of removed nodes stay taken. */
static void collect_prefixes(mr_graph *g)
{
    g->prefixes.borrow_keys = true;
    for (; g->n_prefixed < g->nodes.n; g->n_prefixed++) {
        const mr_node *n = g->nodes.p[g->n_prefixed];
        for (const char *slash = n ? strchr(n->name, '/') : NULL; slash;
             slash = strchr(slash + 1, '/'))
            mr_map_put(&g->prefixes, (mr_sv){n->name, (size_t)(slash - n->name)}, g);
    }
}

bool mr_graph_name_used(mr_graph *g, mr_sv name)
{
    collect_prefixes(g);
    return node_taken(g, name) || mr_map_has(&g->prefixes, name);
}

const char *mr_graph_unique_prefix(mr_graph *g, const char *base)
{
    if (!mr_graph_name_used(g, mr_sv_of(base)))
        return mr_arena_strdup(&g->arena, base);
    return next_free(g, base, mr_graph_name_used);
}
