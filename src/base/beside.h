/* base/beside.h -- finds libraries that are opened only when they are needed. */
#ifndef MR_BASE_BESIDE_H
#define MR_BASE_BESIDE_H

#include "base/str.h"

/* The path of a library of ours: the value of the variable, if it is set. Otherwise the first place where the file
 * exists: the folder of this library or program, its lib/, ../lib, or LIBDIR as the build knew it. If it exists
 * nowhere, the path in the first place. */
void mr_find_beside(const char *file, const char *variable, mr_str *out);

#endif
