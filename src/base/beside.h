/* base/beside.h -- where the libraries are that are opened only when they are needed. */
#ifndef MR_BASE_BESIDE_H
#define MR_BASE_BESIDE_H

#include "base/str.h"

/* The path of a library of ours: what the variable names, else the file beside this library or program, or in the lib/ beside
 * a program, or in LIBDIR as the build knew it; where it would be when it is nowhere. */
void mr_find_beside(const char *file, const char *variable, mr_str *out);

#endif
