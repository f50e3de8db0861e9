/* dist/groups.h -- how the leader of a cluster's collectives finds out who the members of a group are.
 *
 * Pure.  Members ask one by one (CompleteGroup); when as many are there as the group has, all are told the same list, in the
 * same order, and a number for this forming of the group, the communicator.  A group that was broken, or a member of
 * which lives another life now, is formed anew, with another communicator: whoever took part in the former one asks
 * again, and names the communicator that is of no use to it any more.
 *
 * Of an instance that broadcasts, the leader also finds out who the source is (CompleteInstance). */
#ifndef MR_DIST_GROUPS_H
#define MR_DIST_GROUPS_H

#include "base/map.h"
#include "base/status.h"
#include "base/vec.h"

/* What peers can make a leader keep is bounded. */
enum {
    MR_GROUP_MAX_SIZE = 65536,
    MR_GROUPS_MAX = 4096,
    MR_GROUPS_MAX_MEMBERS = 1 << 18, /* of all groups */
    MR_GROUPS_MAX_ASKED = 1 << 28,   /* bytes that instances which broadcast take, of all groups */
    MR_GROUP_MAX_TEXT = 4096,        /* bytes of a member's attributes, and of its name */
};

typedef struct mr_group_member {
    char *device;         /* its full name */
    char *attributes;     /* a DeviceAttributes message, as it told */
    size_t attributes_n;
    uint64_t incarnation;
    int64_t rank;         /* as it told; -1: by the name */
    MR_VEC(void *) callers; /* who wait for the answer: one of each op of it that came before the group was complete */
} mr_group_member;

typedef struct mr_group_record {
    int64_t key, part, size;
    uint64_t communicator; /* 0: not complete */
    MR_VEC(mr_group_member) members; /* once complete: in the order of their ranks */
    mr_map instances; /* key -> of broadcasts */
    int64_t asked_bytes; /* that they take, about */
} mr_group_record;

typedef struct mr_groups {
    mr_map records; /* "key part" -> mr_group_record */
    int64_t n_members, asked_bytes; /* of all */
} mr_groups;

typedef struct mr_group_ask {
    int64_t key, part; /* part: of groups that are cut; else 0 */
    int64_t size, rank;
    mr_sv device, attributes;
    uint64_t incarnation;
    uint64_t useless; /* a communicator that was broken; 0: none */
    void *caller;
} mr_group_ask;

/* Somebody is to be told: an error, or the record, or (of an instance) the source's rank. */
typedef struct mr_group_answer {
    void *caller;
    mr_status *st;
    const mr_group_record *record; /* until the next call */
    int64_t source;
} mr_group_answer;
typedef MR_VEC(mr_group_answer) mr_group_answers;

void mr_groups_deinit(mr_groups *t); /* nobody waits any more */
/* fresh: a number that no group had before, not 0; used when this one completes it. */
void mr_groups_ask(mr_groups *t, const mr_group_ask *a, uint64_t fresh, mr_group_answers *out);
/* A member that waited has gone. */
void mr_groups_leave(mr_groups *t, void *caller);
/* A communicator is of no use any more: who waits for its instances is told so (copies of why). */
void mr_groups_break(mr_groups *t, uint64_t communicator, const mr_status *why, mr_group_answers *out);

/* The same by the key of a group that is not cut, complete or not. */
void mr_groups_drop(mr_groups *t, int64_t key, const mr_status *why, mr_group_answers *out);

typedef struct mr_instance_ask {
    int64_t key, part, instance;
    uint64_t communicator; /* 0: whichever there is */
    mr_sv device;
    int64_t rank; /* -1: that of the device */
    bool is_source;
    void *caller;
} mr_instance_ask;
/* Told as soon as the source is known; INTERNAL when all have asked and none is, or two are. */
void mr_groups_ask_source(mr_groups *t, const mr_instance_ask *a, mr_group_answers *out);
/* Fails all who wait, with copies of why. */
void mr_groups_end(mr_groups *t, const mr_status *why, mr_group_answers *out);

#endif
