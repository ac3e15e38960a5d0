/* test_sched.c - who runs: order, budgets, preemption; then a long random walk. */
#include "engine/sched.h"

#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>

#define MAX_TOKENS 160
#define BLOCK      4

struct sequence {
    struct sched_seq s;
    uint32_t full[MAX_TOKENS], slide[MAX_TOKENS], ids[MAX_TOKENS];
    struct kv_hash hashes[MAX_TOKENS];
    uint32_t prompt, want; /* tokens to sample */
    uint32_t sampled;
    bool live;
};

struct rig {
    struct kv *kv[2];
    struct sched *sched;
    struct sched_step step;
    struct sched_options o;
    uint32_t slide_blocks; /* 0: as many as full ones */
};

static void rig_new(struct rig *r, uint32_t blocks, const struct sched_options *o)
{
    uint32_t slide = r->slide_blocks ? r->slide_blocks : blocks;
    r->o = *o;
    if (!r->o.block_tokens) r->o.block_tokens = BLOCK;
    if (!r->o.groups) r->o.groups = 1;
    for (uint32_t g = 0; g < r->o.groups; g++)
        r->kv[g] = kv_new(&(struct kv_options){.full_blocks = blocks,
                                               .slide_blocks = slide,
                                               .first_full = g * blocks,
                                               .first_slide = g * slide,
                                               .block_tokens = BLOCK,
                                               .window = 8,
                                               .prefix_cache = r->o.prefix_cache});
    r->sched = sched_new(&r->o, r->kv);
    ck_assert_ptr_nonnull(r->sched);
}

static void rig_free(struct rig *r)
{
    sched_free(r->sched);
    for (uint32_t g = 0; g < r->o.groups; g++)
        kv_free(r->kv[g]);
}

static void seq_new(struct sequence *q, uint64_t order, uint32_t prompt)
{
    memset(q, 0, sizeof *q);
    q->s.kv.full = q->full;
    q->s.kv.slide = q->slide;
    q->s.kv.hashes = q->hashes;
    q->s.ids = q->ids;
    q->s.order = order;
    q->s.tokens = q->prompt = prompt;
    q->live = true;
    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        q->ids[i] = (uint32_t)order * 1000 + i;
}

static void add(struct rig *r, struct sequence *q, uint64_t order, uint32_t prompt)
{
    seq_new(q, order, prompt);
    sched_add(r->sched, &q->s);
}

/* Runs the planned step: every row computed, a token for each that wants one. */
static void run(struct rig *r)
{
    for (uint32_t i = 0; i < r->step.n; i++) {
        struct sched_item *it = &r->step.items[i];
        struct sequence *q = (struct sequence *)it->seq;
        sched_commit(r->sched, it);
        if (!it->last) continue;
        q->sampled++;
        sched_token(r->sched, &q->s);
    }
}

static void plan(struct rig *r)
{
    sched_plan(r->sched, &r->step);
}

/* "a3 b1": the items, by the sequences' orders, with their rows. */
static const char *show(const struct rig *r)
{
    static char text[256];
    size_t n = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < r->step.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%c%u", i ? " " : "",
                              (char)('a' + r->step.items[i].seq->order), r->step.items[i].rows);
    return text;
}

START_TEST(decodes_first_then_chunks_then_new_ones)
{
    struct rig r = {0};
    struct sequence a, b, c;
    rig_new(&r, 64, &(struct sched_options){.step_tokens = 10, .chunk_tokens = 6, .max_seqs = 8});
    add(&r, &a, 0, 3);
    plan(&r);
    ck_assert_str_eq(show(&r), "a3");
    ck_assert(r.step.items[0].last && r.step.items[0].admitted);
    run(&r);
    add(&r, &b, 1, 20);
    plan(&r);
    ck_assert_str_eq(show(&r), "a1 b6");
    ck_assert(!r.step.items[1].last);
    run(&r);
    add(&r, &c, 2, 9);
    plan(&r);
    ck_assert_str_eq(show(&r), "a1 b6 c3"); /* what the budget leaves */
    ck_assert(!r.step.items[1].admitted && r.step.items[2].admitted);
    run(&r);
    plan(&r);
    ck_assert_str_eq(show(&r), "a1 b6 c3");
    run(&r);
    plan(&r);
    ck_assert_str_eq(show(&r), "a1 b2 c3");
    ck_assert(r.step.items[1].last && r.step.items[2].last);
    run(&r);
    plan(&r);
    ck_assert_str_eq(show(&r), "a1 b1 c1");
    rig_free(&r);
}
END_TEST

START_TEST(priority_then_arrival)
{
    struct rig r = {0};
    struct sequence q[4];
    static const int32_t priority[] = {5, 0, 5, -1};
    rig_new(&r, 64, &(struct sched_options){.step_tokens = 16, .chunk_tokens = 16, .max_seqs = 3});
    for (uint32_t i = 0; i < 4; i++) {
        seq_new(&q[i], i, 2);
        q[i].s.priority = priority[i];
        sched_add(r.sched, &q[i].s);
    }
    plan(&r);
    ck_assert_str_eq(show(&r), "d2 b2 a2");
    ck_assert_uint_eq(sched_running(r.sched), 3);
    ck_assert_uint_eq(sched_waiting(r.sched), 1);
    run(&r);
    sched_remove(r.sched, &q[1].s);
    plan(&r);
    ck_assert_str_eq(show(&r), "d1 a1 c2");
    rig_free(&r);
}
END_TEST

START_TEST(the_last_gives_way_and_comes_back)
{
    struct rig r = {0};
    struct sequence a, b;
    rig_new(&r, 6, &(struct sched_options){.step_tokens = 32, .chunk_tokens = 32, .max_seqs = 4});
    add(&r, &a, 0, 8); /* 2 blocks */
    add(&r, &b, 1, 8);
    plan(&r);
    ck_assert_str_eq(show(&r), "a8 b8");
    run(&r); /* both have 9 tokens: a third block each; all six are taken */
    for (uint32_t i = 0; i < 4; i++) {
        plan(&r);
        ck_assert_str_eq(show(&r), "a1 b1");
        run(&r);
    }
    plan(&r); /* a's 13th token needs a block */
    ck_assert_str_eq(show(&r), "a1");
    ck_assert_uint_eq(r.step.preempted, 1);
    ck_assert_uint_eq(b.s.computed, 0);
    ck_assert_uint_eq(b.s.tokens, 13);
    ck_assert_uint_eq(sched_waiting(r.sched), 1);
    run(&r);
    plan(&r); /* b needs four blocks, two are free */
    ck_assert_str_eq(show(&r), "a1");
    run(&r);
    sched_remove(r.sched, &a.s);
    plan(&r);
    ck_assert_str_eq(show(&r), "b13"); /* all anew, one sampling */
    ck_assert(r.step.items[0].last && r.step.items[0].admitted);
    rig_free(&r);
}
END_TEST

START_TEST(nobody_gives_way_for_one_that_waits)
{
    struct rig r = {0};
    struct sequence a, b, c;
    rig_new(&r, 7, &(struct sched_options){.step_tokens = 32, .chunk_tokens = 32, .max_seqs = 4});
    add(&r, &a, 1, 16);
    plan(&r);
    run(&r);
    seq_new(&b, 0, 12);
    b.s.priority = -9;
    sched_add(r.sched, &b.s);
    add(&r, &c, 2, 1); /* would fit, but is behind b */
    for (uint32_t i = 0; i < 3; i++) {
        plan(&r);
        ck_assert_str_eq(show(&r), "b1"); /* order 1 is shown as b: it is the one that runs */
        ck_assert_uint_eq(r.step.preempted, 0);
        run(&r);
    }
    rig_free(&r);
}
END_TEST

START_TEST(newcomers_leave_a_block_for_each_that_runs)
{
    for (uint32_t blocks = 6; blocks <= 7; blocks++) {
        struct rig r = {0};
        struct sequence a, b;
        rig_new(&r, blocks,
                &(struct sched_options){.step_tokens = 32, .chunk_tokens = 32, .max_seqs = 4});
        add(&r, &a, 0, 12);
        plan(&r);
        run(&r);
        add(&r, &b, 1, 8);
        plan(&r); /* a holds four blocks, b needs two */
        ck_assert_str_eq(show(&r), blocks == 6 ? "a1" : "a1 b8");
        rig_free(&r);
    }
}
END_TEST

START_TEST(a_planned_decode_can_still_give_way)
{
    struct rig r = {.slide_blocks = 6};
    struct sequence a, b;
    rig_new(&r, 64, &(struct sched_options){.step_tokens = 32, .chunk_tokens = 8, .max_seqs = 4});
    add(&r, &a, 0, 96);
    plan(&r);
    run(&r);
    plan(&r);
    run(&r);
    add(&r, &b, 1, 4);
    plan(&r);
    ck_assert_str_eq(show(&r), "a8 b4");
    run(&r);
    for (uint32_t i = 0; i < 4; i++) {
        plan(&r);
        ck_assert_str_eq(show(&r), "b1 a8");
        run(&r);
    }
    plan(&r); /* b takes its third slide block first, then a's chunk needs two: one is left */
    ck_assert_str_eq(show(&r), "a8");
    ck_assert_uint_eq(r.step.rows, 8);
    ck_assert_uint_eq(r.step.preempted, 1);
    rig_free(&r);
}
END_TEST

START_TEST(held_ones_rest)
{
    struct rig r = {0};
    struct sequence a, b;
    rig_new(&r, 64, &(struct sched_options){.step_tokens = 32, .chunk_tokens = 32, .max_seqs = 4});
    add(&r, &a, 0, 4);
    add(&r, &b, 1, 4);
    plan(&r);
    run(&r);
    a.s.held = true;
    plan(&r);
    ck_assert_str_eq(show(&r), "b1");
    run(&r);
    a.s.held = false;
    plan(&r);
    ck_assert_str_eq(show(&r), "a1 b1");
    rig_free(&r);
}
END_TEST

START_TEST(a_known_prefix_is_not_computed_again)
{
    struct rig r = {0};
    struct sequence a, b;
    rig_new(&r, 64,
            &(struct sched_options){
                .step_tokens = 64, .chunk_tokens = 64, .max_seqs = 4, .prefix_cache = true});
    add(&r, &a, 0, 16);
    plan(&r);
    run(&r);
    sched_remove(r.sched, &a.s);
    seq_new(&b, 1, 16);
    memcpy(b.ids, a.ids, sizeof b.ids);
    sched_add(r.sched, &b.s);
    plan(&r);
    ck_assert_str_eq(show(&r), "b4"); /* not all four blocks: one token must be computed */
    ck_assert_uint_eq(b.s.reused, 12);
    rig_free(&r);
}
END_TEST

START_TEST(groups_fill_evenly)
{
    struct rig r = {0};
    struct sequence q[4];
    rig_new(
        &r, 8,
        &(struct sched_options){.step_tokens = 64, .chunk_tokens = 64, .max_seqs = 8, .groups = 2});
    for (uint32_t i = 0; i < 4; i++)
        add(&r, &q[i], i, 8);
    plan(&r);
    ck_assert_uint_eq(r.step.n, 4);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(q[i].s.dp, i % 2);
    rig_free(&r);
}
END_TEST

/* ---- random walk */

static uint32_t rnd(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(*state >> 33) % n;
}

static void check_counts(const struct rig *r)
{
    for (uint32_t g = 0; g < r->o.groups; g++) {
        struct kv_counts f = kv_full(r->kv[g]), s = kv_slide(r->kv[g]);
        ck_assert_uint_eq(f.free + f.cached + f.used, f.total);
        ck_assert_uint_eq(s.free + s.cached + s.used, s.total);
        if (!sched_running(r->sched)) ck_assert_uint_eq(f.used + s.used, 0);
    }
}

static void check_step(const struct rig *r)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < r->step.n; i++) {
        const struct sched_item *it = &r->step.items[i];
        const struct sched_seq *q = it->seq;
        rows += it->rows;
        ck_assert(q->running && !q->held);
        ck_assert_uint_ge(it->rows, 1);
        ck_assert_uint_le(it->rows, r->o.chunk_tokens);
        ck_assert_uint_eq(it->start, q->computed);
        ck_assert_uint_le(it->start + it->rows, q->tokens);
        ck_assert(it->last == (it->start + it->rows == q->tokens));
        ck_assert_uint_ge(q->kv.n_full * BLOCK, it->start + it->rows);
        ck_assert_uint_ge(q->kv.n_slide * BLOCK, it->start + it->rows);
        if (it->start >= 8) ck_assert_uint_le(q->kv.slide_first * BLOCK, it->start - 7);
        for (uint32_t j = 0; j < i; j++)
            ck_assert_ptr_ne(r->step.items[j].seq, q);
    }
    ck_assert_uint_eq(rows, r->step.rows);
    ck_assert_uint_le(rows, r->o.step_tokens);
}

struct walk {
    uint64_t state, order;
    uint32_t live, ended, preempted, idle;
    struct sequence q[24];
};

static void walk_add(struct walk *w, struct rig *r)
{
    struct sequence *q = &w->q[rnd(&w->state, 24)];
    if (q->live) return;
    uint32_t prompt = 1 + rnd(&w->state, 60);
    seq_new(q, w->order++, prompt);
    q->want = 1 + rnd(&w->state, 40);
    q->s.priority = (int32_t)rnd(&w->state, 3);
    for (uint32_t i = 0; i < prompt; i++) /* half of them share a beginning */
        if (q->s.order % 2) q->ids[i] = i < 24 ? i : q->ids[i];
    sched_add(r->sched, &q->s);
    w->live++;
}

static void walk_end(struct walk *w, struct rig *r, struct sequence *q)
{
    sched_remove(r->sched, &q->s);
    q->live = false;
    w->live--;
    w->ended++;
}

static void walk_run(struct walk *w, struct rig *r)
{
    run(r);
    for (uint32_t i = 0; i < 24; i++)
        if (w->q[i].live && w->q[i].sampled == w->q[i].want) walk_end(w, r, &w->q[i]);
}

static void walk(struct rig *r, uint32_t ops)
{
    static struct walk w;
    memset(&w, 0, sizeof w);
    for (uint32_t op = 0; op < ops; op++) {
        switch (rnd(&w.state, 8)) {
        case 0:
        case 1:
            walk_add(&w, r);
            break;
        case 2: {
            struct sequence *q = &w.q[rnd(&w.state, 24)];
            if (q->live && rnd(&w.state, 8) == 0) walk_end(&w, r, q);
            break;
        }
        case 3: {
            struct sequence *q = &w.q[rnd(&w.state, 24)];
            if (q->live && q->s.running) q->s.held = rnd(&w.state, 2);
            break;
        }
        default:
            plan(r);
            check_step(r);
            w.preempted += r->step.preempted;
            walk_run(&w, r);
        }
        check_counts(r);
    }
    for (uint32_t i = 0; i < 24; i++)
        w.q[i].s.held = false;
    while (w.live) { /* everybody gets through */
        uint32_t was = w.ended;
        for (uint32_t i = 0; i < 4000 && w.ended == was; i++) {
            plan(r);
            check_step(r);
            walk_run(&w, r);
        }
        ck_assert_msg(w.ended > was, "%u sequences are stuck", w.live);
    }
    check_counts(r);
    ck_assert_uint_gt(w.preempted, 20);
    ck_assert_uint_gt(w.ended, ops / 100);
}

START_TEST(random_walk)
{
    static const struct sched_options cases[] = {
        {.step_tokens = 16, .chunk_tokens = 16, .max_seqs = 8, .prefix_cache = true},
        {.step_tokens = 12, .chunk_tokens = 1, .max_seqs = 12},
        {.step_tokens = 64, .chunk_tokens = 24, .max_seqs = 16, .groups = 2, .prefix_cache = true},
    };
    static const uint32_t slides[] = {0, 12, 14}; /* a window and the longest chunk are 9 */
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig r = {.slide_blocks = slides[i]};
        rig_new(&r, 27, &cases[i]); /* one sequence fits: 60 + 40 tokens are 25 blocks */
        walk(&r, 34000);
        rig_free(&r);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sched");
    TCase *t = tcase_create("sched");
    tcase_add_test(t, decodes_first_then_chunks_then_new_ones);
    tcase_add_test(t, priority_then_arrival);
    tcase_add_test(t, the_last_gives_way_and_comes_back);
    tcase_add_test(t, nobody_gives_way_for_one_that_waits);
    tcase_add_test(t, newcomers_leave_a_block_for_each_that_runs);
    tcase_add_test(t, a_planned_decode_can_still_give_way);
    tcase_add_test(t, held_ones_rest);
    tcase_add_test(t, a_known_prefix_is_not_computed_again);
    tcase_add_test(t, groups_fill_evenly);
    tcase_add_test(t, random_walk);
    suite_add_tcase(s, t);
    return tap_run(s);
}
