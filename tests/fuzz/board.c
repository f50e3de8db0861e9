/* tests/fuzz/board.c -- hostile requests to `millrace board`, straight to mr_board_handle.
 *
 * A run makes a board and sends it four requests: methods, addresses, headers, plans and files, good ones and damaged
 * ones. Whatever is answered, its form must be right, and what only the page may get must not go to anybody else. */
#include <dirent.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "board/board.h"
#include "ops/table.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "wire/json.h"

enum { REQUESTS, ANSWERED, SIMULATED, UPLOADED, REFUSED_HOST, N_COUNTS };
enum { REQUESTS_PER_RUN = 4, MOST_UPLOADS = 2 };

#define TOKEN "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define GRAPH                                                                               \
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }\n" \
    "node { name: 'y' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }\n"

static const mr_board_asset assets[] = {{"index.html", "<!doctype html>", 15}, {"board.js", "start()", 7}};
static char *folder, *graph; /* of this child */

/* ---- requests ---- */

typedef struct request {
    mr_str method, target, headers[8], body;
    bool has[8];
} request;

static void drop_request(request *q)
{
    mr_str_deinit(&q->method);
    mr_str_deinit(&q->target);
    mr_str_deinit(&q->body);
    for (int i = 0; i < MR_COUNT(q->headers); i++)
        mr_str_deinit(&q->headers[i]);
}

static void put_numbers(fuzz_rng *r, mr_str *out, const char *const *keys, int n)
{
    for (int i = 0; i < n; i++)
        if (fuzz_once_in(r, 3))
            mr_str_printf(out, ", \"%s\": %d", keys[i], (int)fuzz_between(r, 1, 4));
}

static void put_plan(fuzz_rng *r, mr_str *out)
{
    static const char *const files[] = {
        "f1",       "u1", "u2",        "f2",          "/etc/passwd", "../graph.pbtxt", "file:///etc/passwd",
        "f1/../f1", "",   "f1\\u0000", "u99999999999"};
    static const char *const mlp[] = {"batch", "inputs", "hidden", "layers", "classes"};
    static const char *const device[] = {"speedup", "op_us", "task", "memory_bytes"};
    static const char *const cluster[] = {"workers", "ps", "backup", "delay", "checkpoint_s", "seed", "hosts"};
    static const char *const modes[] = {"async", "sync", "backup", "bounded", "allreduce"};
    if (fuzz_once_in(r, 3))
        mr_str_printf(out, "{\"graph\": {\"file\": \"%s\"", fuzz_pick(r, files));
    else
        mr_str_printf(out, "{\"graph\": {\"model\": \"%s\"", fuzz_once_in(r, 2) ? "neuron" : "mlp");
    if (fuzz_once_in(r, 4))
        put_numbers(r, out, mlp, MR_COUNT(mlp));
    mr_str_appendz(out, "}, \"visits\": 500");
    if (fuzz_once_in(r, 8))
        mr_str_printf(out, ", \"costs\": \"%s\"", fuzz_pick(r, files));
    if (fuzz_once_in(r, 2)) {
        mr_str_printf(out, ", \"devices\": [{\"type\": \"CPU\"}, {\"type\": \"GPU\"");
        put_numbers(r, out, device, MR_COUNT(device));
        mr_str_appendz(out, "}]");
    }
    if (fuzz_once_in(r, 6)) {
        mr_str_printf(out, ", \"cluster\": {\"mode\": \"%s\", \"steps\": 3", fuzz_pick(r, modes));
        put_numbers(r, out, cluster, MR_COUNT(cluster));
        mr_str_appendc(out, '}');
    }
    mr_str_appendc(out, '}');
    for (uint64_t k = fuzz_once_in(r, 3) ? 1 + fuzz_below(r, 3) : 0; k > 0; k--)
        fuzz_damage(r, out);
}

static void put_target(fuzz_rng *r, mr_str *out)
{
    static const char *const good[] = {"/",
                                       ("/?token=" TOKEN),
                                       "/board.js",
                                       "/api/start",
                                       "/api/simulate",
                                       "/api/simulate",
                                       "/api/explain?node=y",
                                       "/api/explain?node=neuron%2FMatMul",
                                       "/api/sweep?what=device:cpu0.speedup&from=1&to=4",
                                       "/api/sweep?what=workers&from=1&to=3",
                                       "/api/files?name=a.pb",
                                       "/api/files?name=a.pbtxt",
                                       "/api/files?name=saved_model.pb",
                                       "/api/files?name=plan.json"};
    static const char *const parts[] = {"/",
                                        "..",
                                        "%2e",
                                        "%2f",
                                        "%00",
                                        "\\",
                                        "%",
                                        "%%",
                                        "?",
                                        "&",
                                        "=",
                                        "+",
                                        "//",
                                        "/api",
                                        "index.html",
                                        "board.js",
                                        ("token=" TOKEN),
                                        "name=",
                                        "node=",
                                        "what=",
                                        "#",
                                        ";",
                                        "\r\n",
                                        " ",
                                        "%ff",
                                        "/etc/passwd",
                                        "http://localhost:8600",
                                        "\xc0\xae",
                                        "."};
    if (fuzz_once_in(r, 3)) {
        for (uint64_t k = fuzz_below(r, 8); k > 0; k--)
            mr_str_appendz(out, fuzz_pick(r, parts));
        if (fuzz_once_in(r, 200))
            while (out->n < 9000)
                mr_str_appendz(out, fuzz_pick(r, parts));
        return;
    }
    mr_str_appendz(out, fuzz_pick(r, good));
    for (uint64_t k = fuzz_once_in(r, 6) ? fuzz_below(r, 3) : 0; k > 0; k--)
        fuzz_damage(r, out);
}

/* The headers in the order of mr_board_request: for each, the value of the page, then others. */
static void put_headers(fuzz_rng *r, request *q)
{
    static const char *const values[8][6] = {
        {"localhost:8600", "127.0.0.1:8600", "[::1]:8600", "evil.example:8600", "localhost", "10.0.0.1:8600"},
        {NULL, "http://localhost:8600", "http://evil.example", "null", "https://localhost:8600",
         "http://localhost:8600.evil.example"},
        {NULL, "same-origin", "none", "cross-site", "same-site", ""},
        {NULL, "navigate", "cors", "no-cors", "", "websocket"},
        {NULL, "document", "empty", "script", "iframe", ""},
        {TOKEN, NULL, "", "0", (TOKEN "0"), "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefe"},
        {NULL, "text/plain", "application/json; charset=utf-8", "application/octet-stream", "", ";"},
        {NULL, "\"0000000000000000\"", "*", "", "W/\"\"", "\""},
    };
    bool uploads = mr_sv_starts(mr_str_view(&q->target), "/api/files");
    for (int i = 0; i < 8; i++) {
        const char *usual = i == 6 ? uploads ? "application/octet-stream" : "application/json" : values[i][0];
        const char *value = fuzz_once_in(r, 10) ? fuzz_pick(r, values[i]) : usual;
        q->has[i] = value != NULL;
        mr_str_appendz(&q->headers[i], value ? value : "");
        if (fuzz_once_in(r, 60))
            fuzz_damage(r, &q->headers[i]);
    }
}

static void make_request(fuzz_rng *r, request *q)
{
    static const char *const methods[] = {"GET",     "POST",    "HEAD",  "PUT", "DELETE",
                                          "OPTIONS", "CONNECT", "TRACE", "",    "get"};
    *q = (request){0};
    put_target(r, &q->target);
    bool posts = mr_sv_starts(mr_str_view(&q->target), "/api/") && !mr_sv_starts(mr_str_view(&q->target), "/api/start");
    mr_str_appendz(&q->method, fuzz_once_in(r, 12) ? fuzz_pick(r, methods) : posts ? "POST" : "GET");
    put_headers(r, q);
    if (!posts && !fuzz_once_in(r, 20))
        return;
    if (!mr_sv_starts(mr_str_view(&q->target), "/api/files?name=a.pbtxt"))
        put_plan(r, &q->body);
    else
        mr_str_appendz(&q->body, GRAPH);
    if (fuzz_once_in(r, 40))
        fuzz_damage(r, &q->body);
}

/* ---- replies ---- */

static bool is_one_of(mr_sv text, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (mr_sv_is(text, list[i]))
            return true;
    return false;
}

static const char *header_of(const mr_board_reply *r, const char *name)
{
    for (int i = 0; i < r->n_headers; i++)
        if (strcmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return "";
}

static void check_json(mr_sv text)
{
    mr_json j;
    mr_json_init(&j, text);
    mr_json_skip(&j);
    fuzz_must(mr_json_status(&j, "the reply"), "the reply");
}

/* Only requests that are allowed to have an answer get one. The lists are what this file sends, in any case. */
static void check_allowed(const mr_board_request *r, bool needs_token)
{
    char host[32], origin[64];
    for (size_t i = 0; i <= r->host.n && i < sizeof host; i++)
        host[i] = i < r->host.n ? (char)(r->host.p[i] | (r->host.p[i] >= 'A' && r->host.p[i] <= 'Z' ? 32 : 0)) : 0;
    static const char *const hosts[] = {"localhost:8600", "127.0.0.1:8600", "[::1]:8600"};
    if (r->host.n >= sizeof host || !is_one_of((mr_sv){host, r->host.n}, hosts, MR_COUNT(hosts)))
        fuzz_fail("an answer to a request for host %.*s", MR_SV_ARG(r->host));
    snprintf(origin, sizeof origin, "http://%.*s", MR_SV_ARG(r->host));
    if (r->origin.p && (r->origin.n != strlen(origin) || strncasecmp(r->origin.p, origin, r->origin.n) != 0))
        fuzz_fail("an answer to a page of %.*s", MR_SV_ARG(r->origin));
    mr_sv path, rest = r->target;
    mr_sv_cut(&rest, '?', &path);
    if (!needs_token)
        return;
    if (mr_sv_starts(path, "/api/") && !mr_sv_is(r->token, TOKEN))
        fuzz_fail("an answer of the API without a token");
    if ((mr_sv_is(path, "/") || mr_sv_is(path, "/index.html")) && !(rest.p && memmem(rest.p, rest.n, "token=", 6)))
        fuzz_fail("the page without a token");
}

static void check_reply(fuzz_run *run, const mr_board_request *r, const mr_board_reply *reply, bool needs_token)
{
    static const int codes[] = {200, 304, 400, 403, 404, 405, 413, 414, 415};
    bool known = false;
    for (int i = 0; i < MR_COUNT(codes); i++)
        known |= reply->code == codes[i];
    if (!known)
        fuzz_fail("code %d: %.*s", reply->code, MR_SV_ARG(reply->body));
    if (!strstr(header_of(reply, "Content-Security-Policy"), "default-src 'none'") ||
        strcmp(header_of(reply, "X-Content-Type-Options"), "nosniff") != 0)
        fuzz_fail("a reply without its headers");
    if (reply->body.n && strcmp(header_of(reply, "Content-Type"), "application/json") == 0)
        check_json(reply->body);
    run->counts[REQUESTS]++;
    run->counts[REFUSED_HOST] += reply->code == 403;
    if (reply->code != 200)
        return;
    run->counts[ANSWERED]++;
    run->counts[SIMULATED] += reply->body.n > 20 && memmem(reply->body.p, reply->body.n, "\"step_s\"", 8);
    run->counts[UPLOADED] += mr_sv_starts(mr_sv_trim(reply->body), "{\"id\": \"u");
    check_allowed(r, needs_token);
}

/* The folder has only files that the board named itself, and not more than it may keep. */
static void check_folder(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *end;
        if (e->d_name[0] == '.')
            continue;
        n++;
        bool numbered = e->d_name[0] == 'u' && strtol(e->d_name + 1, &end, 10) > 0;
        if (!numbered || (*end && strcmp(end, ".pb") != 0 && strcmp(end, ".pbtxt") != 0 && strcmp(end, ".meta") != 0))
            fuzz_fail("a file %s", e->d_name);
    }
    if (d)
        closedir(d);
    if (n > MOST_UPLOADS)
        fuzz_fail("%d files are kept", n);
}

/* ---- the target ---- */

static void begin_child(void)
{
    folder = mr_printf("board-%d", (int)getpid());
    graph = mr_printf("graph-%d.pbtxt", (int)getpid());
    fuzz_must(mr_dir_make(folder), "a folder");
    fuzz_must(mr_file_write_all(graph, MR_SV(GRAPH)), "a graph");
}

static void send_request(fuzz_run *run, mr_board *b, const request *q, bool needs_token)
{
    mr_sv body = fuzz_exact(mr_str_view(&q->body)), target = fuzz_exact(mr_str_view(&q->target)), h[8];
    for (int i = 0; i < 8; i++)
        h[i] = q->has[i] ? fuzz_exact(mr_str_view(&q->headers[i])) : (mr_sv){0};
    mr_board_request r = {mr_str_view(&q->method), target, h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], body};
    mr_board_reply reply;
    mr_board_handle(b, &r, &reply);
    fuzz_say(run, "%.*s %.*s Host %.*s\n%.*s\n%d %.*s", MR_SV_ARG(r.method), MR_SV_ARG(target), MR_SV_ARG(h[0]),
             MR_SV_ARG(body), reply.code, (int)MR_MIN(reply.body.n, 400), reply.body.p);
    check_reply(run, &r, &reply, needs_token);
    mr_board_reply_deinit(&reply);
    mr_free((void *)(uintptr_t)body.p);
    mr_free((void *)(uintptr_t)target.p);
    for (int i = 0; i < 8; i++)
        mr_free((void *)(uintptr_t)h[i].p);
}

static void run_board(fuzz_run *run)
{
    mr_board *b;
    bool needs_token = fuzz_once_in(&run->rng, 3);
    if (!folder)
        begin_child();
    fuzz_must(mr_board_new(
                  &(mr_board_options){
                      .version = "0",
                      .port = 8600,
                      .token = needs_token ? TOKEN : NULL,
                      .folder = folder,
                      .assets = assets,
                      .n_assets = MR_COUNT(assets),
                      .limits = {.running = 1, .uploads = MOST_UPLOADS, .upload_bytes = 1000, .total_bytes = 1500}},
                  &b),
              "a board");
    fuzz_must(mr_board_add(b, graph), "the graph");
    for (int i = 0; i < REQUESTS_PER_RUN; i++) {
        request q;
        make_request(&run->rng, &q);
        fuzz_notef(run, "%.*s %.*s\n%.*s", (int)q.method.n, mr_str_z(&q.method), (int)q.target.n, mr_str_z(&q.target),
                   (int)q.body.n, mr_str_z(&q.body));
        send_request(run, b, &q, needs_token);
        drop_request(&q);
    }
    if (fuzz_once_in(&run->rng, 16))
        check_folder();
    mr_board_free(b);
}

static void prepare(void) { mr_ops_register(); }
static int64_t n_runs(void) { return 240000; }
static int n_counts(void) { return N_COUNTS; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    double answered = 100.0 * (double)counts[ANSWERED] / (double)MR_MAX(counts[REQUESTS], 1);
    fprintf(out, "requests %lld answered_percent %.1f simulated %lld uploaded %lld refused_host_or_origin %lld",
            (long long)counts[REQUESTS], answered, (long long)counts[SIMULATED], (long long)counts[UPLOADED],
            (long long)counts[REFUSED_HOST]);
    bool ok =
        runs < 250 || (answered >= 10 && counts[SIMULATED] > 0 && counts[UPLOADED] > 0 && counts[REFUSED_HOST] > 0);
    if (!ok && err)
        fprintf(err, "fuzz board: too few requests are answered\n");
    return ok;
}

const fuzz_target fuzz_board = {.name = "board",
                                .about = "hostile requests to the server of the page",
                                .prepare = prepare,
                                .n_runs = n_runs,
                                .n_counts = n_counts,
                                .run = run_board,
                                .summary = summary};
