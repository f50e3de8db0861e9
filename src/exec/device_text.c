/* exec/device_text.c -- descriptions of simulated devices: checked, and read from text.
 *
 * Text is read into a copy of the descriptions, which replaces the original only if all of it is correct.
 * Both ways in, the C API and text, go through mr_device_sims_add and mr_device_sims_link, so every
 * description in an mr_device_sims has been checked: its strings end within their arrays, its numbers are
 * finite and not negative, its devices are distinct. */
#include <math.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "exec/device_sim.h"
#include "wire/number.h"

enum { MAX_DEVICES = 256, MAX_LINKS = 65536, MAX_ID = 65535 };

void mr_device_sims_deinit(mr_device_sims *s)
{
    mr_vec_deinit(&s->devices);
    mr_vec_deinit(&s->links);
}

/* ---- checks ---- */

/* True for a letter followed by letters, digits and '_', short enough for mr_device_sim.type. */
static bool is_type(mr_sv t)
{
    bool ok = t.n > 0 && t.n < sizeof ((mr_device_sim *)0)->type;
    for (size_t i = 0; ok && i < t.n; i++) {
        char c = t.p[i];
        ok = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (i && (c == '_' || (c >= '0' && c <= '9')));
    }
    return ok;
}

/* 0 is allowed: it means the default. */
static mr_status *check_positive(const mr_device_sim *d, const char *what, double v)
{
    return v >= 0 && isfinite(v)
               ? NULL
               : mr_invalid("Device %s:%d: %s is %g, expected a finite number of at least 0", d->type, d->id, what, v);
}

/* The type may come from a C program, so it is not taken for granted that it ends within the array. */
static mr_status *check_device(const mr_device_sim *d)
{
    if (memchr(d->type, 0, sizeof d->type) == NULL || !is_type(mr_sv_of(d->type)))
        return mr_invalid("'%.31s' is not a device type: expected a letter, then letters, digits and '_'", d->type);
    if (strcasecmp(d->type, mr_device_cpu.name) == 0)
        return mr_invalid("A simulated device cannot have the type CPU: every session has real CPU devices");
    if (d->id < 0 || d->id > MAX_ID)
        return mr_invalid("Device %s:%d: its number must be in 0 to %d", d->type, d->id, MAX_ID);
    MR_TRY(check_positive(d, "flops_per_s", d->speed.flops_per_s));
    MR_TRY(check_positive(d, "bytes_per_s", d->speed.bytes_per_s));
    MR_TRY(check_positive(d, "op_s", d->speed.op_s));
    MR_TRY(check_positive(d, "memory_bytes", (double)d->memory));
    MR_TRY(check_positive(d, "latency_s", d->latency_s));
    return check_positive(d, "link_bytes_per_s", d->link_bytes_per_s);
}

/* s may be NULL. */
bool mr_device_sims_has(const mr_device_sims *s, const char *type)
{
    for (int i = 0; s && i < s->devices.n; i++)
        if (strcmp(s->devices.p[i].type, type) == 0)
            return true;
    return false;
}

/* Checks the description, so that every device in s is valid. */
mr_status *mr_device_sims_add(mr_device_sims *s, const mr_device_sim *d)
{
    MR_TRY(check_device(d));
    if (s->devices.n >= MAX_DEVICES)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Too many simulated devices: at most %d are allowed", MAX_DEVICES);
    for (int i = 0; i < s->devices.n; i++)
        if (s->devices.p[i].id == d->id && strcmp(s->devices.p[i].type, d->type) == 0)
            return mr_error(MR_ALREADY_EXISTS, "Device %s:%d exists already", d->type, d->id);
    mr_vec_push(&s->devices, *d);
    return NULL;
}

/* Splits "TYPE:ID". */
static bool is_place(mr_sv text, mr_sv *type, int *id)
{
    int64_t n;
    mr_sv rest = text;
    if (!mr_sv_cut(&rest, ':', type) || !rest.p || !is_type(*type) || !rest.n || rest.p[0] < '0' || rest.p[0] > '9' ||
        !mr_sv_to_i64(rest, &n) || n > MAX_ID)
        return false;
    *id = (int)n;
    return true;
}

/* The names may come from a C program, so they need not end within their arrays. A link in one direction says
 * nothing about the other. */
mr_status *mr_device_sims_link(mr_device_sims *s, const mr_device_sim_link *l)
{
    mr_sv type;
    int id;
    if (!memchr(l->from, 0, sizeof l->from) || !memchr(l->to, 0, sizeof l->to) || !is_place(mr_sv_of(l->from), &type, &id) ||
        !is_place(mr_sv_of(l->to), &type, &id) || strcmp(l->from, l->to) == 0)
        return mr_invalid("Invalid link from '%.47s' to '%.47s': expected two different devices, such as GPU:0 and "
                          "CPU:0",
                          l->from, l->to);
    if (!(l->latency_s >= 0) || !isfinite(l->latency_s) || !(l->bytes_per_s >= 0) || !isfinite(l->bytes_per_s))
        return mr_invalid("Link from %s to %s: latency_s is %g and bytes_per_s is %g, expected finite numbers of at "
                          "least 0",
                          l->from, l->to, l->latency_s, l->bytes_per_s);
    /* A second description of a link replaces the first. */
    for (int i = 0; i < s->links.n; i++)
        if (strcmp(s->links.p[i].from, l->from) == 0 && strcmp(s->links.p[i].to, l->to) == 0) {
            s->links.p[i] = *l;
            return NULL;
        }
    if (s->links.n >= MAX_LINKS)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Too many links between simulated devices: at most %d are allowed",
                        MAX_LINKS);
    mr_vec_push(&s->links, *l);
    return NULL;
}

/* ---- text ---- */

typedef enum unit { RATE, BYTES, TIME, COUNT } unit;

/* The factor of k, M, G or T (or K); 0 for any other character. */
static double prefix_factor(char c, double step)
{
    static const char letters[] = "kMGT";
    const char *at = c == 'K' ? letters : c ? strchr(letters, c) : NULL;
    return at ? pow(step, (double)(at - letters) + 1) : 0;
}

/* Cuts the suffix off "4G" or "10us" and returns the factor it stands for; 1 if there is none. */
static double cut_scale(mr_sv *text, unit u)
{
    static const struct {
        const char *end;
        double s;
    } times[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"s", 1}};
    char last = text->n ? text->p[text->n - 1] : 0;
    double scale = u == RATE ? prefix_factor(last, 1000) : u == BYTES ? prefix_factor(last, 1024) : 0;
    for (int i = 0; u == TIME && i < (int)MR_COUNT(times); i++) {
        size_t n = strlen(times[i].end);
        if (text->n > n && memcmp(text->p + text->n - n, times[i].end, n) == 0) {
            text->n -= n;
            return times[i].s;
        }
    }
    if (!scale)
        return 1;
    text->n--;
    return scale;
}

/* Reads a number that is finite, not negative and small enough for the type it is stored in. */
static bool read_amount(mr_sv text, unit u, double *out)
{
    double scale = cut_scale(&text, u), v;
    if (!text.n || !mr_text_to_double(text, &v) || !(v >= 0) || !isfinite(v * scale))
        return false;
    *out = v * scale;
    return u != COUNT && u != BYTES ? true : *out <= (u == COUNT ? 1e6 : 9e15);
}

/* The keys are those of plans (docs/sim.md) and of millrace/device.h, with the unit in the name. The second names are
 * older: they mean the same, but times carry their unit in the value (op=5us). */
typedef struct word {
    const char *key, *old;
    unit unit;
    double scale; /* the struct holds the amount times this; old names of times are in seconds already */
    size_t at;
} word;

#define DEVICE(member) offsetof(mr_device_sim, member)
#define LINK(member) offsetof(mr_device_sim_link, member)

static const word device_words[] = {
    {"flops_per_s", "speed", RATE, 1, DEVICE(speed.flops_per_s)},
    {"bytes_per_s", "bandwidth", RATE, 1, DEVICE(speed.bytes_per_s)},
    {"op_us", "op", TIME, 1e-6, DEVICE(speed.op_s)},
    {"memory_bytes", "memory", BYTES, 1, DEVICE(memory)},
    {"latency_us", "latency", TIME, 1e-6, DEVICE(latency_s)},
    {"link_bytes_per_s", "link", RATE, 1, DEVICE(link_bytes_per_s)},
    {"priority", NULL, COUNT, 1, DEVICE(priority)},
};

static const word link_words[] = {
    {"latency_us", "latency", TIME, 1e-6, LINK(latency_s)},
    {"bytes_per_s", "link", RATE, 1, LINK(bytes_per_s)},
};

/* Stores one amount into the member of `object` that the word describes. */
static bool read_word(const word *w, bool old, mr_sv value, void *object)
{
    char *to = (char *)object + w->at;
    double v;
    bool plain = w->unit == TIME && !old; /* the unit is in the key */
    if (!read_amount(value, plain ? RATE : w->unit, &v))
        return false;
    switch (w->unit) {
    case RATE: *(double *)to = v; break;
    case TIME: *(double *)to = plain ? v * w->scale : v; break;
    case BYTES: *(int64_t *)to = (int64_t)v; break;
    case COUNT: *(int *)to = (int)v; break;
    }
    return true;
}

/* Names the nearest key, in case of a typing error, and all keys. */
static mr_status *unknown_key(mr_sv key, const word *words, int n)
{
    const char *keys[MR_COUNT(device_words)];
    mr_str known = {0};
    MR_ASSERT(n <= MR_COUNT(device_words));
    for (int i = 0; i < n; i++) {
        keys[i] = words[i].key;
        mr_str_printf(&known, "%s%s", i ? ", " : "", keys[i]);
    }
    const char *meant = mr_nearest(key, keys, n);
    mr_status *st = mr_invalid("unknown key '%.*s'%s%s%s; the keys are %s", (int)MR_MIN(key.n, 100), key.p,
                               meant ? " (did you mean '" : "", meant ? meant : "", meant ? "'?)" : "", mr_str_z(&known));
    mr_str_deinit(&known);
    return st;
}

/* Reads key=amount,key=amount into a device or a link. */
static mr_status *read_words(mr_sv text, const word *words, int n, void *object)
{
    mr_sv item, key;
    while (text.n && mr_sv_cut(&text, ',', &item)) {
        mr_sv value = item;
        mr_sv_cut(&value, '=', &key);
        key = mr_sv_trim(key);
        int i = 0;
        while (i < n && !mr_sv_is(key, words[i].key) && !(words[i].old && mr_sv_is(key, words[i].old)))
            i++;
        if (i == n)
            return unknown_key(key, words, n);
        if (!value.p || !read_word(&words[i], !mr_sv_is(key, words[i].key), mr_sv_trim(value), object))
            return mr_invalid("'%.*s': expected %s=AMOUNT, as in %s", (int)MR_MIN(item.n, 100), item.p, words[i].key,
                              words[i].unit == TIME ? "10" : words[i].unit == COUNT ? "210" : "4G or 4e9");
    }
    return NULL;
}

/* Adds a link, and if `both` the same in the other direction. */
static mr_status *read_link(mr_device_sims *s, mr_sv from, mr_sv to, bool both, mr_sv words)
{
    mr_device_sim_link l = {0}, back;
    if (from.n >= sizeof l.from || to.n >= sizeof l.to)
        return mr_invalid("'%.*s' is too long for a device, such as GPU:0", (int)MR_MIN(MR_MAX(from.n, to.n), 100),
                          from.n > to.n ? from.p : to.p);
    memcpy(l.from, from.p, from.n);
    memcpy(l.to, to.p, to.n);
    MR_TRY(read_words(words, link_words, MR_COUNT(link_words), &l));
    MR_TRY(mr_device_sims_link(s, &l));
    back = l;
    memcpy(back.from, l.to, sizeof back.from);
    memcpy(back.to, l.from, sizeof back.to);
    return both ? mr_device_sims_link(s, &back) : NULL;
}

/* Reads "TYPE:NUMBER=..." and adds the device. */
static mr_status *read_device(mr_device_sims *s, mr_sv place, mr_sv words)
{
    mr_device_sim d = {0};
    mr_sv type;
    if (!is_place(place, &type, &d.id))
        return mr_invalid("'%.*s' is not a device: expected TYPE:NUMBER, such as GPU:0", (int)MR_MIN(place.n, 100),
                          place.p);
    memcpy(d.type, type.p, type.n);
    MR_TRY(read_words(words, device_words, MR_COUNT(device_words), &d));
    return mr_device_sims_add(s, &d);
}

/* Reads one part between ';'. "A-B" and "A>B" before the '=' describe links, anything else a device. */
static mr_status *read_item(mr_device_sims *s, mr_sv item)
{
    mr_sv place, words = item, to;
    mr_sv_cut(&words, '=', &place);
    place = mr_sv_trim(place);
    const char *arrow = memchr(place.p, '-', place.n), *one_way = memchr(place.p, '>', place.n);
    const char *between = one_way ? one_way : arrow;
    if (!between)
        return read_device(s, place, words);
    to = (mr_sv){between + 1, place.n - (size_t)(between + 1 - place.p)};
    return read_link(s, (mr_sv){place.p, (size_t)(between - place.p)}, to, !one_way, words);
}

/* Stops at the first error, which names the part. */
static mr_status *read_items(mr_device_sims *s, mr_sv text)
{
    mr_sv item;
    while (text.n && mr_sv_cut(&text, ';', &item)) {
        item = mr_sv_trim(item);
        mr_status *st = item.n ? read_item(s, item) : NULL;
        if (st) {
            mr_status_prepend(st, "Simulated device '%.*s': ", (int)MR_MIN(item.n, 200), item.p);
            return st;
        }
    }
    return NULL;
}

/* Reads into a copy: a caller that corrects the text and tries again finds nothing left of the first attempt. */
mr_status *mr_device_sims_parse(mr_device_sims *s, mr_sv text)
{
    mr_device_sims all = {0};
    for (int i = 0; i < s->devices.n; i++)
        mr_vec_push(&all.devices, s->devices.p[i]);
    for (int i = 0; i < s->links.n; i++)
        mr_vec_push(&all.links, s->links.p[i]);
    mr_status *st = read_items(&all, text);
    mr_device_sims_deinit(st ? &all : s);
    if (!st)
        *s = all;
    return st;
}

/* ---- for tasks ---- */

/* Cuts "worker/" or "worker:1/" off the front of a part. *job is NULL for a part that applies to all tasks,
 * *number is -1 for one that applies to all tasks of the job. Returns false if the prefix is malformed. */
static bool cut_task(mr_sv *item, mr_sv *job, int *number)
{
    mr_sv rest = *item, task;
    *job = (mr_sv){NULL, 0};
    *number = -1;
    const char *slash = memchr(item->p, '/', item->n), *equals = memchr(item->p, '=', item->n);
    if (!slash || (equals && equals < slash))
        return true;
    mr_sv_cut(&rest, '/', &task);
    *item = rest;
    *job = task;
    if (memchr(task.p, ':', task.n) && !is_place(task, job, number))
        return false;
    return is_type(*job);
}

/* Appends the parts for this task: those for the task alone, or those for several tasks. The caller lets the
 * former override the latter. */
static mr_status *for_task(mr_sv text, const char *job, int number, bool alone, mr_str *out)
{
    mr_sv item, of;
    int n;
    while (text.n && mr_sv_cut(&text, ';', &item)) {
        item = mr_sv_trim(item);
        mr_sv whole = item;
        if (item.n && !cut_task(&item, &of, &n))
            return mr_invalid("Simulated device '%.*s': '%.*s' is neither a job nor a task such as worker:1",
                              (int)MR_MIN(whole.n, 200), whole.p, (int)MR_MIN(of.n, 100), of.p);
        if (item.n && (n >= 0) == alone && (!of.p || mr_sv_is(of, job)) && (n < 0 || n == number))
            mr_str_printf(out, "%s%.*s", out->n ? ";" : "", MR_SV_ARG(item));
    }
    return NULL;
}

/* True if other items describe the same device or link as this item. */
static bool is_told(mr_sv item, mr_sv items)
{
    mr_sv place, other;
    mr_sv_cut(&item, '=', &place);
    while (items.n && mr_sv_cut(&items, ';', &item)) {
        mr_sv_cut(&item, '=', &other);
        if (mr_sv_eq(mr_sv_trim(place), mr_sv_trim(other)))
            return true;
    }
    return false;
}

/* A description for this task alone replaces one of the same device or link for several tasks. The result is
 * parsed once, so that errors are reported where the cluster is launched, not in each task. */
mr_status *mr_device_sims_of_task(mr_sv text, const char *job, int number, mr_str *out)
{
    mr_status *st = NULL;
    mr_str common = {0}, own = {0};
    mr_device_sims checked = {0};
    MR_GO(for_task(text, job, number, true, &own));
    MR_GO(for_task(text, job, number, false, &common));
    mr_sv rest = mr_str_view(&common), item;
    while (rest.n && mr_sv_cut(&rest, ';', &item))
        if (!is_told(item, mr_str_view(&own)))
            mr_str_printf(out, "%s%.*s", out->n ? ";" : "", MR_SV_ARG(item));
    if (own.n)
        mr_str_printf(out, "%s%s", out->n ? ";" : "", mr_str_z(&own));
    st = mr_device_sims_parse(&checked, mr_str_view(out));
out:
    mr_device_sims_deinit(&checked);
    mr_str_deinit(&common);
    mr_str_deinit(&own);
    return st;
}
