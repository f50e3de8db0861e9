/* fed/secure_pair.c -- keys and masks that both sides of a secure sum compute in the same way.
 *
 * All keys depend on the hash of the client list, so clients with different lists have different keys. Keys are
 * wiped before a function returns. */
#include "fed/chacha.h"
#include "fed/secure_internal.h"
#include "fed/x25519.h"

/* A binary search: a list may have MR_SECURE_MOST clients, and each is looked up. */
int mr_secure_find(const uint32_t *ids, int n, uint32_t id)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && ids[lo] == id ? lo : -1;
}

/* Label, sender and receiver are part of the derivation, so each purpose and direction has its own key. */
void mr_secure_pair_key(const uint8_t shared[32], const uint8_t list[MR_SHA256], const char *label, uint32_t from, uint32_t to,
                        uint8_t out[32])
{
    mr_str info = {0};
    mr_str_appendz(&info, label);
    mr_put32(&info, from);
    mr_put32(&info, to);
    mr_hkdf_sha256(shared, 32, list, MR_SHA256, info.p, info.n, out, 32);
    mr_str_deinit(&info);
}

/* Both clients derive the same key, because the ids are ordered in it; only the sign differs. */
bool mr_secure_add_pair_mask(const uint8_t secret[32], const uint8_t other[32], const uint8_t list[MR_SHA256], uint32_t self,
                             uint32_t peer, bool cancel, uint32_t *values, size_t n)
{
    uint8_t shared[32], key[32];
    if (!mr_x25519(secret, other, shared))
        return false;
    mr_secure_pair_key(shared, list, "millrace pair", MR_MIN(self, peer), MR_MAX(self, peer), key);
    mr_chacha20_mask(key, (self > peer) != cancel, values, n);
    mr_wipe(shared, sizeof shared);
    mr_wipe(key, sizeof key);
    return true;
}

/* The seed serves as the shared secret of a pair with itself. */
void mr_secure_add_own_mask(const uint8_t seed[32], const uint8_t list[MR_SHA256], uint32_t self, bool cancel, uint32_t *values,
                            size_t n)
{
    uint8_t key[32];
    mr_secure_pair_key(seed, list, "millrace self", self, self, key);
    mr_chacha20_mask(key, cancel, values, n);
    mr_wipe(key, sizeof key);
}
