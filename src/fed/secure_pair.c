/* fed/secure_pair.c -- keys and masks that both sides of a secure sum compute in the same way.
 *
 * All keys depend on the hash of the client list, so clients with different lists have different keys. Keys are
 * wiped before a function returns. */
#include "fed/secure_internal.h"

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
mr_status *mr_secure_pair_key(const mr_crypto *crypto, const uint8_t shared[32], const uint8_t list[MR_SHA256],
                              const char *label, uint32_t from, uint32_t to, uint8_t out[32])
{
    mr_str info = {0};
    mr_str_appendz(&info, label);
    mr_put32(&info, from);
    mr_put32(&info, to);
    mr_status *st =
        crypto->hkdf(mr_secure_bytes(shared, 32), mr_secure_bytes(list, MR_SHA256), mr_str_view(&info), out, 32);
    mr_str_deinit(&info);
    return st;
}

/* Both clients derive the same key, because the numbers are ordered in it; only the sign differs. */
mr_status *mr_secure_add_pair_mask(const mr_secure_masking *m, mr_crypto_key *key, uint32_t peer,
                                   const uint8_t public[MR_X25519])
{
    uint8_t shared[32], mask[32];
    mr_status *st = NULL;
    MR_GO(m->crypto->agree(key, public, shared));
    MR_GO(mr_secure_pair_key(m->crypto, shared, m->list, "millrace pair", MR_MIN(m->self, peer),
                             MR_MAX(m->self, peer), mask));
    MR_GO(m->crypto->mask(mask, (m->self > peer) != m->cancel, m->values, m->n));
out:
    explicit_bzero(shared, sizeof shared);
    explicit_bzero(mask, sizeof mask);
    return st;
}

/* The seed serves as the shared secret of a pair with itself. */
mr_status *mr_secure_add_own_mask(const mr_secure_masking *m, const uint8_t seed[32])
{
    uint8_t mask[32];
    mr_status *st = mr_secure_pair_key(m->crypto, seed, m->list, "millrace self", m->self, m->self, mask);
    if (!st)
        st = m->crypto->mask(mask, m->cancel, m->values, m->n);
    explicit_bzero(mask, sizeof mask);
    return st;
}
