/* board/listen.h -- the sockets that the board listens at. */
#ifndef MR_BOARD_LISTEN_H
#define MR_BOARD_LISTEN_H

#include "base/status.h"

enum { MR_BOARD_MAX_SOCKETS = 8 };

typedef struct mr_board_sockets {
    int fds[MR_BOARD_MAX_SOCKETS];
    int n;
    int port; /* the same for all */
} mr_board_sockets;

/* Listens at all addresses of the host, or at the loopback addresses of IPv4 and IPv6 if it is NULL. If the port is
 * taken, the next `more` ports are tried; port 0 takes any free one. */
mr_status *mr_board_listen(const char *host, int port, int more, mr_board_sockets *out);
void mr_board_sockets_close(mr_board_sockets *s);

#endif
