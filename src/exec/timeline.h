/* exec/timeline.h -- what each task did when: the model behind pictures and blame.
 *
 * Tasks have lanes (a device, a stream, a link); lanes have spans with a start, an end, a name and a kind. Arrows say
 * which span another one waited for. A traced run (exec/trace_read.h) and a simulated one fill the same model. A Chrome
 * trace, a picture for the terminal and the blame (exec/blame.h) are made from it.
 *
 *     mr_timeline t;
 *     mr_timeline_init(&t);
 *     int cpu = mr_timeline_lane(&t, mr_timeline_task(&t, MR_SV("worker:0")), MR_SV("CPU:0"));
 *     int a = mr_timeline_span(&t, (mr_span){.name = "conv1", .lane = cpu, .start_ns = 0, .end_ns =
 * 900});
 *     ... mr_timeline_arrow(&t, a, b, true) ...
 *     mr_timeline_text(&t, NULL, &out);
 *     mr_timeline_deinit(&t);
 *
 * Spans of one lane are disjoint or nested; mr_timeline_free_lane finds a lane without overlap. Several steps are in
 * the order of their times. Ids count from 0 in the order of addition. */
#ifndef MR_EXEC_TIMELINE_H
#define MR_EXEC_TIMELINE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "exec/chrome.h"

typedef enum mr_span_kind {
    MR_SPAN_COMPUTE,
    MR_SPAN_INPUT, /* feeds, files, queues of examples */
    MR_SPAN_SEND,  /* a transfer between devices or tasks */
    MR_SPAN_WAIT,  /* for another task, or a barrier */
    MR_SPAN_SAVE,  /* checkpoints, written or read */
    MR_SPAN_DOWN,  /* the task is not running */
    MR_SPAN_KINDS
} mr_span_kind;
const char *mr_span_kind_name(mr_span_kind k); /* "compute" */

typedef struct mr_span {
    const char *name; /* of the node, edge or event; copied when it is added, as is op */
    const char *op;   /* NULL: none */
    int lane;
    int step; /* 1 + the step it belongs to; 0: none */
    mr_span_kind kind;
    int64_t start_ns, end_ns;
    int64_t bytes; /* transferred or produced; 0: unknown */
    int peer;      /* SEND, WAIT: 1 + the task it came from or that was waited for; 0: unknown */
    bool outgoing; /* SEND: from the task of the lane to the peer */
} mr_span;

typedef struct mr_lane {
    int task;
    const char *name;
    int64_t end_ns; /* the latest end of its spans */
    int row;        /* the lane in whose line of text this one is drawn: itself, unless set */
    int beside;     /* 1 + the lane that mr_timeline_free_lane tries next; 0: none yet */
} mr_lane;

typedef struct mr_arrow { /* `to` needed what `from` made */
    int from, to;
    bool drawn; /* in a Chrome trace; else it only counts for the critical path */
    int64_t at_ns; /* when `to` could have it: inside of `from` or at its end, and not after the end of `to` */
} mr_arrow;

typedef struct mr_mark { /* a remarkable instant: a crash, a decision */
    const char *text;
    int lane;
    int64_t at_ns;
} mr_mark;

typedef struct mr_sample { /* of a curve of a task */
    const char *name;
    int task;
    int64_t at_ns;
    double value;
} mr_sample;

typedef struct mr_timeline_step {
    int64_t number;
    int home; /* the task whose step it is; -1: unknown */
    int64_t start_ns, end_ns;
    int64_t outside_ns; /* the client's time before the step, such as reading input; 0: unknown */
    const char *what;   /* what to call it in place of "step"; NULL: a step */
} mr_timeline_step;

typedef struct mr_timeline {
    mr_arena arena; /* names */
    MR_VEC(const char *) tasks;
    MR_VEC(mr_lane) lanes;
    MR_VEC(mr_span) spans;
    MR_VEC(mr_arrow) arrows;
    MR_VEC(mr_mark) marks;
    MR_VEC(mr_sample) samples;
    MR_VEC(mr_timeline_step) steps;
    mr_map task_ids, lane_ids, names;
} mr_timeline;

void mr_timeline_init(mr_timeline *t);
void mr_timeline_deinit(mr_timeline *t);

/* Find or add a task or a lane and return its id. */
int mr_timeline_task(mr_timeline *t, mr_sv name);
int mr_timeline_lane(mr_timeline *t, int task, mr_sv name);
/* The first lane of "name", "name 2", "name 3" ... that is free from start_ns on; spans must be added in the order of
 * their starts. There are at most 512 such lanes; further spans share the last one. */
int mr_timeline_free_lane(mr_timeline *t, int task, mr_sv name, int64_t start_ns);
/* Copies the names; an end before the start is moved to it. */
int mr_timeline_span(mr_timeline *t, mr_span s);
void mr_timeline_arrow(mr_timeline *t, int from, int to, bool drawn); /* leaves at the end of `from` */
void mr_timeline_arrow_at(mr_timeline *t, int from, int to, bool drawn, int64_t at_ns);
void mr_timeline_mark(mr_timeline *t, int lane, int64_t at_ns, const char *text);
void mr_timeline_sample(mr_timeline *t, int task, const char *name, int64_t at_ns, double value);
int mr_timeline_step_add(mr_timeline *t, int64_t number, int home, int64_t start_ns,
                         int64_t end_ns);
/* A copy that lives as long as the timeline; equal ones are kept once. */
const char *mr_timeline_name(mr_timeline *t, mr_sv name);

/* The first start and the last end; both 0 if the timeline is empty. */
void mr_timeline_range(const mr_timeline *t, int64_t *start_ns, int64_t *end_ns);

/* ---- timeline_chrome.c: as a Chrome trace; times count from the first ---- */
void mr_timeline_to_chrome(const mr_timeline *t, mr_chrome *c);
mr_status *mr_timeline_write_chrome(const mr_timeline *t, const char *path);

/* ---- timeline_text.c: as a picture of lines of characters ---- */
typedef struct mr_timeline_text_options {
    int width;              /* of the whole line; 0: 100 */
    int max_lanes;          /* one line summarizes the others; 0: 48 */
    int64_t from_ns, to_ns; /* the part to be drawn; both 0: all */
    bool no_names;          /* nothing is written into the spans */
    bool no_shares;         /* no column with the busy share of a lane: the timeline holds only some of its spans */
    bool color;             /* spans are colored with escape sequences: computing by lane, the rest by kind */
    bool ascii;             /* shortened names end in ~ instead of the ellipsis of UTF-8 */
} mr_timeline_text_options;
/* options may be NULL. */
void mr_timeline_text(const mr_timeline *t, const mr_timeline_text_options *options, mr_str *out);
/* Appends a duration in a readable unit: "41.2 ms", "830 us", "2.5 s". */
void mr_put_duration(mr_str *out, double ns);

#endif
