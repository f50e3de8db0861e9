/* capi/status.c -- TF_Status: a struct of the client with our mr_status and payloads. */
#include "capi/internal.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"

TF_Status *TF_NewStatus(void)
{
    return mr_new(TF_Status);
}

static void clear_status(TF_Status *s)
{
    mr_status_free(s->error);
    s->error = NULL;
    for (int i = 0; i < s->payloads.n; i++) {
        mr_free(s->payloads.p[i].key);
        mr_free(s->payloads.p[i].value);
    }
    s->payloads.n = 0;
}

void TF_DeleteStatus(TF_Status *s)
{
    if (!s)
        return;
    clear_status(s);
    mr_vec_deinit(&s->payloads);
    mr_free(s);
}

void mr_capi_set_status(TF_Status *out, mr_status *s)
{
    if (!out) { /* against the contract, but no reason to take the host down */
        mr_status_free(s);
        return;
    }
    clear_status(out);
    out->error = s;
}

mr_status *mr_capi_status_copy(const TF_Status *s)
{
    return mr_status_copy(s->error);
}

/* The message is copied before the old one is freed, because a client may pass TF_Message(s). */
void TF_SetStatus(TF_Status *s, TF_Code code, const char *msg)
{
    mr_status *error = NULL;
    if (code != TF_OK)
        error = mr_error((unsigned)code <= TF_UNAUTHENTICATED ? (mr_code)code : MR_UNKNOWN, "%s",
                         msg ? msg : "");
    mr_capi_set_status(s, error);
}

void TF_SetStatusFromIOError(TF_Status *s, int error_code, const char *context)
{
    char buf[128];
    mr_status *error = NULL;
    if (error_code != 0)
        error = mr_error(mr_errno_code(error_code), "%s; %s", context ? context : "",
                         strerror_r(error_code, buf, sizeof(buf)));
    mr_capi_set_status(s, error);
}

TF_Code TF_GetCode(const TF_Status *s)
{
    return (TF_Code)mr_status_code(s->error);
}

const char *TF_Message(const TF_Status *s)
{
    return mr_status_message(s->error);
}

/* ---- payloads ---- */

static char *try_strdup(const char *z)
{
    size_t bytes = strlen(z) + 1;
    char *copy = mr_try_alloc(bytes);
    return copy ? memcpy(copy, z, bytes) : NULL;
}

static mr_capi_payload *find_payload(TF_Status *s, const char *key)
{
    for (int i = 0; i < s->payloads.n; i++)
        if (strcmp(s->payloads.p[i].key, key) == 0)
            return &s->payloads.p[i];
    return NULL;
}

/* There is no way to report that there is no memory for a payload, so it is left out, like any
 * detail of an error that cannot be stored. */
void TF_SetPayload(TF_Status *s, const char *key, const char *value)
{
    if (!s->error || !key || !value)
        return;
    mr_capi_payload *old = find_payload(s, key);
    char *new_value = try_strdup(value);
    char *new_key = old ? NULL : try_strdup(key);
    if (!new_value || (!old && !new_key)) {
        mr_free(new_value);
        mr_free(new_key);
    } else if (old) {
        mr_free(old->value);
        old->value = new_value;
    } else {
        mr_vec_push(&s->payloads, (mr_capi_payload){new_key, new_value});
    }
}

void TF_ForEachPayload(const TF_Status *s, TF_PayloadVisitor visitor, void *capture)
{
    for (int i = 0; i < s->payloads.n; i++)
        visitor(s->payloads.p[i].key, s->payloads.p[i].value, capture);
}
