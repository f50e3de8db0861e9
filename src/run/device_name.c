/* run/device_name.c -- names of devices.
 *
 * A name is "/job:J/replica:R/task:T/device:TYPE:N" with its parts in any order; each may be missing or "*".
 * The legacy forms "/cpu:0" and "/gpu:0" and the local short form "CPU:0" mean "/device:CPU:0". Names come
 * from graphs and from other tasks, so everything is checked; job and type fit their arrays or the name is
 * refused. */
#include <ctype.h>
#include <stdio.h>

#include "base/memory.h"
#include "run/device.h"

/* Cuts [A-Za-z][A-Za-z0-9_]* off the front into out; false if there is none or it does not fit. */
static bool cut_word(mr_sv *s, char *out, size_t out_bytes)
{
    MR_ASSERT(out_bytes > 0);
    size_t n = 0;
    while (n < s->n && (isalnum((unsigned char)s->p[n]) || s->p[n] == '_'))
        n++;
    if (n == 0 || n >= out_bytes || !isalpha((unsigned char)s->p[0]))
        return false;
    memcpy(out, s->p, n);
    out[n] = '\0';
    *s = (mr_sv){s->p + n, s->n - n};
    return true;
}

/* On false, *s is unchanged. */
static bool cut_prefix(mr_sv *s, const char *prefix)
{
    if (!mr_sv_starts(*s, prefix))
        return false;
    size_t n = strlen(prefix);
    *s = (mr_sv){s->p + n, s->n - n};
    return true;
}

/* Cuts a number off the front, or "*", which gives -1. */
static bool cut_number(mr_sv *s, int *out)
{
    if (cut_prefix(s, "*")) {
        *out = -1;
        return true;
    }
    size_t n = 0;
    while (n < s->n && isdigit((unsigned char)s->p[n]))
        n++;
    int64_t v;
    if (n == 0 || !mr_sv_to_i64((mr_sv){s->p, n}, &v) || v > INT32_MAX)
        return false;
    *out = (int)v;
    *s = (mr_sv){s->p + n, s->n - n};
    return true;
}

/* "*" leaves the job unspecified. */
static bool cut_job(mr_sv *s, mr_device_name *out)
{
    if (cut_prefix(s, "*"))
        return true;
    return out->has_job = cut_word(s, out->job, sizeof(out->job));
}

/* Cuts "TYPE", "TYPE:N" or "TYPE:*" off the front; TYPE may be "*". */
static bool cut_type(mr_sv *s, mr_device_name *out)
{
    if (!cut_prefix(s, "*") && !(out->has_type = cut_word(s, out->type, sizeof(out->type))))
        return false;
    return !cut_prefix(s, ":") || cut_number(s, &out->id);
}

/* Accepts "/cpu:0" and "/CPU:0". */
static bool legacy_type(mr_sv *s, const char *lower, const char *type, mr_device_name *out)
{
    char with_colon[32];
    snprintf(with_colon, sizeof(with_colon), "/%s:", lower);
    mr_sv at = *s;
    if (!cut_prefix(&at, with_colon)) {
        snprintf(with_colon, sizeof(with_colon), "/%s:", type);
        if (!cut_prefix(&at, with_colon))
            return false;
    }
    *s = at;
    out->has_type = true;
    strcpy(out->type, type);
    return cut_number(s, &out->id);
}

/* Cuts one "/name:value" off the front. */
static bool cut_part(mr_sv *s, mr_device_name *out)
{
    if (cut_prefix(s, "/job:"))
        return cut_job(s, out);
    if (cut_prefix(s, "/replica:"))
        return cut_number(s, &out->replica);
    if (cut_prefix(s, "/task:"))
        return cut_number(s, &out->task);
    if (cut_prefix(s, "/device:"))
        return cut_type(s, out);
    return legacy_type(s, "cpu", "CPU", out) || legacy_type(s, "gpu", "GPU", out);
}

static bool is_local_form(mr_sv text) { return text.n > 0 && isalpha((unsigned char)text.p[0]); }

/* "cpu:0" means the same as "CPU:0"; other types keep their spelling. */
static bool parse_local(mr_sv text, mr_device_name *out)
{
    if (!cut_type(&text, out) || text.n != 0 || out->id < 0)
        return false;
    if (strcmp(out->type, "cpu") == 0 || strcmp(out->type, "gpu") == 0)
        for (char *p = out->type; *p; p++)
            *p = (char)toupper((unsigned char)*p);
    return true;
}

/* A part that occurs twice is taken from its last occurrence. After false, *out is not valid. */
bool mr_device_name_parse(mr_sv text, mr_device_name *out)
{
    *out = (mr_device_name){.replica = -1, .task = -1, .id = -1};
    if (mr_sv_is(text, "/"))
        return true;
    if (is_local_form(text))
        return parse_local(text, out);
    while (text.n > 0)
        if (!cut_part(&text, out))
            return false;
    return true;
}

/* Prints only the parts that are specified, in TensorFlow's order. */
void mr_device_name_print(const mr_device_name *n, mr_str *out)
{
    if (n->has_job)
        mr_str_printf(out, "/job:%s", n->job);
    if (n->replica >= 0)
        mr_str_printf(out, "/replica:%d", n->replica);
    if (n->task >= 0)
        mr_str_printf(out, "/task:%d", n->task);
    if (!n->has_type && n->id < 0)
        return;
    mr_str_printf(out, "/device:%s:", n->has_type ? n->type : "*");
    if (n->id >= 0)
        mr_str_printf(out, "%d", n->id);
    else
        mr_str_appendc(out, '*');
}

bool mr_device_name_full(const mr_device_name *n)
{
    return n->has_job && n->replica >= 0 && n->task >= 0 && n->has_type && n->id >= 0;
}

/* An unspecified part of the pattern matches anything; a specified one must be specified and equal in n. */
bool mr_device_name_matches(const mr_device_name *p, const mr_device_name *n)
{
    return (!p->has_job || (n->has_job && strcmp(p->job, n->job) == 0)) &&
           (p->replica < 0 || p->replica == n->replica) && (p->task < 0 || p->task == n->task) &&
           (!p->has_type || (n->has_type && strcmp(p->type, n->type) == 0)) &&
           (p->id < 0 || p->id == n->id);
}

bool mr_device_name_same_task(const mr_device_name *a, const mr_device_name *b)
{
    return a->has_job && b->has_job && strcmp(a->job, b->job) == 0 && a->replica == b->replica &&
           a->task == b->task;
}

/* ---- merging ---- */

/* Prints both names in full, so that the user sees which nodes asked for what. */
static mr_status *merge_conflict(const mr_device_name *a, const mr_device_name *b, const char *part)
{
    mr_str sa = {0}, sb = {0};
    mr_device_name_print(a, &sa);
    mr_device_name_print(b, &sb);
    mr_status *st = mr_invalid("Cannot merge devices with incompatible %s: '%s' and '%s'", part,
                               mr_str_z(&sa), mr_str_z(&sb));
    mr_str_deinit(&sa);
    mr_str_deinit(&sb);
    return st;
}

static bool numbers_conflict(int a, int b) { return a >= 0 && b >= 0 && a != b; }

/* The part that forbids merging in any mode; NULL: none. */
static const char *hard_conflict(const mr_device_name *n, const mr_device_name *other)
{
    if (n->has_job && other->has_job && strcmp(n->job, other->job) != 0)
        return "jobs";
    if (numbers_conflict(n->replica, other->replica))
        return "replicas";
    if (numbers_conflict(n->task, other->task))
        return "tasks";
    return NULL;
}

/* The parts of other that are specified replace those of n; the caller has checked that they do not conflict. */
static void take_task_parts(mr_device_name *n, const mr_device_name *other)
{
    MR_ASSERT(!hard_conflict(n, other));
    if (other->has_job) {
        n->has_job = true;
        memcpy(n->job, other->job, sizeof(n->job));
    }
    if (other->replica >= 0)
        n->replica = other->replica;
    if (other->task >= 0)
        n->task = other->task;
}

/* Job, replica and task must agree. If types or ids differ, soft drops both requests and strict mode fails.
 * The texts are TensorFlow's. */
mr_status *mr_device_name_merge(mr_device_name *n, const mr_device_name *other, bool soft)
{
    const char *hard = hard_conflict(n, other);
    if (hard)
        return merge_conflict(n, other, hard);
    bool types_differ = n->has_type && other->has_type && strcmp(n->type, other->type) != 0;
    if (types_differ && !soft)
        return merge_conflict(n, other, "types");
    if (!types_differ && numbers_conflict(n->id, other->id) && !soft)
        return merge_conflict(n, other, "ids");
    take_task_parts(n, other);
    if (types_differ) {
        n->has_type = false;
        n->id = -1;
        return NULL;
    }
    if (other->has_type) {
        n->has_type = true;
        memcpy(n->type, other->type, sizeof(n->type));
    }
    n->id = numbers_conflict(n->id, other->id) ? -1 : MR_MAX(n->id, other->id);
    return NULL;
}
