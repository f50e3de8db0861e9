/* board/board.h -- the server of `millrace board`, without any HTTP library.
 *
 * mr_board_handle takes a request and fills in a reply. It opens no socket, so tests and fuzzers call it directly. The
 * plug-in in http/ moves requests and replies between it and libmicrohttpd.
 *
 * All functions except new, free and add may be called from several threads at once. */
#ifndef MR_BOARD_BOARD_H
#define MR_BOARD_BOARD_H

#include "base/cancel_flag.h"
#include "base/str.h"

typedef struct mr_board mr_board;

/* A file of the page, embedded in the plug-in. */
typedef struct mr_board_asset {
    const char *name; /* "index.html" */
    const void *p;
    size_t n;
} mr_board_asset;

typedef struct mr_board_limits { /* 0: the default */
    int running;                 /* simulations at a time; others wait. Default: one per core, at most 4 */
    int uploads;                 /* files kept; the oldest is removed. Default 64 */
    size_t upload_bytes;         /* of one file. Default 256 MB */
    size_t total_bytes;          /* of all uploaded files. Default 1 GB */
} mr_board_limits;

typedef struct mr_board_options { /* all are copied, except the contents of assets */
    const char *version;
    int port;           /* that the page is served at */
    const char *host;   /* the address or host name that others use; NULL: loopback */
    const char *token;  /* that requests must have; NULL: none */
    const char *folder; /* private, exists and is empty; NULL: no uploads */
    const mr_board_asset *assets;
    int n_assets;
    mr_board_limits limits;
} mr_board_options;

/* The parts of a request that matter. A header that was not sent has p NULL. */
typedef struct mr_board_request {
    mr_sv method, target; /* as sent: "POST", "/api/explain?node=a%2Fb" */
    mr_sv host, origin, fetch_site, fetch_mode, fetch_dest, token, content_type, if_none_match;
    mr_sv body;
    const mr_cancel_flag *cancelled; /* nobody waits for the reply any more; NULL: somebody does */
} mr_board_request;

enum { MR_BOARD_MAX_HEADERS = 12 };

typedef struct mr_board_header {
    const char *name, *value; /* value: a constant, or in a buffer of the reply or of the board */
} mr_board_header;

typedef struct mr_board_reply {
    int code;   /* 200, 404 .. */
    mr_sv body; /* in `text`, or an asset of the board */
    mr_str text;
    mr_board_header headers[MR_BOARD_MAX_HEADERS];
    int n_headers;
} mr_board_reply;

mr_status *mr_board_new(const mr_board_options *o, mr_board **out);
/* Removes the uploaded files, but not the folder. No request may be running. NULL is allowed. */
void mr_board_free(mr_board *b);

/* Offers a plan, a graph or a SavedModel to the page; links are resolved here, once. A graph that a plan names is
 * offered too. */
mr_status *mr_board_add(mr_board *b, const char *path);

/* Everything that can be checked before the body is read: who asks, for what, in which form. If the request is refused,
 * returns false and fills in the reply; otherwise *most_bytes is how long the body may be. */
bool mr_board_admits(mr_board *b, const mr_board_request *r, size_t *most_bytes, mr_board_reply *out);
/* Answers a request; checks all that mr_board_admits checks, too. May take seconds, and waits while as many simulations
 * run as may run at a time. If the request is cancelled meanwhile, it ends soon, with the code CANCELLED. */
void mr_board_handle(mr_board *b, const mr_board_request *r, mr_board_reply *out);
/* A reply to a request that is refused without mr_board_handle; `out` is empty. */
void mr_board_refuse(int code, mr_code status, const char *message, mr_board_reply *out);
void mr_board_reply_deinit(mr_board_reply *r);

#endif
