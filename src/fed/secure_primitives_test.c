/* fed/secure_primitives_test.c -- the hashes, ciphers and key agreement of libmillrace-crypto.so, and our shares, against
 * the numbers of their papers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "fed/crypto.h"
#include "fed/shamir.h"
#include "tests/harness/test.h"

static const mr_crypto *crypto(void)
{
    const mr_crypto *c;
    MR_CHECK_OK(mr_crypto_open(&c));
    return c;
}

static mr_sv bytes_of(const void *p, size_t n) { return (mr_sv){p, n}; }

static int from_hex(const char *hex, uint8_t *out)
{
    int n = 0;
    for (; hex[0] && hex[1]; hex += 2)
        out[n++] = (uint8_t)strtoul((char[]){hex[0], hex[1], 0}, NULL, 16);
    return n;
}

static const char *to_hex(const uint8_t *p, int n)
{
    static char text[600];
    for (int i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", p[i]);
    return text;
}

MR_TEST(secure_sum_sha256_gives_the_digests_of_fips_180)
{
    uint8_t d[32];
    MR_CHECK_OK(crypto()->sha256(MR_SV("abc"), d));
    MR_CHECK_STR(to_hex(d, 32), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    MR_CHECK_OK(crypto()->sha256(MR_SV(""), d));
    MR_CHECK_STR(to_hex(d, 32), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    MR_CHECK_OK(crypto()->sha256(MR_SV("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), d));
    MR_CHECK_STR(to_hex(d, 32), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

MR_TEST(secure_sum_hkdf_gives_the_keys_of_rfc_5869)
{
    uint8_t ikm[80], salt[80], info[80], out[82];
    memset(ikm, 0x0b, 22);
    from_hex("000102030405060708090a0b0c", salt);
    from_hex("f0f1f2f3f4f5f6f7f8f9", info);
    MR_CHECK_OK(crypto()->hkdf(bytes_of(ikm, 22), bytes_of(salt, 13), bytes_of(info, 10), out, 42));
    MR_CHECK_STR(to_hex(out, 42), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    MR_CHECK_OK(crypto()->hkdf(bytes_of(ikm, 22), (mr_sv){0}, (mr_sv){0}, out, 42));
    MR_CHECK_STR(to_hex(out, 42), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
    for (int i = 0; i < 80; i++) {
        ikm[i] = (uint8_t)i;
        salt[i] = (uint8_t)(0x60 + i);
        info[i] = (uint8_t)(0xb0 + i);
    }
    MR_CHECK_OK(crypto()->hkdf(bytes_of(ikm, 80), bytes_of(salt, 80), bytes_of(info, 80), out, 82));
    MR_CHECK_STR(to_hex(out, 82), "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da"
                                  "3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
}

static void counted_key(uint8_t key[32], uint8_t from)
{
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(from + i);
}

MR_TEST(secure_sum_chacha20_gives_the_stream_of_rfc_8439)
{
    uint8_t key[32], nonce[12], out[114] = {0};
    counted_key(key, 0);
    from_hex("000000090000004a00000000", nonce);
    MR_CHECK_OK(crypto()->chacha20(key, nonce, 1, out, 64));
    MR_CHECK_STR(to_hex(out, 64), "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
                                  "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e");
    const char *text = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    from_hex("000000000000004a00000000", nonce);
    memcpy(out, text, 114);
    MR_CHECK_OK(crypto()->chacha20(key, nonce, 1, out, 114));
    MR_CHECK_STR(to_hex(out, 114), "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd62b357"
                                   "1639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
                                   "5af90bbf74a35be6b40b8eedf2785e42874d");
}

/* Of lengths around the blocks in which it is made; a mask that is subtracted cancels the same one. */
MR_TEST(secure_sum_mask_is_the_stream_of_its_key)
{
    enum { MOST = 5000 };
    static const size_t lengths[] = {0, 1, 15, 16, 17, 640 - 3, 1023, 1024, 1025, 2048, MOST};
    static uint8_t stream[4 * MOST];
    static uint32_t sum[MOST + 1];
    uint8_t key[32], nonce[12] = {0};
    counted_key(key, 7);
    for (uint32_t b = 0; b < sizeof stream / 64; b++)
        MR_CHECK_OK(crypto()->chacha20(key, nonce, b, stream + 64 * b, 64));
    MR_CHECK_OK(crypto()->chacha20(key, nonce, sizeof stream / 64, stream + sizeof stream / 64 * 64, sizeof stream % 64));
    for (int k = 0; k < MR_COUNT(lengths); k++) {
        size_t n = lengths[k];
        for (size_t i = 0; i <= MOST; i++)
            sum[i] = (uint32_t)i * 1000003;
        MR_CHECK_OK(crypto()->mask(key, false, sum, n));
        for (size_t i = 0; i < n; i++) {
            const uint8_t *p = stream + 4 * i;
            uint32_t word = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
            MR_CHECK_INT(sum[i], (uint32_t)i * 1000003 + word);
        }
        MR_CHECK_INT(sum[n], (uint32_t)n * 1000003);
        MR_CHECK_OK(crypto()->mask(key, true, sum, n));
        for (size_t i = 0; i <= MOST; i++)
            MR_CHECK_INT(sum[i], (uint32_t)i * 1000003);
    }
}

MR_TEST(secure_sum_seal_gives_the_text_and_tag_of_rfc_8439)
{
    uint8_t key[32], nonce[12], extra[12], sealed[114 + 16], text[114], zeros[114] = {0};
    const char *plain = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    counted_key(key, 0x80);
    from_hex("070000004041424344454647", nonce);
    from_hex("50515253c0c1c2c3c4c5c6c7", extra);
    memcpy(sealed, plain, 114);
    MR_CHECK_OK(crypto()->seal(key, nonce, bytes_of(extra, 12), sealed, 114));
    MR_CHECK_STR(to_hex(sealed, 114), "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b"
                                      "1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
                                      "3ff4def08e4b7a9de576d26586cec64b6116");
    MR_CHECK_STR(to_hex(sealed + 114, 16), "1ae10b594f09e26a7e902ecbd0600691");
    MR_CHECK_OK(crypto()->unseal(key, nonce, bytes_of(extra, 12), sealed, 114, text));
    MR_CHECK(memcmp(text, plain, 114) == 0);
    /* A changed byte of the text, the tag or the extra data; nothing of the text is given. */
    uint8_t *changed[] = {&sealed[40], &sealed[114 + 15], &extra[3]};
    for (int i = 0; i < MR_COUNT(changed); i++) {
        *changed[i] ^= 1;
        MR_CHECK_ERR(crypto()->unseal(key, nonce, bytes_of(extra, 12), sealed, 114, text), MR_INVALID_ARGUMENT, "was changed");
        MR_CHECK(memcmp(text, zeros, 114) == 0);
        *changed[i] ^= 1;
    }
    MR_CHECK_OK(crypto()->unseal(key, nonce, bytes_of(extra, 12), sealed, 114, text));
}

/* Appendix A.5. */
MR_TEST(secure_sum_unseal_gives_the_text_of_rfc_8439)
{
    static const char *const text =
        "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, or obsoleted by "
        "other documents at any time. It is inappropriate to use Internet-Drafts as reference material or to cite them other "
        "than as /\xe2\x80\x9cwork in progress./\xe2\x80\x9d";
    uint8_t key[32], nonce[12], extra[12], sealed[265 + 16], out[265];
    from_hex("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0", key);
    from_hex("000000000102030405060708", nonce);
    from_hex("f33388860000000000004e91", extra);
    MR_CHECK_INT(from_hex("64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0bdb7"
                          "b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c8559797a06e"
                          "f4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e99040c5a40433"
                          "225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a0bb2316053fa76991"
                          "955ebd63159434ecebb4e466dae5a1073a6727627097a1049e617d91d361094fa68f0ff77987130305beaba2eda04df997b71"
                          "4d6c6f2c29a6ad5cb4022b02709b"
                          "eead9d67890cbb22392336fea1851f38",
                          sealed),
                 sizeof sealed);
    MR_CHECK_OK(crypto()->unseal(key, nonce, bytes_of(extra, 12), sealed, 265, out));
    MR_CHECK(memcmp(out, text, 265) == 0);
}

/* With the key of these bytes, made for this one agreement. */
static mr_status *agree(const uint8_t secret[32], const uint8_t other[32], uint8_t out[32])
{
    uint8_t public[32];
    mr_crypto_key *k;
    MR_CHECK_OK(crypto()->key_new(secret, public, &k));
    mr_status *st = crypto()->agree(k, other, out);
    crypto()->key_free(k);
    return st;
}

static void public_of(const uint8_t secret[32], uint8_t out[32])
{
    mr_crypto_key *k;
    MR_CHECK_OK(crypto()->key_new(secret, out, &k));
    crypto()->key_free(k);
}

static void check_agreement(const char *scalar, const char *point, const char *expected)
{
    uint8_t k[32], u[32], out[32];
    from_hex(scalar, k);
    from_hex(point, u);
    MR_CHECK_OK(agree(k, u, out));
    MR_CHECK_STR(to_hex(out, 32), expected);
}

MR_TEST(secure_sum_x25519_gives_the_points_of_rfc_7748)
{
    check_agreement("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                    "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
                    "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
    check_agreement("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
                    "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
                    "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957");
}

MR_TEST(secure_sum_x25519_both_sides_agree)
{
    uint8_t a[32], b[32], pa[32], pb[32], s[32], t[32];
    from_hex("77076d0a7318a57d3c16c17251b26645c6c2f6c8a5a2a5d4b0b9c9a6e2b2e2a0", a);
    from_hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb", b);
    public_of(b, pb);
    MR_CHECK_STR(to_hex(pb, 32), "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
    public_of(a, pa);
    MR_CHECK_OK(agree(a, pb, s));
    MR_CHECK_OK(agree(b, pa, t));
    MR_CHECK(memcmp(s, t, 32) == 0);
}

MR_TEST(secure_sum_x25519_holds_after_a_thousand_turns)
{
    uint8_t k[32] = {9}, u[32] = {9}, out[32];
    for (int i = 0; i < 1000; i++) {
        MR_CHECK_OK(agree(k, u, out));
        memcpy(u, k, 32);
        memcpy(k, out, 32);
        if (i == 0)
            MR_CHECK_STR(to_hex(k, 32), "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
    }
    MR_CHECK_STR(to_hex(k, 32), "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
}

/* The points of small order, in all their encodings; the key can be used afterwards. */
MR_TEST(secure_sum_x25519_refuses_points_that_everybody_has)
{
    static const char *const points[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"};
    uint8_t secret[32], public[32], point[32], out[32], again[32];
    mr_crypto_key *k;
    counted_key(secret, 1);
    MR_CHECK_OK(crypto()->key_new(secret, public, &k));
    MR_CHECK_OK(crypto()->agree(k, public, out));
    for (int i = 0; i < MR_COUNT(points); i++) {
        from_hex(points[i], point);
        MR_CHECK_ERR(crypto()->agree(k, point, again), MR_INVALID_ARGUMENT, "small order");
    }
    MR_CHECK_OK(crypto()->agree(k, public, again));
    MR_CHECK(memcmp(out, again, 32) == 0);
    crypto()->key_free(k);
}

/* ---- shares ---- */

static void fill(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)mr_test_random();
}

MR_TEST(secure_sum_any_t_shares_bring_the_secret_back)
{
    enum { N = 9, T = 5 };
    uint8_t secret[32], random[(T - 1) * 32], shares[N][32], out[32];
    fill(secret, sizeof secret);
    fill(random, sizeof random);
    for (int i = 0; i < N; i++)
        mr_shamir_share(secret, random, T, (uint16_t)(i + 1), shares[i]);
    for (unsigned set = 0; set < 1u << N; set++) {
        uint16_t x[N], weights[N];
        const uint8_t *of[N];
        int n = 0;
        for (int i = 0; i < N; i++)
            if (set >> i & 1) {
                x[n] = (uint16_t)(i + 1);
                of[n++] = shares[i];
            }
        if (n < T - 1)
            continue;
        MR_CHECK(mr_shamir_weights(x, n, weights));
        mr_shamir_join(weights, of, n, out);
        MR_CHECK_INT(memcmp(out, secret, 32) == 0, n >= T);
    }
}

MR_TEST(secure_sum_shares_of_far_clients_work)
{
    uint8_t secret[32], random[2 * 32], shares[3][32], out[32];
    uint16_t x[3] = {1, 40000, 65535}, weights[3];
    fill(secret, sizeof secret);
    fill(random, sizeof random);
    for (int i = 0; i < 3; i++)
        mr_shamir_share(secret, random, 3, x[i], shares[i]);
    MR_CHECK(mr_shamir_weights(x, 3, weights));
    mr_shamir_join(weights, (const uint8_t *const[]){shares[0], shares[1], shares[2]}, 3, out);
    MR_CHECK(memcmp(out, secret, 32) == 0);
}

MR_TEST(secure_sum_share_numbers_must_differ)
{
    uint16_t weights[3];
    MR_CHECK(!mr_shamir_weights((uint16_t[]){1, 2, 1}, 3, weights));
    MR_CHECK(!mr_shamir_weights((uint16_t[]){0, 2, 1}, 3, weights));
}
