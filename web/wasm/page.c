/* web/wasm/page.c -- the board inside the page.
 *
 * This is the same board as in `millrace board` (board/board.h); only the way of a request is another one. Files that
 * are opened in the page are kept in the file system of the module, which is in memory. There is one thread, so there
 * is one request at a time. */
#include "page.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "board/board.h"
#include "millrace/millrace.h"
#include "ops/table.h"

#define FOLDER "/files"
#define PORT 8600 /* nothing listens; requests only have to name the same port */
#define HOST MR_SV("localhost:8600")

static mr_board *board;
static mr_board_reply reply; /* to the newest request */

static bool start_board(void)
{
    mr_ops_register();
    mkdir(FOLDER, 0700);
    mr_status *st = mr_board_new(&(mr_board_options){.version = mr_version(), .port = PORT, .folder = FOLDER}, &board);
    mr_status_free(st);
    return !st;
}

void *page_buffer(size_t n) { return malloc(n + 1); }

int page_ask(const char *method, const char *target, const char *type, void *body, size_t n)
{
    if (!board && !start_board())
        return 0;
    mr_board_request r = {.method = mr_sv_of(method),
                          .target = mr_sv_of(target),
                          .host = HOST,
                          .content_type = mr_sv_of(type),
                          .body = {body, n}};
    mr_board_reply_deinit(&reply);
    mr_board_handle(board, &r, &reply);
    free(body);
    return reply.code;
}

const char *page_reply(void) { return reply.body.p; }
size_t page_reply_bytes(void) { return reply.body.n; }
