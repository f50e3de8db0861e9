/* net/raw_peer_fixture.h -- an end of the local transport made by hand, for tests of peers that are not
 * ours. */
#ifndef MR_NET_RAW_PEER_FIXTURE_H
#define MR_NET_RAW_PEER_FIXTURE_H

#include "net/frame.h"
#include "net/transport_fixture.h"

int dial(const char *path);
int shake_hands(const char *path); /* dials, and is let in */
int listen_by_hand(const char *path);
int accept_by_hand(int listener); /* with the handshake */

void read_all(int fd, void *out, size_t n);
void write_all(int fd, const void *p, size_t n);
void write_frame(int fd, mr_frame_head h, const char *text, const void *body);
/* The other side hangs up; whatever it said before does not matter. */
void check_closed(int fd);
/* The server goes on for everybody else. */
void check_works(trial *t);

#endif
