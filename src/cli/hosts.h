/* cli/hosts.h -- machines that tasks can run on, from a list, a file, or a scheduler's shorthand.
 *
 * A host has as many places as it takes tasks: "a,b:2" has three.  "user@b" is reached as that user; IPv6 addresses stand
 * in brackets. */
#ifndef MR_CLI_HOSTS_H
#define MR_CLI_HOSTS_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_hosts {
    MR_VEC(char *) places; /* the host of each, in order; a host of two places stands here twice */
} mr_hosts;

void mr_hosts_deinit(mr_hosts *h);
/* INVALID_ARGUMENT for what is no host. */
mr_status *mr_hosts_add(mr_hosts *h, mr_sv host, int64_t places);
/* "a,b:2,user@c,[fe80::1]:4" */
mr_status *mr_hosts_add_list(mr_hosts *h, mr_sv list);
/* One host per line: "a", "b:2", "b slots=2"; # begins a comment. */
mr_status *mr_hosts_add_file(mr_hosts *h, const char *path);
/* Slurm's lists: "n[1-3,07],m5" and how many tasks each node has, "2(x3),1"; counts NULL: one each. */
mr_status *mr_hosts_add_slurm(mr_hosts *h, mr_sv nodes, const char *counts);

/* What others call it: without the user. */
const char *mr_host_address(const char *host);
/* localhost, 127.x or ::1: it means another machine to everybody who reads it. */
bool mr_host_is_loopback(const char *host);
/* Reached without ssh: localhost, or this machine by its name. */
bool mr_host_is_here(const char *host);

#endif
