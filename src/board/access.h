/* board/access.h -- who may use the board.
 *
 * A page of another origin must not use the board through the browser of its user:
 *
 *   Host      must name this server. A hostile host name that resolves to 127.0.0.1 (DNS rebinding) is refused here,
 *             because the browser sends the name.
 *   Origin, Sec-Fetch-Site   of another origin are refused.
 *
 * Other people on the network must not use it either: by default it listens at loopback only, and with a host given,
 * the page and the API need a token. */
#ifndef MR_BOARD_ACCESS_H
#define MR_BOARD_ACCESS_H

#include "base/vec.h"
#include "board/board.h"

typedef struct mr_board_access {
    MR_VEC(char *) hosts; /* accepted values of Host */
    bool any_address;     /* also any literal address with this port: the server listens at all */
    int port;
    char *token; /* NULL: none needed */
} mr_board_access;

void mr_board_access_init(mr_board_access *a, const char *host, int port, const char *token);
void mr_board_access_deinit(mr_board_access *a);

bool mr_board_access_host(const mr_board_access *a, mr_sv host);
/* Whether a page of another origin made the request. Following a link to the page from elsewhere is allowed. */
bool mr_board_access_foreign(const mr_board_request *r, bool for_page);
/* Takes the same time wherever the difference is. */
bool mr_board_access_token(const mr_board_access *a, mr_sv token);

#endif
