/* tests/examples/without_fusion.c -- preloaded, switches fusion off in every session of a program.
 *
 * A ConfigProto with more bytes behind it is the two merged, so the option is appended to whatever the program sets. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

/* graph_options { rewrite_options { remapping: OFF } } */
static const char off[] = "\x52\x04\x52\x02\x70\x02";

/* The function of the library: Python loads it for its own module only, where RTLD_NEXT does not look. */
static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name), *library = found ? NULL : dlopen("libtensorflow.so.2", RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : found;
}

void TF_SetConfig(TF_SessionOptions *options, const void *proto, size_t n, TF_Status *status)
{
    void (*set)(TF_SessionOptions *, const void *, size_t, TF_Status *) = next("TF_SetConfig");
    char *both = malloc(n + sizeof off - 1);
    if (n)
        memcpy(both, proto, n);
    memcpy(both + n, off, sizeof off - 1);
    set(options, both, n + sizeof off - 1, status);
    free(both);
}

/* For programs that set no config. */
TF_SessionOptions *TF_NewSessionOptions(void)
{
    TF_SessionOptions *(*new_options)(void) = next("TF_NewSessionOptions");
    TF_SessionOptions *options = new_options();
    TF_Status *status = TF_NewStatus();
    TF_SetConfig(options, NULL, 0, status);
    TF_DeleteStatus(status);
    return options;
}
