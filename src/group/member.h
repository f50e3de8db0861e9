/* group/member.h -- the fields of mr_group, for the files of this folder. */
#ifndef MR_GROUP_MEMBER_H
#define MR_GROUP_MEMBER_H

#include "base/thread.h"
#include "group/group.h"
#include "group/meeting.h"
#include "group/shared.h"
#include "net/keys.h"

/* A lane is a separate transport. The caller's operations and those of the fusion thread are not ordered relative to
 * each other, so each has a lane. */
enum { MR_LANE_CALLER, MR_LANE_FUSION, MR_LANES };

typedef struct mr_fusion mr_fusion;

struct mr_group {
    mr_group_config c; /* its texts are the copies below */
    char *name, *folder, **addresses;
    mr_net_keys_file keys;
    mr_meeting *meeting; /* NULL: MPI */
    mr_shared *shared;   /* shared buffers; NULL: not on one host */
    mr_post_route *routes;   /* over gRPC: connections of the generation, by rank */
    int n_routes;

    mr_mutex turn; /* one operation at a time; taken before mu */
    mr_mutex mu;
    mr_transport *lanes[MR_LANES] MR_GUARDED_BY(mu);
    mr_status *ended MR_GUARDED_BY(mu); /* why the generation ended; NULL: it has not */
    _Atomic bool over;                  /* true when ended is set; readable without mu */
    int rank MR_GUARDED_BY(mu), size MR_GUARDED_BY(mu);
    int64_t number MR_GUARDED_BY(mu);

    bool forming MR_GUARDED_BY(mu);      /* lanes are being replaced: fusion is paused */
    mr_fusion *fusion MR_GUARDED_BY(mu); /* created by the first mr_group_begin */
};

/* Marks the generation unusable because the members may no longer run the same operations; mr_group_form makes a new
 * one. */
void mr_group_spoil(mr_group *g, const mr_status *why);
/* Runs an operation on a lane. When the generation has ended, returns the reason for that rather than the transport's
 * error. */
mr_status *mr_group_run_lane(mr_group *g, int lane, const mr_group_work *w, int64_t deadline_ns);

/* fusion.c: pause before the lanes are freed (all requests end with a copy of why), resume when there are new ones. */
void mr_fusion_pause(mr_fusion *f, const mr_status *why);
void mr_fusion_resume(mr_fusion *f);
void mr_fusion_free(mr_fusion *f);

#endif
