/* dist/groups.h -- how the leader of a cluster's collectives finds the members of each group.
 *
 * Pure.  Members ask one by one (CompleteGroup).  When all have asked, each is told the same list in the same order,
 * and a number that identifies this forming of the group, the communicator.  A group that was broken, or of which a
 * member has another incarnation now, is formed again with a new communicator: the members ask again, and name the
 * communicator that is useless to them.
 *
 * For a broadcast the leader also finds the source (CompleteInstance). */
#ifndef MR_DIST_GROUPS_H
#define MR_DIST_GROUPS_H

#include "base/map.h"
#include "base/status.h"
#include "base/vec.h"

/* Limits of what peers can make a leader keep. */
enum {
    MR_GROUP_MAX_SIZE = 65536,
    MR_GROUPS_MAX = 4096,
    MR_GROUPS_MAX_MEMBERS = 1 << 18, /* of all groups */
    MR_GROUPS_MAX_ASKED = 1 << 28,   /* bytes of all broadcast instances of all groups */
    MR_GROUP_MAX_TEXT = 4096,        /* bytes of a member's attributes, and of its name */
};

typedef struct mr_group_member {
    char *device;         /* its full name */
    char *attributes;     /* its DeviceAttributes message */
    size_t attributes_n;
    uint64_t incarnation;
    int64_t rank;         /* the one it asked for; -1: in the order of names */
    MR_VEC(void *) callers; /* that wait for the answer: one per op of it that asked before the group was complete */
} mr_group_member;

typedef struct mr_group_record {
    int64_t key, part, size;
    uint64_t communicator; /* 0: not complete */
    MR_VEC(mr_group_member) members; /* once complete: in the order of their ranks */
    mr_map instances; /* key -> a broadcast instance */
    int64_t asked_bytes; /* approximate size of the instances */
} mr_group_record;

typedef struct mr_groups {
    mr_map records; /* "key part" -> mr_group_record */
    int64_t n_members, asked_bytes; /* of all */
} mr_groups;

typedef struct mr_group_ask {
    int64_t key, part; /* part: for groups that are divided into parts; else 0 */
    int64_t size, rank;
    mr_sv device, attributes;
    uint64_t incarnation;
    uint64_t useless; /* a communicator that was broken; 0: none */
    void *caller;
} mr_group_ask;

/* The answer to a caller: an error, or the record, or (for an instance) the source's rank. */
typedef struct mr_group_answer {
    void *caller;
    mr_status *st;
    const mr_group_record *record; /* borrowed until the next call */
    int64_t source;
} mr_group_answer;
typedef MR_VEC(mr_group_answer) mr_group_answers;

void mr_groups_deinit(mr_groups *t); /* no caller may be waiting */
/* fresh: a number that no group had before, not 0; it becomes the communicator if this ask completes the group. */
void mr_groups_ask(mr_groups *t, const mr_group_ask *a, uint64_t fresh, mr_group_answers *out);
/* A caller that waits has gone. */
void mr_groups_leave(mr_groups *t, void *caller);
/* A communicator is useless now: callers that wait for its instances get copies of why. */
void mr_groups_break(mr_groups *t, uint64_t communicator, const mr_status *why, mr_group_answers *out);

/* The same by the key of a group that is not divided, whether it is complete or not. */
void mr_groups_drop(mr_groups *t, int64_t key, const mr_status *why, mr_group_answers *out);

typedef struct mr_instance_ask {
    int64_t key, part, instance;
    uint64_t communicator; /* 0: the present one */
    mr_sv device;
    int64_t rank; /* -1: that of the device */
    bool is_source;
    void *caller;
} mr_instance_ask;
/* Answered as soon as the source is known; INTERNAL if all have asked and none is the source, or two are. */
void mr_groups_ask_source(mr_groups *t, const mr_instance_ask *a, mr_group_answers *out);
/* Fails all waiting callers with copies of why. */
void mr_groups_end(mr_groups *t, const mr_status *why, mr_group_answers *out);

#endif
