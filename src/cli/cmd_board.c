/* cli/cmd_board.c -- `millrace board`: serves a page in which people simulate a cluster. */
#include <errno.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"
#include "board/http.h"
#include "board/listen.h"
#include "cli/command.h"
#include "cli/ending.h"
#include "cli/warden.h"
#include "millrace/millrace.h"

enum { USUAL_PORT = 8600, MORE_PORTS = 99, STOP_MS = 900, TOKEN_BYTES = 32 };

static int64_t port = MR_NOT_GIVEN;
static const char *host;

static const mr_option options[] = {
    {"port", MR_OPT_INT, &port, "N", "listen at this port; 0 takes any free one (default: 8600, or the next free one)"},
    {"host", MR_OPT_STRING, &host, "ADDRESS",
     "listen at this address instead of loopback, so that others can use the page; 0.0.0.0 is all addresses. The "
     "printed address "
     "then has a token, without which nothing is answered"},
    {0},
};

/* Uploaded files go to a private folder. A second process removes it when this one has ended, in any way. */
static mr_status *make_folder(char **out, mr_warden **warden)
{
    const char *base = getenv("TMPDIR");
    *out = mr_printf("%s/millrace-board-XXXXXX", base && base[0] == '/' && mr_dir_exists(base) ? base : "/tmp");
    mr_status *st = mkdtemp(*out) ? mr_warden_new(*out, warden) : mr_errno_status(errno, "make", *out);
    if (st) {
        rmdir(*out);
        mr_free(*out);
        *out = NULL;
    }
    return st;
}

static mr_status *make_token(char *out)
{
    unsigned char bytes[TOKEN_BYTES];
    MR_TRY(mr_random_secret(bytes, sizeof bytes));
    for (int i = 0; i < TOKEN_BYTES; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
    return NULL;
}

/* One line on standard output, for people and for scripts that open it. */
static void print_address(int at, const char *token)
{
    char name[256] = "localhost";
    struct in6_addr unused;
    bool all = host && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0);
    if (all)
        gethostname(name, sizeof name - 1);
    else if (host)
        snprintf(name, sizeof name, inet_pton(AF_INET6, host, &unused) == 1 ? "[%s]" : "%s", host);
    printf("http://%s:%d/%s%s\n", name, at, host ? "?token=" : "", host ? token : "");
    fflush(stdout);
    fputs("Press Ctrl+C to stop.\n", stderr);
}

static void wait_for_signal(int asked)
{
    while (poll(&(struct pollfd){asked, POLLIN, 0}, 1, -1) < 0)
        ;
}

static _Atomic bool stopped;

/* Simulations are cancelled; this is for what cannot be, such as a large file that is being read. It has no effects, so
 * nobody needs to wait for it. The warden removes the folder. */
static void exit_soon(void *unused)
{
    (void)unused;
    mr_sleep_ns((int64_t)STOP_MS * 1000000);
    if (!stopped)
        _exit(0);
}

/* Serves the board until a signal comes. */
static mr_status *serve(const mr_board_http *http, mr_board *b, const mr_board_sockets *at, const char *token,
                        int asked)
{
    mr_board_http_server *s;
    mr_board_http_options o = {b,    mr_board_admits, mr_board_handle, mr_board_refuse, mr_board_reply_deinit, at->fds,
                               at->n};
    MR_TRY(http->start(&o, &s));
    print_address(at->port, token);
    wait_for_signal(asked);
    mr_thread soon;
    if (mr_thread_start(&soon, "exit-soon", exit_soon, NULL) == 0)
        pthread_detach(soon.t);
    http->stop(s);
    stopped = true;
    return NULL;
}

static mr_status *run_board(int n_args, char **args)
{
    char token[2 * TOKEN_BYTES + 1], *folder = NULL;
    const mr_board_http *http;
    mr_board *b = NULL;
    mr_board_sockets at = {0};
    mr_warden *warden = NULL;
    int asked;
    MR_TRY(mr_board_http_library(&http));
    if (!http->n_assets)
        return mr_error(MR_FAILED_PRECONDITION,
                        "the page was not built: it needs Node.js and npm; run `make web`, then `make`");
    if (port != MR_NOT_GIVEN && (port < 0 || port > 65535))
        return mr_invalid("--port %lld is out of range: give 0 to 65535", (long long)port);
    MR_TRY(make_folder(&folder, &warden)); /* before there are other threads */
    mr_status *st = mr_ending_begin(&(mr_ending_options){.first_ms = 10 * STOP_MS}, &asked);
    if (!st && host)
        st = make_token(token);
    if (!st)
        st = port == MR_NOT_GIVEN ? mr_board_listen(host, USUAL_PORT, MORE_PORTS, &at)
                                  : mr_board_listen(host, (int)port, 0, &at);
    if (!st)
        st = mr_board_new(&(mr_board_options){.version = mr_version(),
                                              .port = at.port,
                                              .host = host,
                                              .token = host ? token : NULL,
                                              .folder = folder,
                                              .assets = http->assets,
                                              .n_assets = http->n_assets},
                          &b);
    for (int i = 0; i < n_args && !st; i++)
        st = mr_board_add(b, args[i]);
    if (st)
        mr_board_sockets_close(&at);
    else
        st = serve(http, b, &at, token, asked);
    mr_board_free(b);
    mr_warden_free(warden);
    mr_free(folder);
    return st;
}

static const char about[] = "Starts a web server on this machine and prints the address of a page. There you choose a "
                            "network and devices, move sliders, and "
                            "see placement, timeline and training as `millrace sim` predicts them. Nothing is loaded "
                            "from the internet. Ctrl-C or SIGTERM "
                            "stops it.\n\n"
                            "The files are offered on the page: plans (.json), GraphDefs (.pb, .pbtxt), MetaGraphDefs "
                            "(.meta) and SavedModel folders. More can "
                            "be dropped onto the page. Other files cannot be read through it. See docs/board.md.";

static const mr_help_item variables[] = {
    {"MILLRACE_BOARD_LIB", "path of libmillrace-board.so, if it is not beside the library"},
    {"TMPDIR", "folder for files that are dropped onto the page (default /tmp)"},
    {0},
};

static const mr_help_item examples[] = {
    {"millrace board", "Simulate the built-in networks:"},
    {"millrace board plan.json frozen.pb my_model/", "Offer a plan, a graph and a SavedModel:"},
    {"millrace board --host 0.0.0.0 --port 8080", "Let others on the network use it, who get the printed address:"},
    {0},
};

MR_COMMAND(board, .summary = "simulate a cluster in the browser", .group = MR_COMMANDS_ANALYZE,
           .usage = "[PLAN|GRAPH|SAVEDMODEL]...", .options = options, .about = about, .environment = variables,
           .examples = examples, .max_args = -1, .run = run_board);
