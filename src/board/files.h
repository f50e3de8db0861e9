/* board/files.h -- the files that the page may use: those given on the command line, and those dropped onto the page.
 *
 * A plan that the page sends names a file by its id (f1, f2, .. given; u1, u2, .. uploaded), never by a path. So
 * nothing that the page sends is ever looked up on disk.
 *
 * An uploaded file is written to the private folder as ID and one of a few fixed endings; its name is only shown. */
#ifndef MR_BOARD_FILES_H
#define MR_BOARD_FILES_H

#include "base/thread.h"
#include "base/vec.h"
#include "board/board.h"

typedef enum mr_board_kind { MR_BOARD_PLAN, MR_BOARD_GRAPH, MR_BOARD_COSTS } mr_board_kind;

typedef struct mr_board_file {
    mr_refs refs;
    mr_board_kind kind;
    char id[24];
    char *name;     /* for people */
    char *path;     /* of a graph or costs: what the simulator opens; NULL for a plan */
    char *written;  /* what to remove at the end: a file in the private folder; NULL: nothing */
    bool in_folder; /* `written` is saved_model.pb in a folder made for it, which is removed too */
    mr_str plan;    /* JSON, with ids instead of paths */
    bool uploaded;
    size_t bytes;
} mr_board_file;

typedef struct mr_board_files {
    mr_mutex mu;
    MR_VEC(mr_board_file *) list MR_GUARDED_BY(mu); /* in the order of their ids */
    int n_given, n_uploads MR_GUARDED_BY(mu);       /* ever; for ids */
    int kept MR_GUARDED_BY(mu);                     /* uploads now, also those that are being written */
    size_t kept_bytes MR_GUARDED_BY(mu);
    char *folder; /* NULL: no uploads */
    mr_board_limits limits;
} mr_board_files;

void mr_board_files_init(mr_board_files *f, const char *folder, const mr_board_limits *limits);
void mr_board_files_deinit(mr_board_files *f); /* removes what was uploaded */

/* A file of the command line; INVALID_ARGUMENT if the simulator does not read such files. */
mr_status *mr_board_files_give(mr_board_files *f, const char *path);
/* Keeps the bytes. Returns the object that describes the file for the page in `out`. */
mr_status *mr_board_files_upload(mr_board_files *f, mr_sv name, mr_sv bytes, mr_str *out);
/* Returns NULL if no file has this id and kind. Otherwise the caller owns a reference. */
mr_board_file *mr_board_files_find(mr_board_files *f, const char *id, mr_board_kind kind);
void mr_board_file_unref(mr_board_file *x); /* NULL is allowed */
/* All plans and graphs as a list for the page. */
void mr_board_files_json(mr_board_files *f, mr_str *out);

#endif
