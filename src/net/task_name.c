/* net/task_name.c -- the names of tasks as they are in certificates.
 *
 * "ps/0" is the host name "task-0.ps.millrace", and "client" is "name.client.millrace". Characters
 * that a host name cannot have are written as "-" and two hexadecimal digits, so every name has
 * exactly one encoding, and no two tasks share one. "Worker_2/1" is "task-1.-57orker-5f2.millrace". */
#include "net/task_name.h"

/* task-NUMBER.JOB.millrace and name.NAME.millrace */
static const char ending[] = ".millrace", task[] = "task-", plain[] = "name.";

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* A number has no leading zeros, so that two spellings cannot mean one task. */
static bool is_number(mr_sv v)
{
    bool ok = v.n >= 1 && v.n <= 9 && (v.n == 1 || v.p[0] != '0');
    for (size_t i = 0; ok && i < v.n; i++)
        ok = is_digit(v.p[i]);
    return ok;
}

/* Writes small letters and digits as they are, every other byte as "-XX". Capitals are encoded too, because host
 * names are compared without regard to case. */
static void encode_job(mr_sv v, mr_str *out)
{
    for (size_t i = 0; i < v.n; i++) {
        char c = v.p[i];
        if ((c >= 'a' && c <= 'z') || is_digit(c))
            mr_str_appendc(out, c);
        else
            mr_str_printf(out, "-%02x", (unsigned char)c);
    }
}

/* "ps/0" or "launcher": the number is what follows the last slash. On failure nothing is appended. */
bool mr_task_name_encode(const char *name, mr_str *out)
{
    const char *slash = strrchr(name, '/');
    mr_sv job = {name, slash ? (size_t)(slash - name) : strlen(name)};
    mr_sv index = mr_sv_of(slash ? slash + 1 : "0");
    if (job.n == 0 || !is_number(index))
        return false;
    if (slash)
        mr_str_printf(out, "%s%.*s.", task, MR_SV_ARG(index));
    else
        mr_str_appendz(out, plain);
    encode_job(job, out);
    mr_str_appendz(out, ending);
    return true;
}

/* Only small digits are valid, so that an encoding has one spelling. */
static int hex_digit(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The reverse of encode_job; false: the text is not an encoding. */
static bool decode_job(mr_sv v, mr_str *out)
{
    for (size_t i = 0; i < v.n; i++) {
        char c = v.p[i];
        if (c == '-') {
            int hi = i + 2 < v.n ? hex_digit(v.p[i + 1]) : -1,
                lo = hi < 0 ? -1 : hex_digit(v.p[i + 2]);
            if (lo < 0)
                return false;
            c = (char)(hi * 16 + lo);
            i += 2;
        } else if (!(c >= 'a' && c <= 'z') && !is_digit(c)) {
            return false;
        }
        if (c == '\0')
            return false;
        mr_str_appendc(out, c);
    }
    return v.n > 0;
}

/* Appends the name. On failure a part of it may have been appended. */
bool mr_task_name_decode(mr_sv host, mr_str *out)
{
    size_t end = sizeof(ending) - 1;
    if (host.n < end || memcmp(host.p + host.n - end, ending, end) != 0)
        return false;
    host.n -= end;
    if (mr_sv_starts(host, plain))
        return decode_job((mr_sv){host.p + sizeof(plain) - 1, host.n - (sizeof(plain) - 1)}, out);
    mr_sv index;
    if (!mr_sv_starts(host, task))
        return false;
    host = (mr_sv){host.p + sizeof(task) - 1, host.n - (sizeof(task) - 1)};
    if (!mr_sv_cut(&host, '.', &index) || !is_number(index) || !host.p || !decode_job(host, out))
        return false;
    mr_str_printf(out, "/%.*s", MR_SV_ARG(index));
    return true;
}
