/* board/board_test.c -- who may use the board, what it answers, and which files it reads. */
#include "board/board.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"
#include "board/access.h"
#include "sim/answer.h"
#include "tests/harness/test.h"

#define HOME "localhost:8600"
#define LENET "{\"graph\": {\"model\": \"lenet\"}, \"devices\": [{\"type\": \"CPU\"}, {\"type\": \"GPU\"}]}"

void mr_ops_register(void); /* ops/table.h, above this layer */

static const mr_board_asset assets[] = {{"index.html", "<!doctype html>", 15},
                                        {"board.js", "start()", 7},
                                        {"board.css", "a{}", 3},
                                        {"licenses.txt", "MIT", 3}};

/* A board with a folder for uploads. */
static mr_board *make_board(mr_board_options o)
{
    mr_board *b;
    mr_ops_register();
    o.version = "1.2.3";
    o.port = 8600;
    o.assets = assets;
    o.n_assets = MR_COUNT(assets);
    MR_CHECK_OK(mr_board_new(&o, &b));
    return b;
}

static char *make_folder(const char *name)
{
    char *path = mr_printf("%s/%s", mr_test_dir(), name);
    MR_CHECK_OK(mr_dir_make(path));
    return path;
}

/* A request as the page makes it. */
static mr_board_request make_request(const char *method, const char *target, mr_sv body)
{
    bool uploads = strncmp(target, "/api/files", 10) == 0, posts = strcmp(method, "POST") == 0;
    return (mr_board_request){.method = mr_sv_of(method),
                              .target = mr_sv_of(target),
                              .host = MR_SV(HOME),
                              .origin = posts ? MR_SV("http://" HOME) : (mr_sv){0},
                              .content_type = !posts    ? (mr_sv){0}
                                              : uploads ? MR_SV("application/octet-stream")
                                                        : MR_SV("application/json"),
                              .body = body};
}

static int code_of(mr_board *b, const mr_board_request *r)
{
    mr_board_reply reply;
    mr_board_handle(b, r, &reply);
    int code = reply.code;
    mr_board_reply_deinit(&reply);
    return code;
}

static int get(mr_board *b, const char *target)
{
    mr_board_request r = make_request("GET", target, MR_SV(""));
    return code_of(b, &r);
}

/* The text of the reply, which must have this code; the caller frees it. */
static char *ask(mr_board *b, const char *method, const char *target, mr_sv body, int code)
{
    mr_board_reply reply;
    mr_board_request r = make_request(method, target, body);
    mr_board_handle(b, &r, &reply);
    char *text = mr_strndup(reply.body.p, reply.body.n);
    if (reply.code != code)
        mr_test_fail(__FILE__, __LINE__, "%s %s: %d, expected %d: %s", method, target, reply.code, code, text);
    mr_board_reply_deinit(&reply);
    return text;
}

static void check_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        mr_test_fail(__FILE__, __LINE__, "'%s' is not in: %s", part, text);
}

/* Posts the body; the reply must have this code and this text in it. */
static void post(mr_board *b, const char *target, const char *body, int code, const char *part)
{
    char *text = ask(b, "POST", target, mr_sv_of(body), code);
    check_has(text, part);
    mr_free(text);
}

static const char *header_of(const mr_board_reply *r, const char *name)
{
    for (int i = 0; i < r->n_headers; i++)
        if (strcmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return "";
}

static char *example(const char *name) { return mr_printf("%s/../../examples/sim/%s", mr_test_golden(), name); }

/* What the command prints for a plan; p becomes empty, and the caller frees the text. */
static char *simulated(mr_sim_plan *p)
{
    mr_str out = {0};
    MR_CHECK_OK(mr_sim_answer_step(p, NULL, &out));
    char *text = mr_strdup(mr_str_z(&out));
    mr_str_deinit(&out);
    mr_sim_plan_deinit(p);
    return text;
}

/* The same for a file. */
static char *simulated_file(const char *path)
{
    mr_sim_plan p;
    MR_CHECK_OK(mr_sim_plan_load(path, &p));
    return simulated(&p);
}

/* Posts a plan, for which the reply must have this text; frees it. */
static void post_simulated(mr_board *b, mr_sv plan, char *wanted)
{
    char *text = ask(b, "POST", "/api/simulate", plan, 200);
    MR_CHECK_STR(text, wanted);
    mr_free(text);
    mr_free(wanted);
}

/* How many files there are below the folder. */
static int count_files(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    MR_CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        char *path = mr_printf("%s/%s", folder, e->d_name);
        n += e->d_type == DT_DIR ? count_files(path) : 1;
        mr_free(path);
    }
    closedir(d);
    return n;
}

/* ---- the page ---- */

MR_TEST(board_serves_the_files_of_the_page)
{
    mr_board *b = make_board((mr_board_options){0});
    char *text = ask(b, "GET", "/", MR_SV(""), 200);
    MR_CHECK_STR(text, "<!doctype html>");
    mr_free(text);
    text = ask(b, "GET", "/board.js", MR_SV(""), 200);
    MR_CHECK_STR(text, "start()");
    mr_free(text);
    MR_CHECK_INT(get(b, "/index.html"), 200);
    MR_CHECK_INT(get(b, "/?story=3"), 200);
    MR_CHECK_INT(get(b, "/licenses.txt"), 200);
    mr_board_free(b);
}

MR_TEST(board_finds_only_whole_names)
{
    static const char *const none[] = {
        "",
        "*",
        "board.js",
        "//",
        "//board.js",
        "/./board.js",
        "/board.js/",
        "/board.js/.",
        "/BOARD.JS",
        "/board%2ejs",
        "/%62oard.js",
        "/board.js%00",
        "/board.js%00.txt",
        "/..",
        "/../board.js",
        "/../../../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/%252e%252e%252fetc/passwd",
        "/..\\..\\etc\\passwd",
        "/\\board.js",
        "/.\\board.js",
        "/..%5cetc%5cpasswd",
        "/%c0%ae%c0%ae/etc/passwd",
        "/etc/passwd",
        "/file:///etc/passwd",
        "http://" HOME "/",
        "/api",
        "/api/",
        "/api//start",
        "/api/start/",
        "/api/../board.js",
        "/api/f1",
        "/u1.pb",
        "/f1",
        "/index.html#a",
        "/board.js;a",
        "/.git/config",
    };
    mr_board *b = make_board((mr_board_options){0});
    for (int i = 0; i < MR_COUNT(none); i++)
        if (get(b, none[i]) != 404)
            mr_test_fail(__FILE__, __LINE__, "%s was found", none[i]);
    mr_board_request r = make_request("GET", "", MR_SV(""));
    r.target = (mr_sv){"/board.js\0", 10};
    MR_CHECK_INT(code_of(b, &r), 404);
    r.target = (mr_sv){"/board.js\n", 10};
    MR_CHECK_INT(code_of(b, &r), 404);
    mr_board_free(b);
}

MR_TEST(board_sends_its_headers_with_every_reply)
{
    static const char *const targets[] = {"/", "/board.js", "/api/start", "/nothing", "/api/simulate"};
    mr_board *b = make_board((mr_board_options){0});
    for (int i = 0; i <= MR_COUNT(targets); i++) {
        mr_board_reply reply;
        mr_board_request r = make_request("GET", i < MR_COUNT(targets) ? targets[i] : "/", MR_SV(""));
        if (i == MR_COUNT(targets))
            r.host = MR_SV("evil.example");
        mr_board_handle(b, &r, &reply);
        check_has(header_of(&reply, "Content-Security-Policy"), "default-src 'none'; script-src 'self';");
        MR_CHECK(!strstr(header_of(&reply, "Content-Security-Policy"), "unsafe"));
        MR_CHECK_STR(header_of(&reply, "X-Content-Type-Options"), "nosniff");
        MR_CHECK_STR(header_of(&reply, "X-Frame-Options"), "DENY");
        MR_CHECK_STR(header_of(&reply, "Referrer-Policy"), "no-referrer");
        MR_CHECK_STR(header_of(&reply, "Cross-Origin-Resource-Policy"), "same-origin");
        MR_CHECK(strcmp(header_of(&reply, "Cache-Control"),
                        strncmp(header_of(&reply, "Content-Type"), "text/", 5) ? "no-store" : "no-cache") == 0);
        mr_board_reply_deinit(&reply);
    }
    mr_board_free(b);
}

MR_TEST(board_lets_a_browser_keep_files_of_the_page)
{
    mr_board *b = make_board((mr_board_options){0});
    mr_board_request r = make_request("GET", "/board.js", MR_SV(""));
    mr_board_reply first, second;
    mr_board_handle(b, &r, &first);
    r.if_none_match = mr_sv_of(header_of(&first, "ETag"));
    MR_CHECK_INT(r.if_none_match.n, 18);
    mr_board_handle(b, &r, &second);
    MR_CHECK_INT(second.code, 304);
    MR_CHECK_INT(second.body.n, 0);
    mr_board_reply_deinit(&first);
    mr_board_reply_deinit(&second);
    mr_board_free(b);
}

MR_TEST(board_refuses_other_methods)
{
    static const char *const methods[] = {"PUT",   "DELETE", "OPTIONS", "TRACE", "CONNECT",
                                          "PATCH", "get",    "",        "GET ",  "GETGET"};
    mr_board *b = make_board((mr_board_options){0});
    for (int i = 0; i < MR_COUNT(methods); i++) {
        mr_board_request r = make_request(methods[i], "/", MR_SV(""));
        MR_CHECK_INT(code_of(b, &r), 405);
    }
    MR_CHECK_INT(get(b, "/api/simulate"), 405);
    post(b, "/", "{}", 405, "not allowed");
    post(b, "/api/start", "{}", 405, "not allowed");
    mr_board_request head = make_request("HEAD", "/", MR_SV(""));
    MR_CHECK_INT(code_of(b, &head), 200);
    mr_board_free(b);
}

/* ---- who asks ---- */

static int code_with_host(mr_board *b, const char *host)
{
    mr_board_request r = make_request("GET", "/api/start", MR_SV(""));
    r.host = mr_sv_of(host);
    return code_of(b, &r);
}

/* With DNS rebinding, a name of the attacker leads to 127.0.0.1, and the browser sends that name. */
MR_TEST(board_refuses_host_names_that_are_not_its_own)
{
    static const char *const bad[] = {"evil.example:8600",
                                      "evil.example",
                                      "localhost",
                                      "localhost:80",
                                      "localhost:8601",
                                      "127.0.0.1",
                                      "127.0.0.1:86000",
                                      "127.0.0.2:8600",
                                      "[::1]",
                                      "::1:8600",
                                      "localhost:8600.evil.example",
                                      "localhost:8600 ",
                                      " localhost:8600",
                                      "x@localhost:8600",
                                      "localhost:8600,evil.example",
                                      "localhost.:8600",
                                      "192.168.0.7:8600",
                                      "127.1:8600",
                                      "2130706433:8600",
                                      "[::ffff:127.0.0.1]:8600",
                                      ""};
    static const char *const good[] = {"localhost:8600", "LocalHost:8600", "127.0.0.1:8600", "[::1]:8600"};
    mr_board *b = make_board((mr_board_options){0});
    for (int i = 0; i < MR_COUNT(bad); i++)
        if (code_with_host(b, bad[i]) != 403)
            mr_test_fail(__FILE__, __LINE__, "Host '%s' was accepted", bad[i]);
    for (int i = 0; i < MR_COUNT(good); i++)
        MR_CHECK_INT(code_with_host(b, good[i]), 200);
    MR_CHECK_INT(code_with_host(b, NULL), 403);
    mr_board_free(b);
}

MR_TEST(board_at_all_addresses_accepts_addresses_but_no_names)
{
    mr_board *b = make_board((mr_board_options){.host = "0.0.0.0"});
    char own[256] = "", *named;
    MR_CHECK_INT(code_with_host(b, "192.168.0.7:8600"), 200);
    MR_CHECK_INT(code_with_host(b, "[fe80::1]:8600"), 200);
    MR_CHECK_INT(code_with_host(b, "192.168.0.7:8601"), 403);
    MR_CHECK_INT(code_with_host(b, "192.168.0.7"), 403);
    MR_CHECK_INT(code_with_host(b, "192.168.0.256:8600"), 403);
    MR_CHECK_INT(code_with_host(b, "[fe80::1:8600"), 403);
    MR_CHECK_INT(code_with_host(b, "fe80::1:8600"), 403);
    MR_CHECK_INT(code_with_host(b, ":8600"), 403);
    MR_CHECK_INT(code_with_host(b, "evil.example:8600"), 403);
    gethostname(own, sizeof own - 1);
    named = mr_printf("%s:8600", own);
    MR_CHECK_INT(code_with_host(b, named), 200);
    mr_free(named);
    mr_board_free(b);
}

MR_TEST(board_with_a_host_accepts_that_host)
{
    mr_board *b = make_board((mr_board_options){.host = "10.0.0.5"});
    MR_CHECK_INT(code_with_host(b, "10.0.0.5:8600"), 200);
    MR_CHECK_INT(code_with_host(b, "10.0.0.6:8600"), 403);
    MR_CHECK_INT(code_with_host(b, "localhost:8600"), 403);
    mr_board_free(b);
    b = make_board((mr_board_options){.host = "fe80::1"});
    MR_CHECK_INT(code_with_host(b, "[fe80::1]:8600"), 200);
    mr_board_free(b);
}

static int code_with(mr_board *b, const char *method, const char *target, const char *origin, const char *site,
                     const char *mode, const char *dest)
{
    mr_board_request r = make_request(method, target, MR_SV(LENET));
    r.origin = mr_sv_of(origin);
    r.fetch_site = mr_sv_of(site);
    r.fetch_mode = mr_sv_of(mode);
    r.fetch_dest = mr_sv_of(dest);
    if (strcmp(method, "GET") == 0)
        r.body = MR_SV("");
    return code_of(b, &r);
}

MR_TEST(board_refuses_pages_of_other_origins)
{
    static const char *const bad[] = {"http://evil.example",
                                      "null",
                                      "",
                                      "http://localhost:8601",
                                      "https://localhost:8600",
                                      "http://localhost",
                                      "http://127.0.0.1:8600",
                                      "http://localhost:8600/",
                                      "http://localhost:8600.evil.example",
                                      "localhost:8600"};
    mr_board *b = make_board((mr_board_options){0});
    for (int i = 0; i < MR_COUNT(bad); i++)
        if (code_with(b, "POST", "/api/simulate", bad[i], NULL, NULL, NULL) != 403)
            mr_test_fail(__FILE__, __LINE__, "Origin '%s' was accepted", bad[i]);
    MR_CHECK_INT(code_with(b, "POST", "/api/simulate", "http://" HOME, "same-origin", "cors", "empty"), 200);
    MR_CHECK_INT(code_with(b, "POST", "/api/simulate", NULL, NULL, NULL, NULL), 200); /* a script, not a browser */
    MR_CHECK_INT(code_with(b, "POST", "/api/simulate", NULL, "cross-site", NULL, NULL), 403);
    MR_CHECK_INT(code_with(b, "GET", "/api/start", NULL, "cross-site", "navigate", "document"), 403);
    MR_CHECK_INT(code_with(b, "GET", "/api/start", NULL, "same-site", "no-cors", "script"), 403);
    MR_CHECK_INT(code_with(b, "GET", "/board.js", NULL, "cross-site", "no-cors", "script"), 403);
    MR_CHECK_INT(code_with(b, "GET", "/", NULL, "cross-site", "navigate", "iframe"), 403);
    MR_CHECK_INT(code_with(b, "GET", "/", NULL, "cross-site", NULL, NULL), 403);
    MR_CHECK_INT(code_with(b, "GET", "/", NULL, "none", "navigate", "document"), 200);       /* typed */
    MR_CHECK_INT(code_with(b, "GET", "/", NULL, "cross-site", "navigate", "document"), 200); /* a link to the page */
    mr_board_free(b);
}

MR_TEST(board_refuses_what_a_form_can_send)
{
    static const char *const bad[] = {NULL,
                                      "",
                                      "text/plain",
                                      "application/x-www-form-urlencoded",
                                      "multipart/form-data; boundary=application/json",
                                      "application/jsonx",
                                      "application/octet-stream",
                                      "text/plain; application/json"};
    mr_board *b = make_board((mr_board_options){0});
    mr_board_request r = make_request("POST", "/api/simulate", MR_SV(LENET));
    for (int i = 0; i < MR_COUNT(bad); i++) {
        r.content_type = mr_sv_of(bad[i]);
        MR_CHECK_INT(code_of(b, &r), 415);
    }
    r.content_type = MR_SV("Application/JSON ; charset=utf-8");
    MR_CHECK_INT(code_of(b, &r), 200);
    mr_board_free(b);
}

MR_TEST(board_with_a_token_wants_it)
{
    mr_board *b = make_board((mr_board_options){.host = "localhost", .token = "0123456789abcdef"});
    mr_board_request r = make_request("GET", "/api/start", MR_SV(""));
    MR_CHECK_INT(code_of(b, &r), 403);
    r.token = MR_SV("0123456789abcdee");
    MR_CHECK_INT(code_of(b, &r), 403);
    r.token = MR_SV("0123456789abcde");
    MR_CHECK_INT(code_of(b, &r), 403);
    r.token = MR_SV("0123456789abcdef0");
    MR_CHECK_INT(code_of(b, &r), 403);
    r.token = MR_SV("0123456789abcdef");
    MR_CHECK_INT(code_of(b, &r), 200);
    MR_CHECK_INT(get(b, "/api/start?token=0123456789abcdef"), 403); /* not in the address of the API */
    MR_CHECK_INT(get(b, "/"), 403);
    MR_CHECK_INT(get(b, "/?token="), 403);
    MR_CHECK_INT(get(b, "/?token=0123456789abcdeg"), 403);
    MR_CHECK_INT(get(b, "/?token=0123456789abcdef&token=1"), 403);
    MR_CHECK_INT(get(b, "/?token=0123456789abcdef"), 200);
    MR_CHECK_INT(get(b, "/index.html?a=b&token=0123456789abcdef"), 200);
    MR_CHECK_INT(get(b, "/board.js"), 200); /* no secret */
    MR_CHECK_INT(get(b, "/nothing"), 403);
    mr_board_free(b);
}

MR_TEST(board_admits_tells_how_long_a_body_may_be)
{
    mr_board *b = make_board((mr_board_options){.limits.upload_bytes = 12345678});
    mr_board_reply reply = {0};
    size_t most;
    mr_board_request r = make_request("POST", "/api/simulate", (mr_sv){0});
    MR_CHECK(mr_board_admits(b, &r, &most, &reply));
    MR_CHECK_INT(most, MR_SIM_MAX_PLAN_BYTES);
    r = make_request("POST", "/api/files?name=a.pb", (mr_sv){0});
    MR_CHECK(mr_board_admits(b, &r, &most, &reply));
    MR_CHECK_INT(most, 12345678);
    r = make_request("GET", "/", (mr_sv){0});
    MR_CHECK(mr_board_admits(b, &r, &most, &reply));
    MR_CHECK_INT(most, 0);
    r.host = MR_SV("evil.example");
    MR_CHECK(!mr_board_admits(b, &r, &most, &reply));
    MR_CHECK_INT(reply.code, 403);
    mr_board_reply_deinit(&reply);
    mr_board_free(b);
}

/* ---- the API ---- */

MR_TEST(board_start_describes_it)
{
    mr_board *b = make_board((mr_board_options){0});
    char *path = example("measured.json"), *text;
    MR_CHECK_OK(mr_board_add(b, path));
    text = ask(b, "GET", "/api/start", MR_SV(""), 200);
    check_has(text, "\"version\": \"1.2.3\"");
    check_has(text, "\"name\": \"lenet\"");
    check_has(text, "{\"id\": \"f1\", \"name\": \"graph.pbtxt\"}");
    check_has(text, "{\"id\": \"f3\", \"name\": \"measured.json\", \"plan\": {");
    check_has(text, "\"graph\": {\"file\": \"f1\", \"feeds\"");
    check_has(text, "\"costs\": \"f2\"");
    MR_CHECK(!strstr(text, "costs.txt"));
    mr_free(text);
    mr_free(path);
    mr_board_free(b);
}

MR_TEST(board_simulates_as_the_command_does)
{
    static const char *const files[] = {"lenet.json", "inception-2.json", "backup.json", "crash.json"};
    mr_board *b = make_board((mr_board_options){0});
    for (int i = 0; i < MR_COUNT(files); i++) {
        char *path = example(files[i]);
        mr_str plan = {0};
        MR_CHECK_OK(mr_file_read_all(path, &plan));
        post_simulated(b, mr_str_view(&plan), simulated_file(path));
        mr_free(path);
        mr_str_deinit(&plan);
    }
    mr_board_free(b);
}

MR_TEST(board_explains_and_sweeps)
{
    mr_board *b = make_board((mr_board_options){0});
    post(b, "/api/explain?node=conv1%2FConv2D", LENET, 200, "\"reasons\": [");
    post(b, "/api/explain", LENET, 400, "the parameter node is missing");
    post(b, "/api/explain?node=", LENET, 400, "the parameter node is missing");
    post(b, "/api/explain?node=%zz", LENET, 400, "malformed");
    post(b, "/api/explain?node=a%00b", LENET, 400, "malformed");
    post(b, "/api/explain?node=a&node=b", LENET, 400, "given twice");
    post(b, "/api/explain?node=nothing_of_that_name", LENET, 400, "nothing_of_that_name");
    post(b, "/api/sweep?what=device:gpu0.speedup&from=1&to=4", LENET, 200, "\"points\": [");
    post(b, "/api/sweep?what=device%3Agpu0.speedup&from=1&to=4", LENET, 200, "\"points\": [");
    post(b, "/api/sweep?what=device:gpu0.speedup&from=1", LENET, 400, "the parameter to is missing");
    post(b, "/api/sweep?what=device:gpu0.speedup&from=x&to=4", LENET, 400, "INVALID_ARGUMENT");
    post(b, "/api/sweep?what=device:gpu9.speedup&from=1&to=4", LENET, 400, "unknown device");
    mr_board_free(b);
}

MR_TEST(board_reports_errors_of_plans)
{
    mr_board *b = make_board((mr_board_options){0});
    post(b, "/api/simulate", "", 400,
         "{\"error\": {\"code\": \"INVALID_ARGUMENT\", \"message\": \"plan: bad JSON at byte 0");
    post(b, "/api/simulate", "{\"graph\": {\"model\": \"lenet\"}, \"devices\": [{\"speed\": 1}]}", 400,
         "plan: devices[0].speed");
    mr_str large = {0};
    mr_str_appendz(&large, "{\"title\": \"");
    while (large.n <= MR_SIM_MAX_PLAN_BYTES)
        mr_str_appendz(&large, "0123456789012345678901234567890123456789012345678901234567890123456789");
    mr_str_appendz(&large, "\"}");
    post(b, "/api/simulate", mr_str_z(&large), 413, "too long");
    mr_str_deinit(&large);
    mr_board_free(b);
}

MR_TEST(board_opens_only_its_own_files)
{
    static const char *const bad[] = {"/etc/passwd",
                                      "../examples/sim/graph.pbtxt",
                                      "file:///etc/passwd",
                                      "f2",
                                      "F1",
                                      "f1/",
                                      "f1/../f1",
                                      "./f1",
                                      "f01",
                                      "f1.pb",
                                      "",
                                      "u1",
                                      "graph.pbtxt",
                                      "f1 ",
                                      "f1\\u0020",
                                      "f3"};
    mr_board *b = make_board((mr_board_options){0});
    char *path = example("measured.json");
    MR_CHECK_OK(mr_board_add(b, path)); /* f1: a graph, f2: costs, f3: the plan */
    for (int i = 0; i < MR_COUNT(bad); i++) {
        char *plan = mr_printf("{\"graph\": {\"file\": \"%s\", \"fetches\": [\"sum\"]}}", bad[i]);
        post(b, "/api/simulate", plan, 400, "is not the id of a file of this board");
        post(b, "/api/explain?node=sum", plan, 400, "is not the id of a file of this board");
        post(b, "/api/sweep?what=graph.batch&from=1&to=2", plan, 400, "is not the id of a file of this board");
        mr_free(plan);
    }
    post(b, "/api/simulate", "{\"graph\": {\"file\": \"f1\", \"feeds\": [\"x\"], \"fetches\": [\"sum\"]}}", 200,
         "\"step_s\"");
    post(b, "/api/simulate",
         "{\"graph\": {\"file\": \"f1\", \"feeds\": [\"x\"], \"fetches\": [\"sum\"]}, \"costs\": \"f2\"}", 200,
         "\"step_s\"");
    post(b, "/api/simulate", "{\"graph\": {\"model\": \"mlp\"}, \"costs\": \"/etc/passwd\"}", 400,
         "costs: '/etc/passwd' is not the id");
    post(b, "/api/simulate", "{\"graph\": {\"model\": \"mlp\"}, \"costs\": \"f1\"}", 400, "costs: 'f1' is not the id");
    post(b, "/api/simulate", "{\"graph\": {\"file\": \"f1\", \"fetches\": [\"nothing\"]}}", 400,
         "\"graph.pbtxt: there is no 'nothing'\"");
    mr_free(path);
    mr_board_free(b);
}

/* ---- files of the command line ---- */

MR_TEST(board_simulates_a_given_plan_with_relative_files)
{
    mr_board *b = make_board((mr_board_options){0});
    char *path = example("measured.json");
    MR_CHECK_OK(mr_board_add(b, path));
    char *start = ask(b, "GET", "/api/start", MR_SV(""), 200), *plan = strstr(start, "\"plan\": ") + 8;
    *strrchr(plan, ']') = 0; /* the end of the list of files */
    *strrchr(plan, '}') = 0;
    post_simulated(b, mr_sv_of(plan), simulated_file(path));
    mr_free(start);
    mr_free(path);
    mr_board_free(b);
}

MR_TEST(board_takes_only_files_that_it_can_simulate)
{
    mr_board *b = make_board((mr_board_options){0});
    char *folder = make_folder("empty"), *text = mr_printf("%s/a.txt", mr_test_dir()),
         *plan = mr_printf("%s/a.json", mr_test_dir());
    MR_CHECK_OK(mr_file_write_all(text, MR_SV("x")));
    MR_CHECK_OK(mr_file_write_all(plan, MR_SV("{\"graph\": {\"file\": \"gone.pb\"}}")));
    MR_CHECK_ERR(mr_board_add(b, folder), MR_INVALID_ARGUMENT, "not a SavedModel");
    MR_CHECK_ERR(mr_board_add(b, text), MR_INVALID_ARGUMENT, "expected a plan");
    MR_CHECK_ERR(mr_board_add(b, "nothing.pb"), MR_NOT_FOUND, "nothing.pb");
    MR_CHECK_ERR(mr_board_add(b, "/dev/null"), MR_INVALID_ARGUMENT, "expected a file");
    MR_CHECK_ERR(mr_board_add(b, plan), MR_NOT_FOUND, "gone.pb");
    MR_CHECK_OK(mr_file_write_all(plan, MR_SV("{\"graph\": {}}")));
    MR_CHECK_ERR(mr_board_add(b, plan), MR_INVALID_ARGUMENT, "model or file is missing");
    mr_free(folder);
    mr_free(text);
    mr_free(plan);
    mr_board_free(b);
}

#define FETCH(id) "{\"graph\": {\"file\": \"" id "\", \"feeds\": [\"x\"], \"fetches\": [\"sum\"]}}"

/* A link is followed once, when the board starts: who may change it later cannot choose another file. */
MR_TEST(board_follows_a_link_once)
{
    char *folder = make_folder("uploads"), *graph = example("graph.pbtxt"), *target = realpath(graph, NULL);
    char *same = mr_printf("%s/same.pbtxt", mr_test_dir()), *blob = mr_printf("%s/blob", mr_test_dir()),
         *other = mr_printf("%s/other.pbtxt", mr_test_dir());
    mr_str bytes = {0};
    mr_board *b = make_board((mr_board_options){.folder = folder});
    MR_CHECK_INT(symlink(target, same), 0);
    MR_CHECK_OK(mr_file_read_all(graph, &bytes));
    MR_CHECK_OK(mr_file_write_all(blob, mr_str_view(&bytes)));
    MR_CHECK_INT(symlink(blob, other), 0); /* the target has another ending */
    MR_CHECK_OK(mr_board_add(b, same));
    MR_CHECK_OK(mr_board_add(b, other));
    MR_CHECK_OK(mr_board_add(b, graph)); /* the same file as f1 */
    for (int i = 0; i < 2; i++) {
        MR_CHECK_INT(unlink(i ? same : other), 0);
        MR_CHECK_INT(symlink("/etc/passwd", i ? same : other), 0);
    }
    post(b, "/api/simulate", FETCH("f1"), 200, "\"step_s\"");
    post(b, "/api/simulate", FETCH("f2"), 200, "\"step_s\"");
    post(b, "/api/simulate", FETCH("f3"), 400, "is not the id");
    mr_board_free(b);
    MR_CHECK_INT(count_files(folder), 0);
    mr_str_deinit(&bytes);
    free(target);
    mr_free(graph);
    mr_free(folder);
    mr_free(same);
    mr_free(blob);
    mr_free(other);
}

MR_TEST(board_takes_a_saved_model_by_its_folder_or_file)
{
    mr_board *b = make_board((mr_board_options){0});
    char *folder = mr_printf("%s/saved_model/half_plus_two/00000001/", mr_test_golden()),
         *file = mr_printf("%ssaved_model.pb", folder);
    MR_CHECK_OK(mr_board_add(b, folder));
    MR_CHECK_OK(mr_board_add(b, file));
    char *text = ask(b, "GET", "/api/start", MR_SV(""), 200);
    check_has(text, "\"files\": [{\"id\": \"f1\", \"name\": \"00000001\"}]");
    post(b, "/api/simulate", "{\"graph\": {\"file\": \"f1\"}}", 200, "\"step_s\"");
    mr_free(text);
    mr_free(folder);
    mr_free(file);
    mr_board_free(b);
}

/* ---- uploads ---- */

/* Uploads the SavedModel and simulates it, as the command does with the folder. */
static void upload_saved_model(const char *model)
{
    char *folder = make_folder("uploads"), *path = mr_printf("%s/saved_model.pb", model), *text;
    char *plan = mr_printf("{\"graph\": {\"file\": \"%s\"}}", model);
    mr_str bytes = {0};
    mr_sim_plan p;
    mr_board *b = make_board((mr_board_options){.folder = folder});
    MR_CHECK_OK(mr_file_read_all(path, &bytes));
    text = ask(b, "POST", "/api/files?name=saved_model.pb", mr_str_view(&bytes), 200);
    MR_CHECK_STR(text, "{\"id\": \"u1\", \"name\": \"saved_model.pb\"}\n");
    mr_free(text);
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(plan), "plan", &p));
    post_simulated(b, MR_SV("{\"graph\": {\"file\": \"u1\"}}"), simulated(&p));
    MR_CHECK_INT(count_files(folder), 1);
    mr_board_free(b);
    MR_CHECK_INT(count_files(folder), 0);
    MR_CHECK_INT(rmdir(folder), 0); /* no folder is left in it */
    mr_str_deinit(&bytes);
    mr_free(folder);
    mr_free(path);
    mr_free(plan);
}

MR_TEST(board_simulates_an_uploaded_saved_model)
{
    char *model = mr_printf("%s/saved_model/half_plus_two/00000001", mr_test_golden());
    upload_saved_model(model);
    mr_free(model);
}

MR_TEST(board_simulates_an_uploaded_saved_model_of_tensorflow)
{
    char *model = mr_printf("%s/saved_model/VarsAndArithmeticObjectGraph", mr_test_tensorflow_golden());
    upload_saved_model(model);
    mr_free(model);
}

MR_TEST(board_never_uses_the_name_of_an_upload_as_a_path)
{
    static const struct {
        const char *sent, *shown;
    } names[] = {
        {"..%2f..%2fescaped.pb", "escaped.pb"},
        {"%2Fetc%2Fpasswd.pb", "passwd.pb"},
        {"..%5C..%5Cescaped.pb", "escaped.pb"},
        {"....pb", "....pb"},
        {".pb", ".pb"},
        {"a%0ab%7f.pb", "a_b_.pb"},
        {"%ff%fe.pb", "__.pb"},
        {"caf%C3%A9.PB", "caf\xc3\xa9.PB"},
        {"a+b.meta", "a b.meta"},
        {"..%2Fsaved_model.pb", "saved_model.pb"},
        {"%22%3Cscript%3E.pbtxt", "\\\"<script>.pbtxt"},
    };
    char *folder = make_folder("inner/uploads"), *outer = mr_printf("%s/inner", mr_test_dir());
    mr_board *b = make_board((mr_board_options){.folder = folder});
    for (int i = 0; i < MR_COUNT(names); i++) {
        char *target = mr_printf("/api/files?name=%s", names[i].sent),
             *wanted = mr_printf("{\"id\": \"u%d\", \"name\": \"%s\"}\n", i + 1, names[i].shown);
        char *text = ask(b, "POST", target, MR_SV("x"), 200);
        MR_CHECK_STR(text, wanted);
        mr_free(text);
        mr_free(target);
        mr_free(wanted);
    }
    MR_CHECK_INT(count_files(folder), MR_COUNT(names));
    MR_CHECK_INT(count_files(outer), MR_COUNT(names));
    post(b, "/api/files?name=a.exe", "x", 400, "a.exe: expected a plan (.json)");
    post(b, "/api/files?name=..", "x", 400, "expected a plan");
    post(b, "/api/files?name=a.pb%00", "x", 400, "malformed");
    post(b, "/api/files?name=", "x", 400, "the parameter name is missing");
    post(b, "/api/files", "x", 400, "the parameter name is missing");
    mr_board_free(b);
    MR_CHECK_INT(count_files(outer), 0);
    mr_free(folder);
    mr_free(outer);
}

MR_TEST(board_keeps_a_bounded_number_of_uploads)
{
    char *folder = make_folder("uploads");
    mr_board *b = make_board(
        (mr_board_options){.folder = folder, .limits = {.uploads = 3, .upload_bytes = 10, .total_bytes = 24}});
    for (int i = 0; i < 5; i++)
        post(b, "/api/files?name=a.pb", "x", 200, "\"id\"");
    MR_CHECK_INT(count_files(folder), 3);
    char *text = ask(b, "GET", "/api/start", MR_SV(""), 200);
    check_has(text, "\"files\": [{\"id\": \"u3\", \"name\": \"a.pb\"}, {\"id\": \"u4\"");
    mr_free(text);
    post(b, "/api/simulate", "{\"graph\": {\"file\": \"u2\"}}", 400, "'u2' is not the id");
    post(b, "/api/files?name=a.pb", "01234567890", 413, "too long");
    for (int i = 0; i < 3; i++) /* 3 x 10 bytes are more than 24 */
        post(b, "/api/files?name=saved_model.pb", "0123456789", 200, "\"id\"");
    MR_CHECK_INT(count_files(folder), 2);
    mr_board_free(b);
    mr_free(folder);
}

MR_TEST(board_takes_plans_whose_graph_it_has)
{
    char *folder = make_folder("uploads"), *graph = example("graph.pbtxt"), *path = example("graph-file.json");
    mr_str plan = {0}, bytes = {0};
    mr_board *b = make_board((mr_board_options){.folder = folder});
    MR_CHECK_OK(mr_file_read_all(path, &plan));
    MR_CHECK_OK(mr_file_read_all(graph, &bytes));
    post(b, "/api/files?name=p.json", mr_str_z(&plan), 400, "drop that file first");
    post(b, "/api/files?name=p.json", "{\"graph\": {\"model\": \"mlp\"}, \"costs\": \"costs.txt\"}", 400,
         "the plan names the file of costs");
    post(b, "/api/files?name=p.json", "{\"graph\": {}}", 400, "p.json: graph");
    post(b, "/api/files?name=p.json", "{\"graph\": {\"model\": \"mlp\"}}", 200,
         ", \"name\": \"p.json\", \"plan\": {\"graph\": {\"model\": \"mlp\"}}}\n");
    post(b, "/api/files?name=graph.pbtxt", mr_str_z(&bytes), 200, "\"name\": \"graph.pbtxt\"");
    post(b, "/api/files?name=p.json", mr_str_z(&plan), 200, "\"graph\": {\"file\": \"u");
    MR_CHECK_INT(count_files(folder), 1); /* plans are kept in memory */
    mr_board_free(b);
    mr_str_deinit(&plan);
    mr_str_deinit(&bytes);
    mr_free(graph);
    mr_free(path);
    mr_free(folder);
}

MR_TEST(board_without_a_folder_takes_no_uploads)
{
    mr_board *b = make_board((mr_board_options){0});
    post(b, "/api/files?name=a.pb", "x", 400, "takes no files");
    mr_board_free(b);
}

/* ---- cancellation ---- */

MR_TEST(board_ends_a_cancelled_request)
{
    static const char *const targets[] = {"/api/simulate", "/api/explain?node=conv1",
                                          "/api/sweep?what=graph.batch&from=1&to=64"};
    mr_cancel_flag cancelled = true;
    mr_board *b = make_board((mr_board_options){0});
    for (int i = 0; i < MR_COUNT(targets); i++) {
        mr_board_request r = make_request("POST", targets[i], MR_SV(LENET));
        r.cancelled = &cancelled;
        MR_CHECK_INT(code_of(b, &r), 503);
    }
    mr_board_free(b);
}

/* ---- threads ---- */

static void ask_often(void *arg)
{
    mr_board *b = arg;
    for (int i = 0; i < 6; i++) {
        post(b, "/api/simulate", LENET, 200, "\"step_s\"");
        post(b, "/api/files?name=saved_model.pb", "x", 200, "\"id\"");
        post(b, "/api/explain?node=conv1", LENET, 200, "\"reasons\"");
        MR_CHECK_INT(get(b, "/api/start"), 200);
    }
}

MR_TEST(board_answers_several_threads)
{
    mr_test_deadline(120);
    mr_thread t[4];
    char *folder = make_folder("uploads");
    mr_board *b = make_board((mr_board_options){.folder = folder, .limits = {.running = 2, .uploads = 3}});
    for (int i = 0; i < MR_COUNT(t); i++)
        MR_CHECK_INT(mr_thread_start(&t[i], "ask", ask_often, b), 0);
    for (int i = 0; i < MR_COUNT(t); i++)
        mr_thread_join(&t[i]);
    MR_CHECK_INT(count_files(folder), 3);
    mr_board_free(b);
    mr_free(folder);
}

typedef struct long_request {
    mr_board *b;
    mr_cancel_flag cancelled;
    _Atomic int code;
} long_request;

#define LONG_PLAN                                                                                                      \
    "{\"graph\": {\"model\": \"inception\", \"blocks\": 20}, \"visits\": 20000000, \"devices\": [{}, {}, {}, {}, {}, " \
    "{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]}"

static void ask_long(void *arg)
{
    long_request *a = arg;
    mr_board_request r = make_request("POST", "/api/simulate", MR_SV(LONG_PLAN));
    r.cancelled = &a->cancelled;
    a->code = code_of(a->b, &r);
}

/* Only one simulation may run. The second request leaves while it waits for the first one, which goes on. */
MR_TEST(board_a_request_that_waits_can_be_cancelled)
{
    mr_test_deadline(20); /* shorter than the simulation */
    mr_thread t[2];
    mr_board *b = make_board((mr_board_options){.limits.running = 1});
    long_request a[2] = {{.b = b}, {.b = b}};
    for (int i = 0; i < 2; i++)
        MR_CHECK_INT(mr_thread_start(&t[i], "ask", ask_long, &a[i]), 0);
    a[1].cancelled = true;
    mr_thread_join(&t[1]);
    MR_CHECK_INT(a[1].code, 503);
    MR_CHECK_INT(a[0].code, 0);
    a[0].cancelled = true;
    mr_thread_join(&t[0]);
    MR_CHECK_INT(a[0].code, 503);
    mr_board_free(b);
}
