/* bpe.c - byte-pair merging with a hash table of pairs; short pieces by scanning, long ones with a
 * heap. */
#include "engine/bpe.h"

#include <stdlib.h>
#include <string.h>

#define SHORT_BYTES 64 /* up to here scanning beats the heap: all fits in a few cache lines */
#define NO_RANK     UINT32_MAX
#define NIL         UINT32_MAX

struct merge {
    uint32_t left, right, id; /* id = TOKEN_NONE: empty slot */
    uint32_t rank;
};

struct bpe {
    struct merge *slots; /* [mask + 1], at most half full */
    uint32_t mask, n;
    uint32_t byte_id[256];
};

static struct merge *slot(const struct bpe *b, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    uint64_t h = (key ^ key >> 29) * 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */
    uint32_t i = (uint32_t)(h >> 32) & b->mask;
    while (b->slots[i].id != TOKEN_NONE && (b->slots[i].left != left || b->slots[i].right != right))
        i = (i + 1) & b->mask;
    return &b->slots[i];
}

static bool resize(struct bpe *b, uint32_t cap)
{
    struct bpe bigger = *b;
    bigger.slots = malloc(cap * sizeof *b->slots);
    if (!bigger.slots) return false;
    memset(bigger.slots, 0xFF, cap * sizeof *b->slots);
    bigger.mask = cap - 1;
    for (uint32_t i = 0; b->slots && i <= b->mask; i++)
        if (b->slots[i].id != TOKEN_NONE)
            *slot(&bigger, b->slots[i].left, b->slots[i].right) = b->slots[i];
    free(b->slots);
    *b = bigger;
    return true;
}

/* Of two merges of the same pair the first stays. */
static bool add(struct bpe *b, const struct merge *m)
{
    if (b->n >= (b->mask + 1) / 2 && (b->mask > 1u << 29 || !resize(b, (b->mask + 1) * 2)))
        return false;
    struct merge *s = slot(b, m->left, m->right);
    if (s->id != TOKEN_NONE) return true;
    *s = *m;
    b->n++;
    return true;
}

static bool mergeable(const struct vocab *v, uint32_t id)
{
    return id < v->n && v->tokens[id].bytes && !v->tokens[id].special;
}

static enum err add_listed(struct bpe *b, const struct vocab *v, const struct token_map *words,
                           struct error *e)
{
    char both[2 * TOKEN_MAX_BYTES];
    for (uint32_t i = 0; i < v->n_merges; i++) {
        uint32_t l = v->merges[i][0], r = v->merges[i][1];
        if (!mergeable(v, l) || !mergeable(v, r))
            return err_set(e, ERR_PARSE, "merge %u: ids %u and %u are not both tokens", i, l, r);
        const struct vocab_token *a = &v->tokens[l], *z = &v->tokens[r];
        memcpy(both, a->bytes, a->len);
        memcpy(both + a->len, z->bytes, z->len);
        uint32_t id = token_map_find(words, both, a->len + z->len);
        if (id == TOKEN_NONE)
            return err_set(e, ERR_PARSE, "merge %u: ids %u and %u together are no token", i, l, r);
        if (!add(b, &(struct merge){l, r, id, i}))
            return err_set(e, ERR_NOMEM, "merge table of %u pairs", v->n_merges);
    }
    return ERR_OK;
}

static enum err add_from_ranks(struct bpe *b, const struct vocab *v, const struct token_map *words,
                               struct error *e)
{
    for (uint32_t id = 0; id < v->n; id++) {
        const struct vocab_token *t = &v->tokens[id];
        if (!t->bytes || t->special) continue;
        for (uint32_t k = 1; k < t->len; k++) {
            uint32_t l = token_map_find(words, t->bytes, k);
            if (l == TOKEN_NONE) continue;
            uint32_t r = token_map_find(words, t->bytes + k, t->len - k);
            if (r != TOKEN_NONE && !add(b, &(struct merge){l, r, id, id}))
                return err_set(e, ERR_NOMEM, "merge table of %u tokens", v->n);
        }
    }
    return ERR_OK;
}

static enum err fill(struct bpe *b, const struct vocab *v, const struct token_map *words,
                     struct error *e)
{
    for (unsigned c = 0; c < 256; c++) {
        b->byte_id[c] = token_map_find(words, &(char){(char)c}, 1);
        if (b->byte_id[c] == TOKEN_NONE)
            return err_set(e, ERR_PARSE, "the vocabulary has no token for byte 0x%02x", c);
    }
    if (!resize(b, 1u << 10)) return err_set(e, ERR_NOMEM, "merge table");
    return v->merges ? add_listed(b, v, words, e) : add_from_ranks(b, v, words, e);
}

struct bpe *bpe_new(const struct vocab *v, const struct token_map *words, struct error *e)
{
    struct bpe *b = calloc(1, sizeof *b);
    if (!b) {
        err_set(e, ERR_NOMEM, "merge table");
        return NULL;
    }
    if (fill(b, v, words, e) != ERR_OK) {
        bpe_free(b);
        return NULL;
    }
    return b;
}

void bpe_free(struct bpe *b)
{
    if (!b) return;
    free(b->slots);
    free(b);
}

static void encode_short(const struct bpe *b, const unsigned char *s, uint32_t n,
                         struct tokens *out)
{
    uint32_t ids[SHORT_BYTES], rank[SHORT_BYTES], merged[SHORT_BYTES]; /* of the pair i, i + 1 */
    for (uint32_t i = 0; i < n; i++)
        ids[i] = b->byte_id[s[i]];
    for (uint32_t i = 0; i + 1 < n; i++) {
        const struct merge *m = slot(b, ids[i], ids[i + 1]);
        rank[i] = m->rank; /* NO_RANK in an empty slot */
        merged[i] = m->id;
    }
    for (;;) {
        uint32_t best = NO_RANK, at = 0;
        for (uint32_t i = 0; i + 1 < n; i++) {
            if (rank[i] >= best) continue;
            best = rank[i];
            at = i;
        }
        if (best == NO_RANK) break;
        ids[at] = merged[at];
        n--;
        for (uint32_t i = at + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            if (i + 1 == n) break;
            rank[i] = rank[i + 1];
            merged[i] = merged[i + 1];
        }
        for (uint32_t i = at ? at - 1 : 0; i <= at && i + 1 < n; i++) {
            const struct merge *m = slot(b, ids[i], ids[i + 1]);
            rank[i] = m->rank;
            merged[i] = m->id;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        tokens_add(out, ids[i]);
}

struct node { /* one token of the piece so far; id = TOKEN_NONE: merged away */
    uint32_t id, prev, next;
};

struct queue { /* smallest first: rank << 32 | position, so that ties go to the left */
    uint64_t *heap;
    size_t n;
};

static void push(struct queue *q, uint64_t key)
{
    size_t i = q->n++;
    for (; i > 0 && q->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = key;
}

static uint64_t pop(struct queue *q)
{
    uint64_t top = q->heap[0], key = q->heap[--q->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && q->heap[child + 1] < q->heap[child]) child++;
        if (q->heap[child] >= key) break;
        q->heap[i] = q->heap[child];
    }
    q->heap[i] = key;
    return top;
}

static void push_pair(const struct bpe *b, struct queue *q, const struct node *nodes, uint32_t at)
{
    if (at == NIL || nodes[at].next == NIL) return;
    const struct merge *m = slot(b, nodes[at].id, nodes[nodes[at].next].id);
    if (m->id != TOKEN_NONE) push(q, (uint64_t)m->rank << 32 | at);
}

/* Keys in the heap may be out of date: one counts only if its pair is still there. */
static void merge_all(const struct bpe *b, struct queue *q, struct node *nodes)
{
    while (q->n) {
        uint64_t key = pop(q);
        uint32_t at = (uint32_t)key, next;
        if (nodes[at].id == TOKEN_NONE || (next = nodes[at].next) == NIL) continue;
        const struct merge *m = slot(b, nodes[at].id, nodes[next].id);
        if (m->id == TOKEN_NONE || m->rank != key >> 32) continue;
        nodes[at].id = m->id;
        nodes[next].id = TOKEN_NONE;
        nodes[at].next = nodes[next].next;
        if (nodes[at].next != NIL) nodes[nodes[at].next].prev = at;
        push_pair(b, q, nodes, nodes[at].prev);
        push_pair(b, q, nodes, at);
    }
}

static void encode_long(const struct bpe *b, const unsigned char *s, uint32_t n, struct tokens *out)
{
    struct node *nodes = malloc(n * sizeof *nodes);
    /* n - 1 pairs at first; each of at most n - 1 merges takes one key out and puts two in */
    struct queue q = {malloc(2 * (size_t)n * sizeof *q.heap), 0};
    if (nodes && q.heap) {
        for (uint32_t i = 0; i < n; i++)
            nodes[i] = (struct node){b->byte_id[s[i]], i ? i - 1 : NIL, i + 1 < n ? i + 1 : NIL};
        for (uint32_t i = 0; i < n; i++)
            push_pair(b, &q, nodes, i);
        merge_all(b, &q, nodes);
        for (uint32_t i = 0; i != NIL; i = nodes[i].next)
            tokens_add(out, nodes[i].id);
    } else {
        out->failed = true;
    }
    free(nodes);
    free(q.heap);
}

void bpe_encode(const struct bpe *b, const char *piece, size_t n, struct tokens *out)
{
    if (n <= SHORT_BYTES)
        encode_short(b, (const unsigned char *)piece, (uint32_t)n, out);
    else if (n < NIL)
        encode_long(b, (const unsigned char *)piece, (uint32_t)n, out);
    else
        out->failed = true; /* positions are 32 bits */
}
