/* test_kv.c - blocks are never lost, never lent twice, and cached only with the right content. */
#include "engine/kv.h"

#include "tests/unit/tap.h"

#include <string.h>

#define MAX_BLOCKS 64

struct sequence {
    struct kv_seq kv;
    uint32_t full[MAX_BLOCKS], slide[MAX_BLOCKS];
    struct kv_hash hashes[MAX_BLOCKS];
    uint32_t ids[MAX_BLOCKS * 4];
    uint32_t tokens; /* computed */
    bool live;
};

static void seq_init(struct sequence *s)
{
    memset(s, 0, sizeof *s);
    s->kv.full = s->full;
    s->kv.slide = s->slide;
    s->kv.hashes = s->hashes;
}

static struct kv_options small(void)
{
    return (struct kv_options){.full_blocks = 32,
                               .slide_blocks = 20,
                               .first_full = 100,
                               .first_slide = 200,
                               .block_tokens = 4,
                               .window = 8,
                               .prefix_cache = true};
}

static void check_sum(struct kv_counts c)
{
    ck_assert_msg(c.free + c.cached + c.used == c.total, "%u free + %u cached + %u used != %u",
                  c.free, c.cached, c.used, c.total);
    ck_assert_uint_le(c.touched, c.total);
}

static void compute(struct kv *kv, struct sequence *s, uint32_t upto)
{
    ck_assert(kv_grow(kv, &s->kv, upto, upto));
    kv_hash_tokens(&s->kv, s->ids, upto, 4, 0);
    kv_commit(kv, &s->kv, upto);
    s->tokens = upto;
}

START_TEST(grow_is_all_or_nothing)
{
    struct kv_options o = small();
    struct kv *kv = kv_new(&o);
    struct sequence a, b;
    seq_init(&a);
    seq_init(&b);
    ck_assert(kv_grow(kv, &a.kv, 4 * 30, 4 * 3));
    ck_assert_uint_eq(kv_room(kv), 2);
    ck_assert(!kv_grow(kv, &b.kv, 9, 9)); /* three full blocks */
    ck_assert_uint_eq(b.kv.n_full, 0);
    ck_assert_uint_eq(b.kv.n_slide, 0);
    ck_assert(!kv_grow(kv, &b.kv, 8, 4 * 18)); /* 18 slide blocks of 17 */
    ck_assert_uint_eq(kv_room(kv), 2);
    ck_assert(kv_grow(kv, &b.kv, 8, 4 * 17));
    kv_release(kv, &a.kv);
    kv_release(kv, &b.kv);
    ck_assert_uint_eq(kv_full(kv).free, 32);
    ck_assert_uint_eq(kv_slide(kv).free, 20);
    kv_free(kv);
}
END_TEST

START_TEST(ids_are_the_machines)
{
    struct kv_options o = small();
    struct kv *kv = kv_new(&o);
    struct sequence a;
    seq_init(&a);
    compute(kv, &a, 20);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(a.full[i], 100 + i);
    kv_release(kv, &a.kv);
    kv_free(kv);
}
END_TEST

START_TEST(window_blocks_come_back)
{
    struct kv_options o = small(); /* window 8 = the token and 7 before it */
    struct kv *kv = kv_new(&o);
    static const struct {
        uint32_t tokens, first;
    } cases[] = {{1, 0}, {7, 0}, {10, 0}, {11, 1}, {14, 1}, {15, 2}, {40, 8}};
    struct sequence a;
    seq_init(&a);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        compute(kv, &a, cases[i].tokens);
        ck_assert_msg(a.kv.slide_first == cases[i].first, "%u tokens: first is %u, not %u",
                      cases[i].tokens, a.kv.slide_first, cases[i].first);
        ck_assert_uint_eq(kv_slide(kv).used, a.kv.n_slide - a.kv.slide_first);
        ck_assert_uint_eq(kv_full(kv).used, (cases[i].tokens + 3) / 4);
    }
    kv_release(kv, &a.kv);
    kv_free(kv);
}
END_TEST

START_TEST(a_prefix_is_found_again)
{
    struct kv_options o = small();
    struct kv *kv = kv_new(&o);
    struct sequence a, b, c;
    seq_init(&a);
    seq_init(&b);
    seq_init(&c);
    for (uint32_t i = 0; i < 40; i++)
        a.ids[i] = b.ids[i] = c.ids[i] = i;
    b.ids[13] = 99; /* block 3 differs */
    compute(kv, &a, 23);
    kv_release(kv, &a.kv);
    ck_assert_uint_eq(kv_full(kv).cached, 5);
    ck_assert_uint_eq(kv_full(kv).used, 0);

    kv_hash_tokens(&a.kv, a.ids, 23, 4, 0);
    ck_assert_uint_eq(kv_match(kv, &a.kv, 5), 5);
    ck_assert_uint_eq(kv_match(kv, &a.kv, 2), 2);
    kv_hash_tokens(&b.kv, b.ids, 23, 4, 0);
    ck_assert_uint_eq(kv_match(kv, &b.kv, 5), 3);
    kv_hash_tokens(&c.kv, c.ids, 23, 4, 7); /* another salt */
    ck_assert_uint_eq(kv_match(kv, &c.kv, 5), 0);

    kv_attach(kv, &b.kv, 3);
    ck_assert_uint_eq(b.full[2], 102);
    ck_assert_uint_eq(b.kv.slide_first, 1); /* position 12 sees 5 and what follows */
    kv_attach(kv, &a.kv, 5);
    ck_assert_uint_eq(kv_full(kv).used, 5); /* shared */
    kv_release(kv, &a.kv);
    ck_assert_uint_eq(kv_full(kv).used, 3);
    kv_release(kv, &b.kv);
    kv_free(kv);
}
END_TEST

START_TEST(a_hit_needs_its_window)
{
    struct kv_options o = small();
    o.slide_blocks = 6;
    struct kv *kv = kv_new(&o);
    struct sequence a, b;
    seq_init(&a);
    seq_init(&b);
    for (uint32_t i = 0; i < 40; i++) {
        a.ids[i] = i;
        b.ids[i] = 1000 + i;
    }
    for (uint32_t n = 1; n <= 32; n++)
        compute(kv, &a, n);
    kv_release(kv, &a.kv);
    compute(kv, &b, 9); /* three of the six slide blocks get another content */
    kv_hash_tokens(&a.kv, a.ids, 32, 4, 0);
    uint32_t hit = kv_match(kv, &a.kv, 8);
    ck_assert_uint_lt(hit, 8);          /* the full blocks are all there */
    if (hit) kv_attach(kv, &a.kv, hit); /* asserts inside that each block exists */
    kv_release(kv, &a.kv);
    kv_release(kv, &b.kv);
    kv_free(kv);
}
END_TEST

START_TEST(memory_is_touched_late)
{
    struct kv_options o = small();
    struct kv *kv = kv_new(&o);
    struct sequence a;
    for (uint32_t round = 0; round < 50; round++) { /* always other tokens */
        seq_init(&a);
        for (uint32_t i = 0; i < 16; i++)
            a.ids[i] = 100 * round + i;
        compute(kv, &a, 16);
        kv_release(kv, &a.kv);
    }
    ck_assert_uint_le(kv_full(kv).touched, 16); /* half */
    kv_free(kv);
}
END_TEST

START_TEST(without_a_prefix_cache_nothing_stays)
{
    struct kv_options o = small();
    o.prefix_cache = false;
    struct kv *kv = kv_new(&o);
    struct sequence a;
    seq_init(&a);
    ck_assert(kv_grow(kv, &a.kv, 40, 40));
    kv_commit(kv, &a.kv, 40);
    ck_assert_uint_eq(a.kv.slide_first, 8);
    kv_release(kv, &a.kv);
    ck_assert_uint_eq(kv_full(kv).cached + kv_slide(kv).cached, 0);
    kv_free(kv);
}
END_TEST

/* ---- random walk: a shadow says which content each block must have */

struct shadow {
    struct kv_hash full[32], slide[20];
};

static uint32_t rnd(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(*state >> 33) % n;
}

static void note(struct shadow *sh, const struct sequence *s, uint32_t from)
{
    for (uint32_t i = from; i < s->tokens / 4; i++) {
        sh->full[s->full[i] - 100] = s->hashes[i];
        if (i >= s->kv.slide_first) sh->slide[s->slide[i] - 200] = s->hashes[i];
    }
}

static void check_content(const struct shadow *sh, const struct sequence *s)
{
    for (uint32_t i = 0; i < s->tokens / 4; i++) {
        ck_assert(!memcmp(&sh->full[s->full[i] - 100], &s->hashes[i], sizeof s->hashes[i]));
        if (i >= s->kv.slide_first)
            ck_assert(!memcmp(&sh->slide[s->slide[i] - 200], &s->hashes[i], sizeof s->hashes[i]));
    }
}

static void begin(struct kv *kv, struct sequence *s, uint64_t *state)
{
    seq_init(s);
    s->live = true;
    uint32_t family = rnd(state, 3), fork = rnd(state, 48);
    for (uint32_t i = 0; i < MAX_BLOCKS * 4; i++)
        s->ids[i] = i < fork ? 1000 * family + i : rnd(state, 1u << 30);
    uint32_t want = 1 + rnd(state, 40);
    kv_hash_tokens(&s->kv, s->ids, want, 4, 0);
    uint32_t hit = kv_match(kv, &s->kv, (want - 1) / 4);
    kv_attach(kv, &s->kv, hit);
    s->tokens = 4 * hit;
}

static void advance(struct kv *kv, struct shadow *sh, struct sequence *s, uint64_t *state)
{
    uint32_t upto = s->tokens + 1 + rnd(state, 12), had = s->tokens / 4;
    if (upto > 120 || !kv_grow(kv, &s->kv, upto, upto)) return;
    kv_hash_tokens(&s->kv, s->ids, upto, 4, 0);
    s->tokens = upto;
    for (uint32_t i = had; i < upto / 4; i++) { /* what the machine would write */
        sh->full[s->full[i] - 100] = s->hashes[i];
        sh->slide[s->slide[i] - 200] = s->hashes[i];
    }
    kv_commit(kv, &s->kv, upto);
    note(sh, s, had);
}

START_TEST(random_walk)
{
    static struct sequence seqs[8];
    static struct shadow sh;
    struct kv_options o = small();
    struct kv *kv = kv_new(&o);
    uint64_t state = 42;
    uint32_t hits = 0, full = 0;
    for (uint32_t op = 0; op < 100000; op++) {
        struct sequence *s = &seqs[rnd(&state, 8)];
        if (!s->live) {
            begin(kv, s, &state);
            hits += s->tokens > 0;
            check_content(&sh, s);
        } else if (rnd(&state, 6)) {
            uint32_t before = s->tokens;
            advance(kv, &sh, s, &state);
            full += s->tokens == before;
        } else {
            kv_release(kv, &s->kv);
            s->live = false;
        }
        check_sum(kv_full(kv));
        check_sum(kv_slide(kv));
        if (op % 64 == 0)
            for (uint32_t i = 0; i < 8; i++)
                if (seqs[i].live) check_content(&sh, &seqs[i]);
    }
    ck_assert_uint_gt(hits, 100); /* the walk saw what it is about */
    ck_assert_uint_gt(full, 100);
    for (uint32_t i = 0; i < 8; i++)
        kv_release(kv, &seqs[i].kv);
    ck_assert_uint_eq(kv_full(kv).used, 0);
    ck_assert_uint_eq(kv_slide(kv).used, 0);
    kv_free(kv);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kv");
    TCase *t = tcase_create("kv");
    tcase_add_test(t, grow_is_all_or_nothing);
    tcase_add_test(t, ids_are_the_machines);
    tcase_add_test(t, window_blocks_come_back);
    tcase_add_test(t, a_prefix_is_found_again);
    tcase_add_test(t, a_hit_needs_its_window);
    tcase_add_test(t, memory_is_touched_late);
    tcase_add_test(t, without_a_prefix_cache_nothing_stays);
    tcase_add_test(t, random_walk);
    suite_add_tcase(s, t);
    return tap_run(s);
}
