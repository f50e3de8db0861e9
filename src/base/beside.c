/* base/beside.c -- finds libraries that are opened only when they are needed. */
#include "base/beside.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

#ifndef MR_LIB_FROM_BIN /* the folder of the libraries as seen from that of the programs, when it is not ../lib */
#define MR_LIB_FROM_BIN "../lib"
#endif

/* The folder of the library or program that this code is in; empty if it cannot be found. */
static void own_folder(mr_str *out)
{
    static const int here;
    Dl_info info;
    char self[4096];
    const char *path = dladdr((const void *)&here, &info) ? info.dli_fname : NULL;
    if (!path || path[0] != '/' || strncmp(path, "/proc/", 6) == 0) { /* a program knows only how it was called */
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = '\0';
        path = path && strchr(path, '/') && access(path, F_OK) == 0 ? path : self;
    }
    mr_sv dir = mr_path_dirname(path);
    mr_str_append(out, dir.p, dir.n);
}

void mr_find_beside(const char *file, const char *variable, mr_str *out)
{
    static const char *const places[] = {"", "/lib", "/../lib", ("/" MR_LIB_FROM_BIN)};
    const char *named = getenv(variable);
    mr_str folder = {0};
    bool found = named && named[0];
    mr_str_clear(out);
    if (found)
        mr_str_appendz(out, named);
    else
        own_folder(&folder);
    for (int i = 0; i <= MR_COUNT(places) && !found; i++) { /* the last time for the first place, which is the answer then */
        mr_str_clear(out);
        mr_str_printf(out, "%s%s/%s", mr_str_z(&folder), places[i % MR_COUNT(places)], file);
        found = access(mr_str_z(out), R_OK) == 0;
    }
    mr_str_deinit(&folder);
}
