/* exec/chrome.c -- a writer of Chrome's trace event format.
 *
 * One event per line, so that a trace can be searched with grep too. A file is written in pieces of 64 KiB: a
 * trace of many steps can be larger than memory. */
#include "exec/chrome.h"

#include <math.h>
#include <stdlib.h>

#include "wire/json.h"

#define PIECE_BYTES 65536

/* ---- beginning and end ---- */

/* The head of the JSON object; mr_chrome_end writes its end. */
static void begin_trace(mr_chrome *c)
{
    mr_str_appendz(c->out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

void mr_chrome_init(mr_chrome *c, mr_str *out)
{
    *c = (mr_chrome){.out = out, .next_flow = 1};
    begin_trace(c);
}

/* Nothing appears at the path before mr_chrome_end commits the file. */
mr_status *mr_chrome_open(mr_chrome *c, const char *path)
{
    *c = (mr_chrome){.out = &c->gathered, .next_flow = 1};
    MR_TRY(mr_writer_open(path, &c->file));
    begin_trace(c);
    return NULL;
}

/* Writes what was gathered to the file. After an error the rest is dropped. */
static void hand_on(mr_chrome *c)
{
    MR_ASSERT(c->file);
    if (!c->st)
        c->st = mr_writer_write(c->file, c->out->p, c->out->n);
    mr_str_clear(c->out);
}

/* The file is committed only if all of it was written. */
mr_status *mr_chrome_end(mr_chrome *c)
{
    mr_str_appendz(c->out, "\n]}\n");
    if (c->file) {
        hand_on(c);
        if (!c->st)
            c->st = mr_writer_commit(c->file);
        mr_writer_free(c->file);
        mr_str_deinit(&c->gathered);
    }
    return c->st;
}

/* ---- pieces of JSON ---- */

/* The length of the UTF-8 sequence at p. 0: there is none (overlong form, half of a surrogate, beyond
 * Unicode), or it is NUL, which few readers accept. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] == 0         ? 0
                 : p[0] < 0x80     ? 1
                 : p[0] >> 5 == 6  ? 2
                 : p[0] >> 4 == 14 ? 3
                 : p[0] >> 3 == 30 ? 4
                                   : 0;
    if (len <= 1 || len > n)
        return len <= n ? len : 0;
    uint32_t v = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        v = v << 6 | (p[i] & 0x3f);
    }
    return v < least[len] || v > 0x10ffff || v >> 11 == 0x1b ? 0 : len;
}

/* Quotes a text; each byte that is not part of valid UTF-8 becomes U+FFFD. */
static void put_text(mr_chrome *c, mr_sv text)
{
    mr_str clean = {0};
    for (size_t i = 0; i < text.n;) {
        size_t len = utf8_length((const unsigned char *)text.p + i, text.n - i);
        if (len)
            mr_str_append(&clean, text.p + i, len);
        else
            mr_str_appendz(&clean, "\xef\xbf\xbd");
        i += len ? len : 1;
    }
    mr_json_quote(c->out, mr_str_view(&clean));
    mr_str_deinit(&clean);
}

/* JSON knows neither NaN nor infinity. */
static void put_number(mr_chrome *c, double v)
{
    mr_str_printf(c->out, "%.15g", isnan(v) ? 0 : fmin(fmax(v, -1e300), 1e300));
}

/* Microseconds with three decimals; computed with integers, since a double has too few digits for wall clock
 * times. */
static void put_time(mr_chrome *c, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    mr_str_printf(c->out, ",\"%s\":%s%llu.%03d", key, ns < 0 ? "-" : "",
                  (unsigned long long)(size / 1000), (int)(size % 1000));
}

/* Writes what all events have in common; end_event must follow. */
static void begin_event(mr_chrome *c, char phase, int pid, int tid, mr_sv name)
{
    mr_str_appendz(c->out, c->any ? ",\n" : "\n");
    c->any = true;
    mr_str_printf(c->out, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"name\":", phase, pid, tid);
    put_text(c, name);
}

/* Pieces are written between two events only, so a piece always ends with a complete event. */
static void end_event(mr_chrome *c)
{
    mr_str_appendc(c->out, '}');
    if (c->file && c->out->n >= PIECE_BYTES)
        hand_on(c);
}

/* ---- events ---- */

/* A metadata event: the name of a process or thread. */
static void put_name(mr_chrome *c, const char *what, int pid, int tid, mr_sv name)
{
    begin_event(c, 'M', pid, tid, mr_sv_of(what));
    mr_str_appendz(c->out, ",\"args\":{\"name\":");
    put_text(c, name);
    mr_str_appendc(c->out, '}');
    end_event(c);
}

/* A metadata event: the position of a process or thread in the viewer. */
static void put_order(mr_chrome *c, const char *what, int pid, int tid, int order)
{
    begin_event(c, 'M', pid, tid, mr_sv_of(what));
    mr_str_printf(c->out, ",\"args\":{\"sort_index\":%d}", order);
    end_event(c);
}

void mr_chrome_process(mr_chrome *c, int pid, mr_sv name, int order)
{
    put_name(c, "process_name", pid, 0, name);
    put_order(c, "process_sort_index", pid, 0, order);
}

void mr_chrome_thread(mr_chrome *c, int pid, int tid, mr_sv name, int order)
{
    put_name(c, "thread_name", pid, tid, name);
    put_order(c, "thread_sort_index", pid, tid, order);
}

/* Writes the args of an event, if it has any. An arg with a text is a string, otherwise a number. */
static void put_args(mr_chrome *c, const mr_chrome_arg *args, int n)
{
    for (int i = 0; i < n; i++) {
        mr_str_appendz(c->out, i ? "," : ",\"args\":{");
        put_text(c, mr_sv_of(args[i].key));
        mr_str_appendc(c->out, ':');
        if (args[i].text.p)
            put_text(c, args[i].text);
        else
            put_number(c, args[i].number);
    }
    if (n)
        mr_str_appendc(c->out, '}');
}

/* A negative duration counts as 0: viewers drop such events. */
void mr_chrome_span(mr_chrome *c, int pid, int tid, mr_sv name, mr_sv kind, int64_t start_ns,
                    int64_t took_ns, const mr_chrome_arg *args, int n_args)
{
    begin_event(c, 'X', pid, tid, name);
    mr_str_appendz(c->out, ",\"cat\":");
    put_text(c, kind);
    put_time(c, "ts", start_ns);
    put_time(c, "dur", took_ns > 0 ? took_ns : 0);
    put_args(c, args, n_args);
    end_event(c);
}

/* A mark on one thread ("s":"t"), not across the whole process. */
void mr_chrome_instant(mr_chrome *c, int pid, int tid, mr_sv name, int64_t at_ns)
{
    begin_event(c, 'i', pid, tid, name);
    put_time(c, "ts", at_ns);
    mr_str_appendz(c->out, ",\"s\":\"t\"");
    end_event(c);
}

/* Counters belong to a process; viewers draw one curve per name. */
void mr_chrome_counter(mr_chrome *c, int pid, mr_sv name, int64_t at_ns, double value)
{
    begin_event(c, 'C', pid, 0, name);
    put_time(c, "ts", at_ns);
    put_args(c, &(mr_chrome_arg){"value", {NULL, 0}, value}, 1);
    end_event(c);
}

/* One end of an arrow. 'f' binds to the enclosing span ("bp":"e"), not to the next one. */
static void put_end(mr_chrome *c, char phase, mr_sv name, uint64_t id, mr_chrome_point p)
{
    begin_event(c, phase, p.pid, p.tid, name);
    mr_str_printf(c->out, ",\"cat\":\"flow\",\"id\":%llu%s", (unsigned long long)id,
                  phase == 'f' ? ",\"bp\":\"e\"" : "");
    put_time(c, "ts", p.at_ns);
    end_event(c);
}

/* The two ends are paired by a number that is unique in the trace. */
void mr_chrome_arrow(mr_chrome *c, mr_sv name, mr_chrome_point from, mr_chrome_point to)
{
    uint64_t id = c->next_flow++;
    put_end(c, 's', name, id, from);
    put_end(c, 'f', name, id, to);
}
