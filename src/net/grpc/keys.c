/* net/grpc/keys.c -- a certificate authority and certificates of tasks, in a folder.
 *
 * Keys are ECDSA on P-256, files are PEM. A key is written before its certificate, so a folder that
 * was left half-made is completed the next time. Files have mode 0600 from their first byte; they are
 * written under another name, synced and renamed.
 *
 * OpenSSL keeps errors in a queue per thread. Every public function leaves it empty, so that gRPC does
 * not find ours. */
#include "net/grpc/grpc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/keys.h"
#include "net/task_name.h"

#define DAY_S (24 * 60 * 60L)
#define SKEW_S (60 * 60L) /* clocks of hosts differ */

/* The oldest error in OpenSSL's queue, which is emptied. */
static mr_status *ssl_error(const char *what)
{
    char text[256];
    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    ERR_clear_error();
    return mr_error(MR_INTERNAL, "%s: %s", what, text);
}

#define SSL_GO(what, ok)            \
    do {                            \
        if (!(ok))                  \
            MR_GO(ssl_error(what)); \
    } while (0)

/* ---- files ---- */

/* Writes all bytes and syncs the file; path is for the error. */
static mr_status *write_all(int fd, mr_sv v, const char *path)
{
    while (v.n) {
        ssize_t n = write(fd, v.p, v.n);
        if (n < 0 && errno != EINTR)
            return mr_errno_status(errno, "write", path);
        if (n > 0)
            v = (mr_sv){v.p + n, v.n - (size_t)n};
    }
    return fsync(fd) == 0 ? NULL : mr_errno_status(errno, "sync", path);
}

/* Writes a file in one step: a reader finds the old one or the whole new one. */
static mr_status *save_pem(const char *path, BIO *pem)
{
    char *bytes;
    long n = BIO_get_mem_data(pem, &bytes);
    char *temp = mr_printf("%s.tempstate%llx", path, (unsigned long long)mr_random64());
    mr_status *st = NULL;
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        st = mr_errno_status(errno, "write", path);
    } else {
        st = write_all(fd, (mr_sv){bytes, (size_t)n}, path);
        close(fd);
        if (!st)
            st = mr_file_rename(temp, path);
        if (st)
            unlink(temp);
    }
    mr_free(temp);
    return st;
}

/* The key is not encrypted; its file's mode protects it. */
static mr_status *save_key(const char *path, EVP_PKEY *key)
{
    BIO *b = BIO_new(BIO_s_mem());
    mr_status *st = NULL;
    SSL_GO(path, b && PEM_write_bio_PKCS8PrivateKey(b, key, NULL, NULL, 0, NULL, NULL));
    MR_GO(save_pem(path, b));
out:
    BIO_free(b);
    return st;
}

static mr_status *save_certificate(const char *path, X509 *c)
{
    BIO *b = BIO_new(BIO_s_mem());
    mr_status *st = NULL;
    SSL_GO(path, b && PEM_write_bio_X509(b, c));
    MR_GO(save_pem(path, b));
out:
    BIO_free(b);
    return st;
}

/* No password is ever asked for. */
static int no_password(char *buf, int size, int rw, void *arg)
{
    (void)buf, (void)size, (void)rw, (void)arg;
    return -1;
}

/* Loads a key or a certificate, whichever is not NULL. */
static mr_status *load_pem(const char *path, EVP_PKEY **key, X509 **certificate)
{
    mr_str text = {0};
    mr_status *st = mr_file_read_all(path, &text);
    BIO *b = st ? NULL : BIO_new_mem_buf(mr_str_z(&text), (int)text.n);
    if (b && key)
        *key = PEM_read_bio_PrivateKey(b, NULL, no_password, NULL);
    if (b && certificate)
        *certificate = PEM_read_bio_X509(b, NULL, no_password, NULL);
    if (!st && !(key ? (void *)*key : (void *)*certificate))
        st = mr_error(MR_FAILED_PRECONDITION, "%s contains no %s", path, key ? "key" : "certificate");
    ERR_clear_error();
    BIO_free(b);
    mr_str_deinit(&text);
    return st;
}

/* ---- keys as they are used ---- */

/* NULL: the text is not a certificate. The error stays in OpenSSL's queue, which the caller empties. */
static X509 *certificate_of(const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    X509 *c = b ? PEM_read_bio_X509(b, NULL, no_password, NULL) : NULL;
    BIO_free(b);
    return c;
}

static EVP_PKEY *key_of(const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *k = b ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;
    BIO_free(b);
    return k;
}

/* Checks that all three are PEM and that the key belongs to the certificate. Whether the CA has signed the
 * certificate, and whether it has expired, is found out by the handshake. */
mr_status *mr_grpc_check_keys(const mr_net_keys *k)
{
    if (!k->ca || !k->certificate || !k->key)
        return mr_invalid("The keys are wrong: TLS needs the CA's certificate, the task's certificate and its private "
                          "key");
    X509 *ca = certificate_of(k->ca), *own = certificate_of(k->certificate);
    EVP_PKEY *key = key_of(k->key);
    mr_status *st = NULL;
    if (!ca)
        st = mr_invalid("The keys are wrong: the CA's certificate is not valid PEM");
    else if (!own)
        st = mr_invalid("The keys are wrong: the task's certificate is not valid PEM");
    else if (!key)
        st = mr_invalid("The keys are wrong: the task's private key is not valid PEM, or needs a password");
    else if (X509_check_private_key(own, key) != 1)
        st = mr_invalid("The keys are wrong: the private key does not belong to the certificate");
    X509_free(ca);
    X509_free(own);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return st;
}

/* ---- making them ---- */

/* Loads the key if it exists; otherwise makes and saves a new one. */
static mr_status *load_or_make_key(const char *path, EVP_PKEY **out)
{
    if (mr_file_exists(path))
        return load_pem(path, out, NULL);
    *out = EVP_EC_gen("P-256");
    if (!*out)
        return ssl_error("make a key");
    mr_status *st = save_key(path, *out);
    if (st) {
        EVP_PKEY_free(*out);
        *out = NULL;
    }
    return st;
}

/* ---- certificates ---- */

/* The CA that signs certificates of tasks. */
typedef struct authority {
    EVP_PKEY *key;
    X509 *certificate;
} authority;

/* The issuer's certificate is where an authority key identifier is copied from. */
static bool add_extension(X509 *c, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, c, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = e && X509_add_ext(c, e, -1);
    X509_EXTENSION_free(e);
    return ok;
}

/* A random serial number, which no other certificate has. */
static bool set_serial(X509 *c)
{
    uint64_t n = mr_random64() >> 1;
    return ASN1_INTEGER_set_uint64(X509_get_serialNumber(c), n ? n : 1) == 1;
}

/* Sets the validity. It begins an hour ago, since the clocks of hosts differ. days may be negative;
 * then the certificate has expired, but not before it began. */
static bool set_times(X509 *c, int days)
{
    long end = days * DAY_S, begin = end < 0 ? end - SKEW_S : -SKEW_S;
    return X509_gmtime_adj(X509_getm_notBefore(c), begin) &&
           X509_gmtime_adj(X509_getm_notAfter(c), end);
}

/* Sets everything but the extensions. The issuer is given by its certificate, which is c itself for a
 * CA. */
static bool set_basics(X509 *c, const char *common_name, EVP_PKEY *key, X509 *issuer, int days)
{
    X509_NAME *name = X509_get_subject_name(c);
    return X509_set_version(c, 2) && set_serial(c) && set_times(c, days) &&
           X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"millrace",
                                      -1, -1, 0) &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name,
                                      -1, -1, 0) &&
           X509_set_issuer_name(c, X509_get_subject_name(issuer)) && X509_set_pubkey(c, key);
}

/* Makes the CA's certificate, signed with its own key. It may sign certificates of tasks, but no other
 * CAs. */
static mr_status *make_ca(EVP_PKEY *key, int days, X509 **out)
{
    mr_status *st = NULL;
    X509 *c = X509_new();
    SSL_GO("make a CA",
           c && set_basics(c, "millrace cluster", key, c, days) &&
               add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
               add_extension(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
               add_extension(c, c, NID_subject_key_identifier, "hash") &&
               X509_sign(c, key, EVP_sha256()));
    *out = c;
    return NULL;
out:
    X509_free(c);
    return st;
}

/* Adds an alternative name: a DNS name, or the bytes of an IP address. */
static bool add_name(GENERAL_NAMES *names, int type, const void *bytes, int n)
{
    GENERAL_NAME *g = GENERAL_NAME_new();
    ASN1_STRING *s = type == GEN_IPADD ? (ASN1_STRING *)ASN1_OCTET_STRING_new()
                                       : (ASN1_STRING *)ASN1_IA5STRING_new();
    bool ok = g && s && ASN1_STRING_set(s, bytes, n);
    if (ok) {
        GENERAL_NAME_set0_value(g, type, s);
        s = NULL;
        ok = sk_GENERAL_NAME_push(names, g) > 0;
    }
    if (!ok) {
        ASN1_STRING_free(s);
        GENERAL_NAME_free(g);
    }
    return ok;
}

/* Adds a host by name or by number. */
static bool add_host(GENERAL_NAMES *names, mr_sv host)
{
    unsigned char ip[16];
    char *z = mr_strndup(host.p, host.n);
    bool ok;
    if (inet_pton(AF_INET, z, ip) == 1)
        ok = add_name(names, GEN_IPADD, ip, 4);
    else if (inet_pton(AF_INET6, z, ip) == 1)
        ok = add_name(names, GEN_IPADD, ip, 16);
    else
        ok = add_name(names, GEN_DNS, z, (int)host.n);
    mr_free(z);
    return ok;
}

/* Adds the names by which the task is verified. They are built as a structure and not from text, so no
 * name can add another one. */
static bool add_names(X509 *c, const char *task, const char *hosts)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    mr_sv rest = mr_sv_of(hosts ? hosts : ""), host;
    bool ok = names && add_host(names, mr_sv_of(task)) && add_host(names, mr_sv_of(MR_TASK_ANY));
    while (ok && mr_sv_cut(&rest, ',', &host))
        if (mr_sv_trim(host).n)
            ok = add_host(names, mr_sv_trim(host));
    ok = ok && X509_add1_ext_i2d(c, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return ok;
}

/* Makes a task's certificate, for both sides of a connection. Only the alternative names are compared;
 * the CN is for people and holds 64 characters. */
static mr_status *make_certificate(const authority *ca, const char *name, const char *hosts,
                                   EVP_PKEY *key, int days, X509 **out)
{
    mr_status *st = NULL;
    mr_str task = {0};
    X509 *c = X509_new();
    if (!mr_task_name_encode(name, &task))
        MR_GO(mr_invalid("'%s' is not the name of a task, such as ps/0", name));
    /* The key may sign handshakes, but no other certificates; it is valid for clients and servers. */
    char *cn = mr_strndup(name, MR_MIN(strlen(name), 64));
    bool ok = c && set_basics(c, cn, key, ca->certificate, days) &&
              add_names(c, mr_str_z(&task), hosts) &&
              add_extension(c, ca->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
              add_extension(c, ca->certificate, NID_key_usage, "critical,digitalSignature") &&
              add_extension(c, ca->certificate, NID_ext_key_usage, "serverAuth,clientAuth") &&
              add_extension(c, ca->certificate, NID_subject_key_identifier, "hash") &&
              add_extension(c, ca->certificate, NID_authority_key_identifier, "keyid:always") &&
              X509_sign(c, ca->key, EVP_sha256());
    mr_free(cn);
    SSL_GO(name, ok);
    *out = c;
    c = NULL;
out:
    X509_free(c);
    mr_str_deinit(&task);
    return st;
}

/* ---- the folder ---- */

/* Opens or makes the CA. Its key may be kept elsewhere; then nothing new can be signed. */
static mr_status *open_authority(const char *folder, int days, authority *out)
{
    mr_status *st = NULL;
    char *key = mr_net_key_path(folder, "ca", ".key"), *pem = mr_net_key_path(folder, "ca", ".pem");
    if (mr_file_exists(pem) && !mr_file_exists(key))
        MR_GO(mr_error(MR_FAILED_PRECONDITION, "%s does not exist, so no new certificate can be signed", key));
    MR_GO(load_or_make_key(key, &out->key));
    if (mr_file_exists(pem)) {
        MR_GO(load_pem(pem, NULL, &out->certificate));
        if (X509_check_private_key(out->certificate, out->key) != 1)
            MR_GO(mr_error(MR_FAILED_PRECONDITION, "%s and %s do not belong together", pem, key));
    } else {
        MR_GO(make_ca(out->key, days, &out->certificate));
        MR_GO(save_certificate(pem, out->certificate));
    }
out:
    ERR_clear_error();
    mr_free(key);
    mr_free(pem);
    return st;
}

/* Makes a task's key and certificate, unless both exist. */
static mr_status *make_pair(const authority *ca, const char *folder, const char *name,
                            const char *hosts, int days)
{
    mr_status *st = NULL;
    EVP_PKEY *key = NULL;
    X509 *c = NULL;
    char *key_path = mr_net_key_path(folder, name, ".key"),
         *pem = mr_net_key_path(folder, name, ".pem");
    if (!mr_file_exists(pem) || !mr_file_exists(key_path)) {
        MR_GO(load_or_make_key(key_path, &key));
        MR_GO(make_certificate(ca, name, hosts, key, days, &c));
        MR_GO(save_certificate(pem, c));
    }
out:
    X509_free(c);
    EVP_PKEY_free(key);
    mr_free(key_path);
    mr_free(pem);
    return st;
}

/* Whether nothing has to be made; the CA's key is not needed then. */
static bool all_there(const char *folder, const char *const *names, int n)
{
    bool there = true;
    for (int i = -1; i < n && there; i++) {
        char *pem = mr_net_key_path(folder, i < 0 ? "ca" : names[i], ".pem");
        char *key = mr_net_key_path(folder, i < 0 ? "ca" : names[i], ".key");
        there = mr_file_exists(pem) && (i < 0 || mr_file_exists(key));
        mr_free(pem);
        mr_free(key);
    }
    return there;
}

/* All names are checked before the first file is written. "ca" is refused, because its files would be the CA's. If
 * every file exists, the CA's key is not read, so a folder works without it. */
mr_status *mr_grpc_make_keys(const char *folder, const char *const *names, const char *const *hosts,
                             int n, int days)
{
    authority ca = {0};
    mr_str task = {0};
    mr_status *st = NULL;
    for (int i = 0; i < n; i++)
        if (!mr_task_name_encode(names[i], &task) || strcmp(names[i], "ca") == 0)
            MR_GO(mr_invalid("'%s' is not the name of a task, such as ps/0", names[i]));
    MR_GO(mr_dir_make(folder));
    /* Without names the caller wants the CA itself, so it is opened in any case. */
    if (all_there(folder, names, n) && n > 0)
        goto out;
    MR_GO(open_authority(folder, days, &ca));
    for (int i = 0; i < n; i++)
        MR_GO(make_pair(&ca, folder, names[i], hosts ? hosts[i] : NULL, days));
out:
    mr_str_deinit(&task);
    X509_free(ca.certificate);
    EVP_PKEY_free(ca.key);
    return st;
}
