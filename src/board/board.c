/* board/board.c -- answers requests: checks who asks, finds the route, runs the simulator.
 *
 * A request is checked in this order: method, Host, origin, route, token, content type, length of the body. Only then
 * is the body looked at. Every reply, also a refusal, has the headers that tell a browser what the page may do.
 *
 * Files of the page are found by comparing their whole names. Nothing in a request becomes a path. */
#include "board/board.h"

#include <stdio.h>
#include <strings.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "board/access.h"
#include "board/files.h"
#include "sim/answer.h"
#include "wire/json.h"

enum { MOST_TARGET_BYTES = 8192, MOST_VALUE_BYTES = 4096 };
#define LOOK_NS ((int64_t)20000000)

typedef struct mr_board_page_file {
    mr_board_asset asset;
    const char *type;
    char etag[24];
} mr_board_page_file;

struct mr_board {
    mr_board_access access;
    mr_board_files files;
    mr_board_limits limits;
    char *version;
    mr_board_page_file *page;
    int n_page;
    mr_mutex mu;
    mr_cond ended;
    int running MR_GUARDED_BY(mu); /* simulations */
};

/* ---- the board ---- */

/* The type that a browser needs to use the file: with nosniff, it guesses nothing. */
static const char *type_of(const char *name)
{
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".txt", "text/plain; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
    };
    size_t n = strlen(name);
    for (int i = 0; i < MR_COUNT(types); i++) {
        size_t k = strlen(types[i].ending);
        if (n > k && strcmp(name + n - k, types[i].ending) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}

static int most_running(void)
{
    int cores = mr_cpu_count();
    return MR_MIN(MR_MAX(cores, 1), 4);
}

static mr_board_limits with_defaults(mr_board_limits l)
{
    return (mr_board_limits){
        .running = l.running ? l.running : most_running(),
        .uploads = l.uploads ? l.uploads : 64,
        .upload_bytes = l.upload_bytes ? l.upload_bytes : (size_t)256 << 20,
        .total_bytes = l.total_bytes ? l.total_bytes : (size_t)1 << 30,
    };
}

/* The ETag of a file is the hash of its contents, so a new build is noticed by a browser that knows the old one. */
mr_status *mr_board_new(const mr_board_options *o, mr_board **out)
{
    if (o->port < 1 || o->port > 65535)
        return mr_invalid("port %d is out of range: give 1 to 65535", o->port);
    mr_board *b = mr_new(mr_board);
    b->limits = with_defaults(o->limits);
    b->version = mr_strdup(o->version ? o->version : "");
    mr_board_access_init(&b->access, o->host, o->port, o->token);
    mr_board_files_init(&b->files, o->folder, &b->limits);
    mr_mutex_init(&b->mu);
    mr_cond_init(&b->ended);
    b->page = mr_new_array(mr_board_page_file, o->n_assets + 1);
    b->n_page = o->n_assets;
    for (int i = 0; i < o->n_assets; i++) {
        mr_board_page_file *p = &b->page[i];
        *p = (mr_board_page_file){.asset = o->assets[i], .type = type_of(o->assets[i].name)};
        snprintf(p->etag, sizeof p->etag, "\"%016llx\"", (unsigned long long)mr_hash64(p->asset.p, p->asset.n));
    }
    *out = b;
    return NULL;
}

void mr_board_free(mr_board *b)
{
    if (!b)
        return;
    MR_ASSERT(b->running == 0);
    mr_board_files_deinit(&b->files);
    mr_board_access_deinit(&b->access);
    mr_cond_deinit(&b->ended);
    mr_mutex_deinit(&b->mu);
    mr_free(b->page);
    mr_free(b->version);
    mr_free(b);
}

mr_status *mr_board_add(mr_board *b, const char *path) { return mr_board_files_give(&b->files, path); }

/* ---- replies ---- */

static void add_header(mr_board_reply *r, const char *name, const char *value)
{
    MR_ASSERT(r->n_headers < MR_BOARD_MAX_HEADERS);
    r->headers[r->n_headers++] = (mr_board_header){name, value};
}

/* The page loads nothing from elsewhere, runs no inline script and cannot be shown inside another page. */
static void begin_reply(mr_board_reply *r, int code, const char *type, const char *cache)
{
    MR_ASSERT(r->n_headers == 0 && code >= 200);
    r->code = code;
    add_header(r, "Content-Type", type);
    add_header(r, "Cache-Control", cache);
    add_header(
        r, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'");
    add_header(r, "X-Content-Type-Options", "nosniff");
    add_header(r, "X-Frame-Options", "DENY");
    add_header(r, "Referrer-Policy", "no-referrer");
    add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
}

static void finish_text(mr_board_reply *r) { r->body = mr_str_view(&r->text); }

/* The body of every error is the same object, so that the page can show it; people can read it, too. */
void mr_board_refuse(int code, mr_code status, const char *message, mr_board_reply *r)
{
    begin_reply(r, code, "application/json", "no-store");
    mr_str_printf(&r->text, "{\"error\": {\"code\": \"%s\", \"message\": ", mr_code_name(status));
    mr_json_quote(&r->text, mr_sv_of(message));
    mr_str_appendz(&r->text, "}}\n");
    finish_text(r);
}

static int http_code(mr_code code)
{
    switch (code) {
    case MR_PERMISSION_DENIED: return 403;
    case MR_RESOURCE_EXHAUSTED: return 413;
    case MR_CANCELLED:
    case MR_UNAVAILABLE: return 503;
    case MR_INTERNAL:
    case MR_DATA_LOSS:
    case MR_UNKNOWN: return 500;
    default: return 400;
    }
}

/* Frees st. */
static void reply_error(mr_status *st, mr_board_reply *r)
{
    mr_str_clear(&r->text);
    mr_board_refuse(http_code(mr_status_code(st)), mr_status_code(st), mr_status_message(st), r);
    mr_status_free(st);
}

void mr_board_reply_deinit(mr_board_reply *r)
{
    mr_str_deinit(&r->text);
    *r = (mr_board_reply){0};
}

/* ---- queries ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Resolves %XX and +. False: it is malformed, too long, or has a NUL. */
static bool decode_value(mr_sv text, mr_str *out)
{
    if (text.n > 3 * MOST_VALUE_BYTES)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i] == '+' ? ' ' : text.p[i];
        if (c == '%') {
            int high = i + 2 < text.n ? hex_digit(text.p[i + 1]) : -1,
                low = i + 2 < text.n ? hex_digit(text.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (!c)
            return false;
        mr_str_appendc(out, c);
    }
    return out->n <= MOST_VALUE_BYTES;
}

/* The value of a parameter; false if it is not there, there twice, or malformed. */
static bool find_value(mr_sv query, const char *name, mr_str *out)
{
    mr_sv part, found = {0};
    while (mr_sv_cut(&query, '&', &part)) {
        mr_sv value = part, key;
        if (!mr_sv_cut(&value, '=', &key) || !mr_sv_is(key, name))
            continue;
        if (found.p)
            return false;
        found = value.p ? value : MR_SV("");
    }
    mr_str_clear(out);
    return found.p && decode_value(found, out);
}

static mr_status *need_value(mr_sv query, const char *name, mr_str *out)
{
    if (find_value(query, name, out) && out->n)
        return NULL;
    return mr_invalid("the parameter %s is missing, given twice or malformed", name);
}

/* ---- plans ---- */

typedef struct sent_plan { /* a plan in a request, and the files that it uses */
    mr_sim_plan p;
    mr_board_file *graph, *costs;
} sent_plan;

static void deinit_plan(sent_plan *s)
{
    mr_sim_plan_deinit(&s->p);
    mr_board_file_unref(s->graph);
    mr_board_file_unref(s->costs);
}

/* Puts a path in the place of an id. */
static mr_status *open_file(mr_board *b, const char *key, mr_board_kind kind, const char **id, mr_board_file **out)
{
    if (!*id)
        return NULL;
    *out = mr_board_files_find(&b->files, *id, kind);
    if (!*out)
        return mr_invalid("plan: %s: '%.200s' is not the id of a file of this board; the board opens only files that "
                          "were given to it "
                          "on the command line or dropped onto the page",
                          key, *id);
    *id = (*out)->path;
    return NULL;
}

static mr_status *read_plan(mr_board *b, mr_sv text, sent_plan *s)
{
    *s = (sent_plan){0};
    MR_TRY(mr_sim_plan_parse(text, "plan", &s->p));
    MR_TRY(open_file(b, "graph.file", MR_BOARD_GRAPH, &s->p.graph.file, &s->graph));
    return open_file(b, "costs", MR_BOARD_COSTS, &s->p.costs, &s->costs);
}

/* Errors of the simulator name the path of a file; people know its name. Returns the same error, or a new one. */
static mr_status *name_file(mr_status *st, const mr_board_file *x)
{
    const char *text = mr_status_message(st), *at;
    mr_str out = {0};
    if (!st || !x || !strstr(text, x->path))
        return st;
    for (; (at = strstr(text, x->path)); text = at + strlen(x->path)) {
        mr_str_append(&out, text, (size_t)(at - text));
        mr_str_appendz(&out, x->name);
    }
    mr_str_appendz(&out, text);
    mr_status *named = mr_error(mr_status_code(st), "%s", mr_str_z(&out));
    mr_status_free(st);
    mr_str_deinit(&out);
    return named;
}

/* As many simulations at a time as there are cores: more would only make each of them slower. A flag wakes nobody, so
 * requests that wait look at theirs now and then. CANCELLED: end_running must not follow. */
static mr_status *begin_running(mr_board *b, const mr_cancel_flag *cancelled)
{
    mr_lock(&b->mu);
    while (b->running >= b->limits.running && !mr_cancel_flag_is_set(cancelled))
        mr_cond_wait_until(&b->ended, &b->mu, mr_now_ns() + LOOK_NS);
    mr_status *st = mr_cancel_flag_check(cancelled);
    b->running += !st;
    mr_unlock(&b->mu);
    return st;
}

static void end_running(mr_board *b)
{
    mr_lock(&b->mu);
    MR_ASSERT(b->running > 0 && b->running <= b->limits.running);
    b->running--;
    mr_cond_signal(&b->ended);
    mr_unlock(&b->mu);
}

/* ---- the API ---- */

typedef struct asked { /* what a route answers */
    mr_sv query, body;
    const mr_cancel_flag *cancelled;
} asked;

typedef mr_status *(*answer_fn)(mr_board *b, const asked *a, mr_str *out);

static mr_status *answer_start(mr_board *b, const asked *a, mr_str *out)
{
    (void)a;
    mr_str models = {0};
    mr_sim_answer_models(&models);
    mr_str_appendz(out, "{\"version\": ");
    mr_json_quote(out, mr_sv_of(b->version));
    mr_str_printf(out, ",\n\"models\": %s,\n\"files\": ", mr_str_z(&models));
    mr_board_files_json(&b->files, out);
    mr_str_appendz(out, "}\n");
    mr_str_deinit(&models);
    return NULL;
}

typedef enum question { STEP, REASONS, SWEEP } question;

static mr_status *run_plan(sent_plan *s, question q, const char *text, mr_str *out)
{
    mr_sim_range range;
    if (q == STEP)
        return mr_sim_answer_step(&s->p, NULL, out);
    if (q == REASONS)
        return mr_sim_answer_reasons(&s->p, NULL, text, out);
    MR_TRY(mr_sim_range_parse(text, &range));
    return mr_sim_answer_sweep(&s->p, NULL, &range, out);
}

/* text: the node of REASONS, the range of SWEEP */
static mr_status *simulate(mr_board *b, const asked *a, question q, const char *text, mr_str *out)
{
    sent_plan s;
    mr_status *st = read_plan(b, a->body, &s);
    s.p.cancelled = a->cancelled;
    if (!st)
        st = begin_running(b, a->cancelled);
    if (!st) {
        st = run_plan(&s, q, text, out);
        end_running(b);
    }
    st = name_file(name_file(st, s.graph), s.costs);
    deinit_plan(&s);
    return st;
}

static mr_status *answer_simulate(mr_board *b, const asked *a, mr_str *out)
{
    return simulate(b, a, STEP, NULL, out);
}

static mr_status *answer_explain(mr_board *b, const asked *a, mr_str *out)
{
    mr_str node = {0};
    mr_status *st = need_value(a->query, "node", &node);
    if (!st)
        st = simulate(b, a, REASONS, mr_str_z(&node), out);
    mr_str_deinit(&node);
    return st;
}

/* The range is put together as on the command line, so that it is also checked in the same way. */
static mr_status *answer_sweep(mr_board *b, const asked *a, mr_str *out)
{
    mr_str what = {0}, from = {0}, to = {0}, range = {0};
    mr_status *st = need_value(a->query, "what", &what);
    if (!st)
        st = need_value(a->query, "from", &from);
    if (!st)
        st = need_value(a->query, "to", &to);
    if (!st) {
        mr_str_printf(&range, "%s=%s..%s", mr_str_z(&what), mr_str_z(&from), mr_str_z(&to));
        st = simulate(b, a, SWEEP, mr_str_z(&range), out);
    }
    mr_str_deinit(&what);
    mr_str_deinit(&from);
    mr_str_deinit(&to);
    mr_str_deinit(&range);
    return st;
}

static mr_status *answer_upload(mr_board *b, const asked *a, mr_str *out)
{
    mr_str name = {0};
    mr_status *st = need_value(a->query, "name", &name);
    if (!st)
        st = mr_board_files_upload(&b->files, mr_str_view(&name), a->body, out);
    if (!st)
        mr_str_appendc(out, '\n');
    mr_str_deinit(&name);
    return st;
}

/* ---- routes ---- */

#define BYTES_TYPE "application/octet-stream"

typedef struct route {
    const char *path;
    bool posts;       /* POST, otherwise GET and HEAD */
    const char *type; /* of the body */
    answer_fn answer;
} route;

static const route routes[] = {
    {"/api/start", false, NULL, answer_start},
    {"/api/simulate", true, "application/json", answer_simulate},
    {"/api/explain", true, "application/json", answer_explain},
    {"/api/sweep", true, "application/json", answer_sweep},
    {"/api/files", true, BYTES_TYPE, answer_upload},
};

typedef struct target { /* what a request asks for: a route or a file of the page */
    mr_sv path, query;
    const route *route;
    const mr_board_page_file *file;
} target;

static void find_target(const mr_board *b, mr_sv text, target *t)
{
    *t = (target){.query = text};
    mr_sv_cut(&t->query, '?', &t->path);
    for (int i = 0; i < MR_COUNT(routes); i++)
        if (mr_sv_is(t->path, routes[i].path))
            t->route = &routes[i];
    if (t->path.n == 0 || t->path.p[0] != '/')
        return;
    mr_sv name = t->path.n == 1 ? MR_SV("index.html") : (mr_sv){t->path.p + 1, t->path.n - 1};
    for (int i = 0; i < b->n_page; i++)
        if (mr_sv_is(name, b->page[i].asset.name))
            t->file = &b->page[i];
}

static bool is_page(const target *t) { return t->file && strcmp(t->file->asset.name, "index.html") == 0; }

/* "application/json; charset=utf-8" is of the type application/json. A form of another site cannot send these types
 * without asking first. */
static bool has_type(mr_sv value, const char *type)
{
    mr_sv first;
    if (!value.p || !mr_sv_cut(&value, ';', &first))
        return false;
    first = mr_sv_trim(first);
    return first.n == strlen(type) && strncasecmp(first.p, type, first.n) == 0;
}

static bool refuse(mr_board_reply *out, int code, mr_code status, const char *message)
{
    mr_board_refuse(code, status, message, out);
    return false;
}

static bool refuse_method(mr_board_reply *out, const char *allowed)
{
    mr_board_refuse(405, MR_UNIMPLEMENTED, "this method is not allowed here", out);
    add_header(out, "Allow", allowed);
    return false;
}

/* The page shows its token in its address, and sends it as a header with each request of the API. Scripts and styles
 * need none: everybody has them. */
static bool has_token(const mr_board *b, const mr_board_request *r, const target *t)
{
    mr_str value = {0};
    bool known = true;
    if (is_page(t))
        known = !b->access.token ||
                (find_value(t->query, "token", &value) && mr_board_access_token(&b->access, mr_str_view(&value)));
    else if (!t->file)
        known = mr_board_access_token(&b->access, r->token);
    mr_str_deinit(&value);
    return known;
}

/* Checks everything but the body; see mr_board_admits. */
static bool admit(const mr_board *b, const mr_board_request *r, target *t, size_t *most_bytes, mr_board_reply *out)
{
    bool gets = mr_sv_is(r->method, "GET") || mr_sv_is(r->method, "HEAD"), posts = mr_sv_is(r->method, "POST");
    *most_bytes = 0;
    if (!gets && !posts)
        return refuse_method(out, "GET, HEAD, POST");
    if (!mr_board_access_host(&b->access, r->host))
        return refuse(out, 403, MR_PERMISSION_DENIED,
                      "the Host of the request is not the address of this board; use the address that "
                      "`millrace board` printed");
    if (r->target.n > MOST_TARGET_BYTES)
        return refuse(out, 414, MR_INVALID_ARGUMENT, "the address is too long");
    find_target(b, r->target, t);
    if (mr_board_access_foreign(r, gets && is_page(t)))
        return refuse(out, 403, MR_PERMISSION_DENIED, "a page of another origin may not use this board");
    if (!has_token(b, r, t))
        return refuse(out, 403, MR_PERMISSION_DENIED,
                      "the token is missing or wrong; use the address that `millrace board` printed");
    if (!t->route && !t->file)
        return refuse(out, 404, MR_NOT_FOUND, "there is no such page");
    if (posts != (t->route && t->route->posts))
        return refuse_method(out, posts ? "GET, HEAD" : "POST");
    if (posts && !has_type(r->content_type, t->route->type))
        return refuse(out, 415, MR_INVALID_ARGUMENT,
                      t->route->answer == answer_upload ? "the Content-Type must be application/octet-stream"
                                                        : "the Content-Type must be application/json");
    if (posts)
        *most_bytes = t->route->answer == answer_upload ? b->limits.upload_bytes : MR_SIM_MAX_PLAN_BYTES;
    return true;
}

bool mr_board_admits(mr_board *b, const mr_board_request *r, size_t *most_bytes, mr_board_reply *out)
{
    target t;
    return admit(b, r, &t, most_bytes, out);
}

/* The browser asks each time whether its copy is still right. */
static void reply_file(const mr_board_page_file *f, mr_sv known, mr_board_reply *out)
{
    bool same = mr_sv_is(known, f->etag);
    begin_reply(out, same ? 304 : 200, f->type, "no-cache");
    add_header(out, "ETag", f->etag);
    out->body = same ? MR_SV("") : (mr_sv){f->asset.p, f->asset.n};
}

/* The plug-in has called mr_board_admits before; a caller that has not is not trusted either. */
void mr_board_handle(mr_board *b, const mr_board_request *r, mr_board_reply *out)
{
    target t;
    size_t most;
    *out = (mr_board_reply){0};
    if (!admit(b, r, &t, &most, out))
        return;
    if (r->body.n > most) {
        refuse(out, 413, MR_INVALID_ARGUMENT, most ? "the body is too long" : "a GET request has no body");
        return;
    }
    if (t.file) {
        reply_file(t.file, r->if_none_match, out);
        return;
    }
    mr_status *st = t.route->answer(b, &(asked){t.query, r->body, r->cancelled}, &out->text);
    if (st) {
        reply_error(st, out);
        return;
    }
    begin_reply(out, 200, "application/json", "no-store");
    finish_text(out);
}
