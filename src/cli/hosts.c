/* cli/hosts.c -- parses lists of hosts: from the command line, from files and from Slurm. */
#include "cli/hosts.h"

#include <ctype.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum { MAX_PLACES = 1 << 16, MAX_HOST = 255 };

void mr_hosts_deinit(mr_hosts *h)
{
    for (int i = 0; i < h->places.n; i++)
        mr_free(h->places.p[i]);
    mr_vec_deinit(&h->places);
    *h = (mr_hosts){0};
}

/* ---- one host ---- */

/* Accepts only names that ssh cannot take for an option and that mean nothing special to a shell. */
static bool host_ok(mr_sv host)
{
    bool ok = host.n > 0 && host.n <= MAX_HOST && host.p[0] != '-' && host.p[host.n - 1] != '@';
    for (size_t i = 0; ok && i < host.n; i++)
        ok = isalnum((unsigned char)host.p[i]) || memchr(".-_@:[]", host.p[i], 7) != NULL;
    return ok;
}

mr_status *mr_hosts_add(mr_hosts *h, mr_sv host, int64_t places)
{
    if (!host_ok(host))
        return mr_invalid("'%.*s' is not a valid host name", MR_SV_ARG(host));
    if (places < 1 || places > MAX_PLACES - h->places.n)
        return mr_invalid("host %.*s: the number of tasks must be from 1 to %d (got %lld)", MR_SV_ARG(host),
                          MAX_PLACES - h->places.n, (long long)places);
    for (int64_t i = 0; i < places; i++)
        mr_vec_push(&h->places, mr_strndup(host.p, host.n));
    return NULL;
}

/* Adds "host" or "host:places". An IPv6 address is in brackets, so a colon before the last bracket is part of it. */
static mr_status *add_one(mr_hosts *h, mr_sv word)
{
    int64_t places = 1;
    size_t at = word.n;
    while (at > 0 && word.p[at - 1] != ':' && word.p[at - 1] != ']')
        at--;
    mr_sv host = word;
    if (at > 0 && word.p[at - 1] == ':') {
        host.n = at - 1;
        if (!mr_sv_to_i64((mr_sv){word.p + at, word.n - at}, &places))
            return mr_invalid("'%.*s': after the colon, give the number of tasks that the host takes", MR_SV_ARG(word));
    }
    return mr_hosts_add(h, host, places);
}

mr_status *mr_hosts_add_list(mr_hosts *h, mr_sv list)
{
    mr_sv rest = list, part;
    while (mr_sv_cut(&rest, ',', &part))
        MR_TRY(add_one(h, mr_sv_trim(part)));
    return NULL;
}

/* ---- files ---- */

static mr_sv first_word(mr_sv *line)
{
    *line = mr_sv_trim(*line);
    size_t n = 0;
    while (n < line->n && !isspace((unsigned char)line->p[n]))
        n++;
    mr_sv word = {line->p, n};
    *line = mr_sv_trim((mr_sv){line->p + n, line->n - n});
    return word;
}

static mr_status *add_line(mr_hosts *h, mr_sv line)
{
    int64_t places = 1;
    mr_sv host = first_word(&line), more = first_word(&line);
    if (!host.n)
        return NULL;
    if (!more.n)
        return add_one(h, host);
    if (!mr_sv_starts(more, "slots=") || !mr_sv_to_i64((mr_sv){more.p + 6, more.n - 6}, &places) || line.n)
        return mr_invalid("unexpected '%.*s' after %.*s: a line is HOST, HOST:N or HOST slots=N", MR_SV_ARG(more),
                          MR_SV_ARG(host));
    return mr_hosts_add(h, host, places);
}

/* Reads one host per line; '#' starts a comment. */
mr_status *mr_hosts_add_file(mr_hosts *h, const char *path)
{
    mr_str text = {0};
    mr_status *st = mr_file_read_all(path, &text);
    mr_sv rest = mr_str_view(&text), line;
    for (int n = 1; !st && mr_sv_cut(&rest, '\n', &line); n++) {
        mr_sv comment = line, before;
        mr_sv_cut(&comment, '#', &before);
        st = add_line(h, before);
        if (st)
            st = mr_status_prepend(st, "%s, line %d: ", path, n);
    }
    mr_str_deinit(&text);
    return st ? st : h->places.n ? NULL : mr_invalid("%s contains no host", path);
}

/* ---- Slurm ---- */

/* Iterates over "2(x3),1": the number of tasks of each node. */
typedef struct counts {
    mr_sv rest;
    int64_t n, times;
} counts;

/* The number of tasks of the next node. */
static mr_status *next_count(counts *c, int64_t *out)
{
    mr_sv part;
    if (c->times == 0) {
        if (!mr_sv_cut(&c->rest, ',', &part))
            return mr_invalid("there are more nodes than task counts");
        mr_sv n, times = part;
        mr_sv_cut(&times, '(', &n);
        c->times = 1;
        if (!mr_sv_to_i64(n, &c->n) ||
            (times.p && (times.n < 3 || times.p[0] != 'x' || times.p[times.n - 1] != ')' ||
                         !mr_sv_to_i64((mr_sv){times.p + 1, times.n - 2}, &c->times) || c->times < 1)))
            return mr_invalid("'%.*s' is not a number of tasks", MR_SV_ARG(part));
    }
    c->times--;
    *out = c->n;
    return NULL;
}

static mr_status *add_node(mr_hosts *h, mr_sv name, counts *c)
{
    int64_t n = 1;
    if (c)
        MR_TRY(next_count(c, &n));
    return n == 0 ? NULL : mr_hosts_add(h, name, n); /* a node may run no task of this step */
}

/* The index of the first ']' at or after `at`, or v.n if there is none. */
static size_t find_closing_bracket(mr_sv v, size_t at)
{
    while (at < v.n && v.p[at] != ']')
        at++;
    return at;
}

static mr_status *add_nodes(mr_hosts *h, mr_sv name, counts *c);

/* Adds the nodes of one range in brackets, "1-3" or "07". Numbers are padded with zeros to the width of the first one.
 * */
static mr_status *add_range(mr_hosts *h, mr_sv head, mr_sv range, mr_sv tail, counts *c)
{
    int64_t from, to;
    mr_sv last = range, first;
    mr_sv_cut(&last, '-', &first);
    if (!last.p)
        last = first;
    if (!mr_sv_to_i64(first, &from) || !mr_sv_to_i64(last, &to) || from < 0 || to < from || to - from >= MAX_PLACES)
        return mr_invalid("'%.*s' is not a range of nodes", MR_SV_ARG(range));
    mr_status *st = NULL;
    for (int64_t i = from; !st && i <= to; i++) {
        char *name = mr_printf("%.*s%0*lld%.*s", MR_SV_ARG(head), (int)first.n, (long long)i, MR_SV_ARG(tail));
        st = add_nodes(h, mr_sv_of(name), c);
        mr_free(name);
    }
    return st;
}

/* Adds the nodes that a name with any number of brackets stands for. Expands the first bracket; add_range calls this
 * function again for the rest of the name. */
static mr_status *add_nodes(mr_hosts *h, mr_sv name, counts *c)
{
    const char *open = memchr(name.p, '[', name.n);
    if (!open)
        return add_node(h, name, c);
    size_t at = (size_t)(open - name.p), end = find_closing_bracket(name, at);
    if (end == name.n)
        return mr_invalid("'%.*s' has a [ without a ]", MR_SV_ARG(name));
    mr_sv head = {name.p, at}, tail = {name.p + end + 1, name.n - end - 1}, ranges = {open + 1, end - at - 1}, range;
    while (mr_sv_cut(&ranges, ',', &range))
        MR_TRY(add_range(h, head, range, tail, c));
    return NULL;
}

mr_status *mr_hosts_add_slurm(mr_hosts *h, mr_sv nodes, const char *text)
{
    counts c = {.rest = mr_sv_of(text)};
    size_t from = 0;
    for (size_t i = 0; i <= nodes.n; i++) {
        if (i < nodes.n && nodes.p[i] == '[')
            i = find_closing_bracket(nodes, i); /* commas in brackets separate ranges, not names */
        if (i < nodes.n && nodes.p[i] != ',')
            continue;
        size_t end = MR_MIN(i, nodes.n);
        MR_TRY(add_nodes(h, (mr_sv){nodes.p + from, end - from}, text ? &c : NULL));
        from = i + 1;
    }
    return NULL;
}

/* ---- properties of a host ---- */

const char *mr_host_address(const char *host)
{
    const char *at = strrchr(host, '@');
    return at ? at + 1 : host;
}

bool mr_host_is_loopback(const char *host)
{
    mr_sv h = mr_sv_of(mr_host_address(host));
    return mr_sv_is(h, "localhost") || mr_sv_starts(h, "127.") || mr_sv_is(h, "[::1]") || mr_sv_is(h, "::1");
}

bool mr_host_is_here(const char *host)
{
    char name[256] = "";
    return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
           (gethostname(name, sizeof name - 1) == 0 && name[0] && strcmp(host, name) == 0);
}
