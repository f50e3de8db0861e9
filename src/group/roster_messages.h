/* group/roster_messages.h -- the messages between the members of a group and the process that keeps its roster.
 *
 * A member's call, /millrace.Group/Attend, stays pending until there is news; then the member calls again.  Numbers are
 * little-endian, a text is its length in 2 bytes and its bytes.
 *
 *     Attend: "MRGA", flags 4, serial 8, who 8, generation 8, lost 8, wanted 4, name text, address text, n 4,
 *             then n keys of 8
 *     news:   "MRGN", kind 4, generation 8, roster server 8, who 8, why text, n 4,
 *             then n times a key of 8 and an address text */
#ifndef MR_GROUP_ROSTER_MESSAGES_H
#define MR_GROUP_ROSTER_MESSAGES_H

#include "base/str.h"
#include "base/vec.h"

#define MR_ATTEND_METHOD "/millrace.Group/Attend"
enum { MR_ATTEND_JOIN = 1, MR_ATTEND_LEAVE = 2 }; /* flags */
enum { MR_ROSTER_MAX_TEXT = 1024, MR_ROSTER_MAX_MEMBERS = 4096, MR_ROSTER_MAX_BYTES = 8 << 20 };

typedef MR_VEC(uint64_t) mr_member_keys;

typedef struct mr_attend {
    uint32_t flags;
    uint64_t serial; /* grows with each join: calls may overtake each other, and those from before it are ignored */
    uint64_t who, lost; /* the sender's key; the member whose loss ended its last generation (0: none) */
    int64_t generation; /* the last one the sender was in; 0: none */
    int32_t wanted;     /* the rank it wants in the first generation; -1: any */
    mr_str name, address; /* of the group; where the other members reach the sender */
    mr_member_keys peers; /* the members of that generation */
} mr_attend;

typedef enum mr_news_kind { MR_NEWS_NOTHING, MR_NEWS_FORMED, MR_NEWS_ENDED, MR_NEWS_WAITS, MR_NEWS_REFUSED } mr_news_kind;

typedef struct mr_news_member {
    uint64_t key;
    char *address;
} mr_news_member;

typedef struct mr_news {
    uint32_t kind;
    int64_t generation; /* in a refusal: its code */
    uint64_t roster_server;
    uint64_t who; /* the member whose loss ended the generation; 0: none is lost */
    mr_str why;
    MR_VEC(mr_news_member) members; /* of the generation that was formed, in the order of ranks */
} mr_news;

void mr_attend_write(const mr_attend *a, mr_str *out);
mr_status *mr_attend_read(mr_sv bytes, mr_attend *out); /* deinit in any case */
void mr_attend_deinit(mr_attend *a);
void mr_news_write(const mr_news *n, mr_str *out);
mr_status *mr_news_read(mr_sv bytes, mr_news *out); /* deinit in any case */
void mr_news_deinit(mr_news *n);

#endif
