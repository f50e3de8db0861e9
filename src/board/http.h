/* board/http.h -- the interface between libmillrace-board.so and the rest of the library.
 *
 * Only that library uses libmicrohttpd, and it contains the files of the page. `millrace board` opens it
 * (http_library.c). It gets listening sockets and the functions of board.h, moves requests and replies between them,
 * and decides nothing itself except how long a connection may take.
 *
 * Both sides are from the same build; each has its own copy of the few files of base/ that it needs. */
#ifndef MR_BOARD_HTTP_H
#define MR_BOARD_HTTP_H

#include "board/board.h"

#define MR_BOARD_HTTP_ABI 2

typedef struct mr_board_deadlines { /* 0: the default */
    int64_t wait_ns;                /* until a request line is complete. Default 60 s */
    int64_t grace_ns;               /* for the rest of a request, or for a reply. Default 30 s; longer ones get more */
    int64_t bytes_per_s;            /* .. because so many bytes may take a second. Default 32768 */
    int64_t look_ns;                /* how often connections are looked at. Default 1 s; not on the clock below */
    int64_t (*now_ns)(void);        /* a clock for tests. Default mr_now_ns */
} mr_board_deadlines;

typedef struct mr_board_http_options {
    mr_board *board;
    bool (*admits)(mr_board *b, const mr_board_request *r, size_t *most_bytes, mr_board_reply *out);
    void (*handle)(mr_board *b, const mr_board_request *r, mr_board_reply *out);
    void (*refuse)(int code, mr_code status, const char *message, mr_board_reply *out);
    void (*reply_deinit)(mr_board_reply *r);
    const int *sockets; /* listening; they are closed when the server stops, or could not start */
    int n_sockets;
    mr_board_deadlines deadlines;
} mr_board_http_options;

typedef struct mr_board_http_server mr_board_http_server;

typedef struct mr_board_http {
    int abi;
    const mr_board_asset *assets; /* the files of the page; none if it was not built */
    int n_assets;
    mr_status *(*start)(const mr_board_http_options *o, mr_board_http_server **out);
    void (*stop)(mr_board_http_server *s); /* cancels the simulations that run; NULL is allowed */
} mr_board_http;

/* UNIMPLEMENTED, with what is missing, if the library cannot be loaded. */
mr_status *mr_board_http_library(const mr_board_http **out);

/* The only symbol; NULL if it is from another build. */
#define MR_BOARD_HTTP_SYMBOL "mr_board_http_get"
typedef const mr_board_http *(*mr_board_http_fn)(int abi);

#endif
