/* options.h -- command lines of the examples.
 *
 * A program has one table of its options, reads it once with read_options, and asks for what was said.  --help shows the
 * table; a word that is not in it ends the program with 2, for a mistyped option must not train for an hour. */
#ifndef MILLRACE_EXAMPLES_OPTIONS_H
#define MILLRACE_EXAMPLES_OPTIONS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct option {
    const char *name;
    const char *takes; /* what its value is; NULL: it has none */
    const char *value; /* what holds if it is not given; NULL: nothing */
    const char *about;
} option;

static option *known_options;

static inline int has_default(const option *o) { return o->takes && o->value; }

static inline void show_options(const char *about)
{
    printf("%s\n\n", about);
    for (const option *o = known_options; o->name; o++) {
        char head[80];
        snprintf(head, sizeof head, "%s %s", o->name, o->takes ? o->takes : "");
        printf("  %-26s %s%s%s%s\n", head, o->about, has_default(o) ? " (" : "", has_default(o) ? o->value : "", has_default(o) ? ")" : "");
    }
    printf("  %-26s %s\n", "--help", "this list");
}

static inline option *find_option(const char *word)
{
    const char *end = strchr(word, '=');
    size_t n = end ? (size_t)(end - word) : strlen(word);
    for (option *o = known_options; o->name; o++)
        if (strlen(o->name) == n && memcmp(o->name, word, n) == 0)
            return o;
    return NULL;
}

/* `table` ends with a row without a name.  A value stands behind its option, or behind an equals sign. */
static inline void read_options(int argc, char **argv, const char *about, option *table)
{
    known_options = table;
    for (int i = 1; i < argc; i++) {
        option *o = find_option(argv[i]);
        const char *equals = strchr(argv[i], '=');
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            show_options(about);
            exit(0);
        }
        if (!o || (equals && !o->takes) || (o->takes && !equals && i + 1 == argc)) {
            fprintf(stderr, !o ? "there is no option %s (--help shows all)\n" : o->takes ? "%s wants a value\n" : "%s: the option has no value\n",
                    argv[i]);
            exit(2);
        }
        o->value = !o->takes ? "" : equals ? equals + 1 : argv[++i];
    }
}

/* What was said, or what holds otherwise; NULL: nothing, as for an option without a value that was not given. */
static inline const char *said(const char *name)
{
    const option *o = find_option(name);
    return o ? o->value : NULL;
}

static inline int has(const char *name) { return said(name) != NULL; }

/* A value that is no number, or has something behind it, ends the program. */
static inline double number(const char *name)
{
    const char *text = said(name);
    char *end;
    double x = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(x > -1e15 && x < 1e15))) {
        fprintf(stderr, "%s: %s is no number\n", name, text);
        exit(2);
    }
    return x;
}

/* A whole number, at least `least`. */
static inline long long integer(const char *name, long long least)
{
    double x = number(name);
    if (x < (double)least || x != (double)(long long)x) {
        fprintf(stderr, "%s is a whole number from %lld on\n", name, least);
        exit(2);
    }
    return (long long)x;
}

/* The folder of --dir, or else that of the environment; without both the digits are drawn. */
static inline const char *digits_folder(void) { return has("--dir") ? said("--dir") : getenv("MNIST_DIR"); }

#define DIGITS_OPTION {"--dir", "FOLDER", NULL, "with MNIST's idx files; else that of MNIST_DIR, else digits are drawn"}

#endif
