/* net/message.c -- how errors travel.
 *
 * A message is limited to 3 KiB, because gRPC sends it as metadata, whose size is limited. The local
 * transport keeps the same limit, so an error reads the same whichever transport carried it. */
#include "net/message.h"

enum { MOST_BYTES = 3072 };

/* The result refers to the status or, if it was cut, to `memory`. */
mr_sv mr_net_message(const mr_status *st, mr_str *memory)
{
    mr_sv text = mr_sv_of(mr_status_message(st));
    if (text.n <= MOST_BYTES)
        return text;
    mr_str_clear(memory);
    mr_str_append(memory, text.p, MOST_BYTES);
    mr_str_appendz(memory, " ... [truncated]");
    return mr_str_view(memory);
}

/* Code and text come from the peer: nothing but a known code is passed on. */
mr_status *mr_net_status(int64_t code, mr_sv message)
{
    if (code == MR_OK)
        return NULL;
    mr_code known = code > 0 && code <= MR_UNAUTHENTICATED ? (mr_code)code : MR_UNKNOWN;
    /* A NUL in the message would hide the rest of it, which is harmless. */
    return mr_error(known, "%.*s", MR_SV_ARG(message));
}
