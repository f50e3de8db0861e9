/* group/member.h -- the insides of mr_group, for the files of this folder. */
#ifndef MR_GROUP_MEMBER_H
#define MR_GROUP_MEMBER_H

#include "base/thread.h"
#include "group/group.h"
#include "group/meeting.h"
#include "group/shared.h"
#include "net/keys.h"

/* Operations of the caller and those of the group's own thread do not know of each other: each kind has its transport. */
enum { MR_LANE_CALLER, MR_LANE_FUSION, MR_LANES };

typedef struct mr_fusion mr_fusion;

struct mr_group {
    mr_group_config c; /* texts below */
    char *name, *folder, **addresses;
    mr_net_keys_file keys;
    mr_meeting *meeting; /* NULL: MPI */
    mr_shared *shared;   /* buffers; of one host */
    mr_post_way *ways;   /* over gRPC: of the generation */
    int n_ways;

    mr_mutex turn; /* one operation at a time; above mu */
    mr_mutex mu;
    mr_transport *lanes[MR_LANES] MR_GUARDED_BY(mu);
    mr_status *ended MR_GUARDED_BY(mu); /* why the generation is over */
    _Atomic bool over;                  /* that it is */
    int rank MR_GUARDED_BY(mu), size MR_GUARDED_BY(mu);
    int64_t number MR_GUARDED_BY(mu);

    bool forming MR_GUARDED_BY(mu);      /* lanes come and go: fusion rests */
    mr_fusion *fusion MR_GUARDED_BY(mu); /* made at the first request */
};

/* What the members do is not the same any more: nothing goes before the group is formed anew. */
void mr_group_spoil(mr_group *g, const mr_status *why);
/* Runs on a lane; what ended the generation explains more than what the transport saw of it. */
mr_status *mr_group_run_lane(mr_group *g, int lane, const mr_group_work *w, int64_t deadline_ns);

/* fusion.c: before the lanes go away (all requests end with a copy of why), and after others are there. */
void mr_fusion_pause(mr_fusion *f, const mr_status *why);
void mr_fusion_resume(mr_fusion *f);
void mr_fusion_free(mr_fusion *f);

#endif
