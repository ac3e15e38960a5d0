/* Programs: what lowering writes, against golden files and by hand; what prog_check refuses.
 *   test_program --write DIR     writes the golden files anew, into DIR */
#include "engine/lower.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>

#define MOST_SEQS 256

/* A batch of which only the counts matter. */
static struct batch_seq seqs[MOST_SEQS];

static struct batch batch_of(uint32_t n, struct batch_seq each, uint32_t dp)
{
    struct batch b = {.seqs = seqs, .n_seqs = n, .n_rows = n * each.rows};
    for (uint32_t i = 0; i < n; i++) {
        seqs[i] = each;
        seqs[i].first_row = i * each.rows;
        seqs[i].dp = (uint16_t)(i % dp);
    }
    return b;
}

static struct model_shape shape_of(const char *name)
{
    char path[512];
    const char *dir = getenv("srcdir");
    struct error e = {0};
    struct model_shape s;
    snprintf(path, sizeof path, "%s/conf/models/%s.conf", dir ? dir : ".", name);
    ck_assert_msg(!shape_load_file(&s, path, &e), "%s", e.text);
    return s;
}

static struct plan plan_of(const char *text, const struct model_shape *s)
{
    struct machine_spec any = {.name = "any", .chips = 144};
    struct error e = {0};
    struct plan p;
    ck_assert_msg(!plan_parse(&p, text, &e) && !plan_complete(&p, s, &any, &e), "%s", e.text);
    return p;
}

static void lower(struct program *out, const struct model_shape *s, const struct plan *p,
                  const struct batch *b, bool fold)
{
    struct step_counts c;
    lower_count(b, 0, p, s->window, &c);
    lower_step(s, p, &c, &(struct lower_options){.router_zipf_s = 1, .fold = fold}, out);
}

/* ---- golden programs */

static const struct golden {
    const char *file, *model, *plan;
    bool fold;
    uint32_t seqs;
    struct batch_seq each;
} goldens[] = {
    {"nano-72x2-decode", "nano", "72x2", false, 4, {.rows = 1, .start = 200, .wants_logits = true}},
    {"nano-1x1-prefill", "nano", "1x1", false, 1, {.rows = 96, .start = 64}},
    {"gpt-oss-120b-16-decode-folded",
     "gpt-oss-120b",
     "1x16:tp=8,dp=2",
     true,
     64,
     {.rows = 1, .start = 1500, .wants_logits = true}},
    {"gpt-oss-120b-144-decode-folded",
     "gpt-oss-120b",
     "1x144",
     true,
     144,
     {.rows = 1, .start = 1500, .wants_logits = true}},
    {"gpt-oss-120b-2-prefill-folded",
     "gpt-oss-120b",
     "72x2",
     true,
     1,
     {.rows = 512, .start = 1024, .wants_logits = true}},
    {"gpt-oss-20b-4-moe-tp-folded",
     "gpt-oss-20b",
     "36x4:tp=4,dp=1,ep=1,mtp=4",
     true,
     8,
     {.rows = 1, .start = 99, .wants_logits = true}},
};
#define GOLDENS (int)(sizeof goldens / sizeof *goldens)

static void print_golden(const struct golden *g, FILE *out)
{
    static struct program p;
    struct model_shape s = shape_of(g->model);
    struct plan plan = plan_of(g->plan, &s);
    struct batch b = batch_of(g->seqs, g->each, plan.attn_dp);
    lower(&p, &s, &plan, &b, g->fold);
    prog_print(&p, out);
}

START_TEST(golden)
{
    const struct golden *g = &goldens[_i];
    char path[512], want[256], got[256], *text = NULL;
    const char *dir = getenv("srcdir");
    size_t n;
    snprintf(path, sizeof path, "%s/tests/golden/programs/%s.txt", dir ? dir : ".", g->file);
    FILE *f = fopen(path, "r"), *mem = open_memstream(&text, &n);
    ck_assert_msg(f && mem, "%s cannot be read", path);
    print_golden(g, mem);
    fclose(mem);
    mem = fmemopen(text, n, "r");
    for (int line = 1;; line++) {
        char *w = fgets(want, sizeof want, f), *p = fgets(got, sizeof got, mem);
        if (!w && !p) break;
        ck_assert_msg(w && p && strcmp(want, got) == 0, "%s:%d\nexpected %sis       %s", path, line,
                      w ? want : "the end\n", p ? got : "the end\n");
    }
    fclose(f);
    fclose(mem);
    free(text);
}
END_TEST

static const char *write_dir; /* with --write */

START_TEST(write_golden)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", write_dir, goldens[_i].file);
    FILE *f = fopen(path, "w");
    ck_assert_msg(f != NULL, "%s cannot be written", path);
    print_golden(&goldens[_i], f);
    ck_assert_int_eq(fclose(f), 0);
}
END_TEST

/* ---- counting */

START_TEST(counts)
{
    struct batch b = {.seqs = seqs, .n_seqs = 4};
    struct plan p = {1, 4, 2, 2, 4, 1};
    struct step_counts c;
    seqs[0] = (struct batch_seq){.dp = 0, .rows = 1, .start = 0, .wants_logits = true};
    seqs[1] = (struct batch_seq){.dp = 1, .rows = 1, .start = 20, .wants_logits = true};
    seqs[2] = (struct batch_seq){.dp = 1, .rows = 5, .start = 2};
    seqs[3] = (struct batch_seq){.replica = 1, .dp = 1, .rows = 100, .start = 0};
    lower_count(&b, 0, &p, 4, &c);
    ck_assert_uint_eq(c.rows, 7);
    ck_assert_uint_eq(c.prefill_rows, 5);
    ck_assert_uint_eq(c.seqs, 3);
    ck_assert_uint_eq(c.logit_rows, 2);
    ck_assert_uint_eq(c.dp_rows, 6); /* of group 1 */
    ck_assert_uint_eq(c.dp_logit_rows, 1);
    /* 21 keys; rows at 2 ... 6 see 3, 4, 5, 6, 7 keys, in the window of 4: 3, 4, 4, 4, 4 */
    ck_assert_uint_eq(c.full_kv, 21 + 25);
    ck_assert_uint_eq(c.slide_kv, 4 + 19);
    ck_assert_uint_eq(c.full_kv_seq, 21 + 7);
    ck_assert_uint_eq(c.slide_kv_seq, 4 + 7); /* rows 2 ... 6 read keys 0 ... 6 */
    lower_count(&b, LOWER_ALL_REPLICAS, &p, 4, &c);
    ck_assert_uint_eq(c.rows, 107);
    ck_assert_uint_eq(c.seqs, 4);
    lower_count(&b, 7, &p, 4, &c);
    ck_assert_uint_eq(c.rows + c.seqs + c.dp_rows, 0);
}
END_TEST

/* Against a count key by key. */
START_TEST(keys)
{
    struct plan p = {1, 1, 1, 1, 1, 1};
    for (uint32_t start = 0; start < 12; start++)
        for (uint32_t rows = 1; rows < 12; rows++)
            for (uint32_t window = 1; window < 12; window++) {
                struct batch b = batch_of(1, (struct batch_seq){.rows = rows, .start = start}, 1);
                struct step_counts c;
                uint64_t seen = 0, distinct = 0;
                for (uint32_t j = 0; j < start + rows; j++) {
                    bool any = false;
                    for (uint32_t pos = start; pos < start + rows; pos++) {
                        bool sees = j <= pos && pos - j < window;
                        seen += sees;
                        any = any || sees;
                    }
                    distinct += any;
                }
                lower_count(&b, 0, &p, window, &c);
                ck_assert_msg(c.slide_kv == seen && c.slide_kv_seq == distinct,
                              "start %u rows %u window %u: %lu, %lu, by hand %lu, %lu", start, rows,
                              window, (unsigned long)c.slide_kv, (unsigned long)c.slide_kv_seq,
                              (unsigned long)seen, (unsigned long)distinct);
            }
}
END_TEST

/* More groups than one pass counts. */
START_TEST(many_groups)
{
    struct plan p = {1, 200, 1, 200, 200, 1};
    struct batch b = batch_of(MOST_SEQS, (struct batch_seq){.rows = 1, .start = 3}, 200);
    struct step_counts c;
    lower_count(&b, 0, &p, 128, &c);
    ck_assert_uint_eq(c.rows, MOST_SEQS);
    ck_assert_uint_eq(c.dp_rows, 2);
    ck_assert_uint_eq(c.full_kv, 8);
}
END_TEST

/* ---- lowering */

static const char *const plans[] = {"1x1",
                                    "72x2",
                                    "18x8",
                                    "9x16",
                                    "1x144",
                                    "4x36",
                                    "1x16:tp=8,dp=2,ep=8,mtp=2",
                                    "2x8:tp=1,dp=8,ep=1,mtp=8"};

START_TEST(all_plans_check)
{
    static struct program p;
    static const char *const models[] = {"gpt-oss-20b", "gpt-oss-120b"};
    struct error e = {0};
    struct model_shape s = shape_of(models[_i % 2]);
    struct plan plan = plan_of(plans[_i / 2], &s);
    struct batch b = batch_of(50, (struct batch_seq){.rows = 3, .start = 70}, plan.attn_dp);
    for (int fold = 0; fold < 2; fold++) {
        lower(&p, &s, &plan, &b, fold);
        ck_assert_msg(!prog_check(&p, &e), "%s %s: %s", models[_i % 2], plans[_i / 2], e.text);
        uint32_t layers = 0;
        for (uint32_t i = 0; i < p.n_ops; i++)
            layers += p.ops[i].kind == OP_ATTENTION ? p.ops[i].repeat : 0;
        ck_assert_uint_eq(layers, s.layers);
        ck_assert_uint_eq(p.n_ops, 4 + 12 * (fold ? 2 : s.layers));
    }
}
END_TEST

/* A step without rows is a program too. */
START_TEST(empty)
{
    static struct program p;
    struct error e = {0};
    struct model_shape s = shape_of("nano");
    struct plan plan = plan_of("1x1", &s);
    struct batch b = {.seqs = seqs};
    lower(&p, &s, &plan, &b, false);
    ck_assert_msg(!prog_check(&p, &e), "%s", e.text);
    for (uint32_t i = 0; i < p.n_ops; i++)
        ck_assert(p.ops[i].rows == 0 && p.ops[i].link_bytes == 0 && p.ops[i].experts == 0);
}
END_TEST

/* Bytes on the links, by hand: 120b on 16 chips, tp 8, dp 2, 64 sequences of one row. */
START_TEST(link_bytes)
{
    static struct program p;
    struct model_shape s = shape_of("gpt-oss-120b");
    struct plan plan = plan_of("1x16:tp=8,dp=2", &s);
    struct batch b = batch_of(64, (struct batch_seq){.rows = 1, .wants_logits = true}, 2);
    lower(&p, &s, &plan, &b, true);
    for (uint32_t i = 0; i < p.n_ops; i++) {
        const struct prog_op *op = &p.ops[i];
        uint64_t want = 0;
        if (op->kind == OP_ALL_REDUCE) want = 2ull * 32 * 2880 * 2 * 7 / 8;
        if (op->kind == OP_ALL_GATHER) want = 64ull * 2880 * 2 / 2;
        if (op->kind == OP_COMBINE) want = 2ull * 64 * 2880 * 2 * 15 / 16;
        if (op->kind == OP_HEAD_NORM) want = 64ull * 2880 * 2 / 2;
        if (op->kind == OP_GATHER_LOGITS) want = 64ull * 201088 * 2 * 15 / 16;
        ck_assert_msg(op->link_bytes == want, "%s: %lu bytes, by hand %lu", op_name(op->kind),
                      (unsigned long)op->link_bytes, (unsigned long)want);
    }
}
END_TEST

/* ---- what prog_check refuses: one change to a good program, and the rule that it breaks */

static void swap_ops(struct program *p, uint32_t a, uint32_t b)
{
    struct prog_op op = p->ops[a];
    p->ops[a] = p->ops[b];
    p->ops[b] = op;
}

static void drop_op(struct program *p, uint32_t at)
{
    memmove(&p->ops[at], &p->ops[at + 1], (--p->n_ops - at) * sizeof p->ops[0]);
}

/* Ops of nano: 0 embed; 1 norm, 2 qkv, 3 rope_kv, 4 attention, 5 o_proj, 6 all_reduce, 7 norm,
 * 8 all_gather, 9 route, 10 experts_up, 11 experts_down, 12 combine; 13 norm ...; 49 head_norm,
 * 50 logits, 51 gather_logits. */
static void damage(struct program *p, int i)
{
    switch (i) {
    case 0:
        p->ops[6].kind = OP_NORM;
        break;
    case 1:
        p->ops[8].kind = OP_NORM;
        break;
    case 2:
        p->ops[12].kind = OP_ALL_REDUCE;
        break;
    case 3:
        swap_ops(p, 4, 5);
        break;
    case 4:
        drop_op(p, 14);
        break;
    case 5:
        p->ops[10].in = BUF_NORM2;
        break;
    case 6:
        p->ops[2].n++;
        break;
    case 7:
        p->ops[6].group = 1;
        break;
    case 8:
        p->ops[13].layer = 0;
        break;
    case 9:
        p->ops[20].layer = 3;
        break;
    case 10:
        p->n_ops = 13;
        break;
    case 11:
        p->n_ops = 50;
        break;
    case 12:
        p->ops[p->n_ops++] = p->ops[49];
        break;
    case 13:
        p->ops[9].kind = (enum op_kind)99;
        break;
    case 14:
        p->ops[3].rows = 1000;
        break;
    case 15:
        p->ops[4].sliding = !p->ops[4].sliding;
        break;
    case 16:
        p->ops[1].repeat = 3;
        break;
    case 17:
        p->logit_rows = p->seqs + 1;
        break;
    case 18:
        p->n_ops = PROG_MAX_OPS + 1;
        break;
    case 19:
        p->ops[50].in = BUF_X;
        break;
    case 20:
        p->ops[0].out = BUF_NORM;
        break;
    case 21:
        p->n_ops = 0;
        break;
    }
}

static const char *const rules[] = {
    "program: op 6 (norm, layer 0, OPART -> X): without a collective a chip cannot turn "
    "\"partial\" "
    "into \"rows\"",
    "program: op 8 (norm, layer 0, NORM2 -> MOE_IN): without a collective a chip cannot turn "
    "\"rows\" into \"all\"",
    "program: op 12 (all_reduce, layer 0, EXP -> X): this collective cannot turn \"slots\" into "
    "\"rows\"",
    "program: op 4 (o_proj, layer 0, ATT -> OPART): reads ATT, which nothing wrote",
    "program: op 14 (rope_kv, layer 1, Q -> Q): reads Q of an earlier layer",
    "program: op 10 (experts_up, layer 0, NORM2 -> ACT): without a collective a chip cannot turn "
    "\"rows\" into \"acts\"",
    "program: op 2 (qkv, layer 0, NORM -> Q): is 129 x 128, shape and plan make it 128 x 128",
    "program: op 6 (all_reduce, layer 0, OPART -> X): group 1 stride 1, the plan has 2 stride 1",
    "program: op 13 (norm, layer 0, X -> NORM): the layer is out of order or out of the model",
    "program: op 20 (all_gather, layer 3, NORM2 -> MOE_IN): is in the middle of another layer",
    "program: ends after op 13, 3 layers are missing",
    "program: ends after op 50, logits is missing",
    "program: op 52 (head_norm, layer 3, X -> HEAD_IN): the step had ended before it",
    "program: op 9 (?, layer 0, MOE_IN -> ROUTE): no such op or buffer",
    "program: op 3 (rope_kv, layer 0, Q -> Q): has 1000 rows, the step has 4",
    "program: op 4 (attention, layer 0, Q -> ATT): its layer is sliding",
    "program: op 1 (norm, layer 0, X -> NORM): repeats more layers than the model has of this kind",
    "program: 4 rows, 0 of prefill, of 4 sequences, 5 with logits",
    "program: 5137 ops, 4 layers: more than fit",
    "program: op 50 (logits, layer 3, X -> LOGIT_PART): without a collective a chip cannot turn "
    "\"rows\" into \"vocab\"",
    "program: op 0 (embed, layer 0, - -> NORM): here must be embed, - -> X",
    "program: ends after op 0, embed is missing",
};
#define RULES (int)(sizeof rules / sizeof *rules)

START_TEST(refused)
{
    static struct program p;
    struct error e = {0};
    struct model_shape s = shape_of("nano");
    struct plan plan = plan_of("72x2", &s);
    struct batch b = batch_of(4, (struct batch_seq){.rows = 1, .wants_logits = true}, plan.attn_dp);
    lower(&p, &s, &plan, &b, false);
    ck_assert_msg(!prog_check(&p, &e), "%s", e.text);
    damage(&p, _i);
    ck_assert_int_eq(prog_check(&p, &e), ERR_INVAL);
    ck_assert_str_eq(e.text, rules[_i]);
}
END_TEST

START_TEST(names)
{
    for (unsigned i = 0; i < OP_COUNT; i++)
        ck_assert_str_ne(op_name((enum op_kind)i), "?");
    for (unsigned i = 0; i < BUF_COUNT; i++)
        ck_assert_str_ne(buf_name((enum prog_buf)i), "-");
    ck_assert_str_eq(op_name((enum op_kind)OP_COUNT), "?");
    ck_assert_str_eq(buf_name(BUF_NONE), "-");
    ck_assert_str_eq(buf_name(BUF_X), "X");
    ck_assert_int_eq(buf_dist(BUF_OPART), DIST_PARTIAL);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("program");
    TCase *t = tcase_create("program");
    suite_add_tcase(s, t);
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        write_dir = argv[2];
        tcase_add_loop_test(t, write_golden, 0, GOLDENS);
        return tap_run(s);
    }
    tcase_add_loop_test(t, golden, 0, GOLDENS);
    tcase_add_test(t, counts);
    tcase_add_test(t, keys);
    tcase_add_test(t, many_groups);
    tcase_add_loop_test(t, all_plans_check, 0, 2 * (int)(sizeof plans / sizeof *plans));
    tcase_add_test(t, empty);
    tcase_add_test(t, link_bytes);
    tcase_add_loop_test(t, refused, 0, RULES);
    tcase_add_test(t, names);
    return tap_run(s);
}
