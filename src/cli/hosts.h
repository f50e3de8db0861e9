/* cli/hosts.h -- the hosts that tasks can run on, from a list, a file, or the notation of a scheduler.
 *
 * A host has one place for each task that it takes: "a,b:2" has three places. "user@b" is reached as that user. IPv6
 * addresses are in brackets. */
#ifndef MR_CLI_HOSTS_H
#define MR_CLI_HOSTS_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_hosts {
    MR_VEC(char *) places; /* the host of each place, in order; a host with two places is listed twice */
} mr_hosts;

void mr_hosts_deinit(mr_hosts *h);
/* INVALID_ARGUMENT if it is not a valid host name, or the number of places is out of range. */
mr_status *mr_hosts_add(mr_hosts *h, mr_sv host, int64_t places);
/* "a,b:2,user@c,[fe80::1]:4" */
mr_status *mr_hosts_add_list(mr_hosts *h, mr_sv list);
/* One host per line: "a", "b:2", "b slots=2"; # begins a comment. */
mr_status *mr_hosts_add_file(mr_hosts *h, const char *path);
/* Slurm's lists: nodes "n[1-3,07],m5" and the number of tasks of each node "2(x3),1". counts NULL: one task each. */
mr_status *mr_hosts_add_slurm(mr_hosts *h, mr_sv nodes, const char *counts);

/* The host without the user. */
const char *mr_host_address(const char *host);
/* Whether it is localhost, 127.x or ::1, which mean a different machine on each host. */
bool mr_host_is_loopback(const char *host);
/* Whether no ssh is needed: localhost, 127.0.0.1 or the name of this machine. */
bool mr_host_is_here(const char *host);

#endif
