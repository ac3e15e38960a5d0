/* harmony_pairs.c - results to calls, by sorting the calls: no conversation makes it quadratic. */
#include "engine/harmony_pairs.h"

#include <stdlib.h>
#include <string.h>

struct call_at {
    const char *id, *name;
    uint32_t message, call; /* call: number in the whole chat */
    uint32_t taken;         /* in the first entry of equal ids of a message: answered so far */
};

struct calls {
    struct call_at *list; /* sorted by id, then message, then call */
    uint32_t n;
};

static int by_id(const void *a, const void *b)
{
    const struct call_at *x = a, *y = b;
    int c = strcmp(x->id, y->id);
    if (c) return c;
    if (x->message != y->message) return x->message < y->message ? -1 : 1;
    return x->call < y->call ? -1 : x->call > y->call;
}

/* How many entries come before (id, message). */
static uint32_t lower_bound(const struct calls *c, const char *id, uint32_t message)
{
    uint32_t lo = 0, hi = c->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int cmp = strcmp(c->list[mid].id, id);
        if (cmp < 0 || (cmp == 0 && c->list[mid].message < message))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static const struct call_at *answer(struct calls *c, const char *id, uint32_t message)
{
    uint32_t end = id ? lower_bound(c, id, message) : 0;
    if (end == 0 || strcmp(c->list[end - 1].id, id) != 0) return NULL;
    uint32_t start = lower_bound(c, id, c->list[end - 1].message);
    uint32_t k = c->list[start].taken < end - start ? c->list[start].taken++ : end - start - 1;
    return &c->list[start + k];
}

static uint32_t count_calls(const struct chat *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_messages; i++)
        n += c->messages[i].n_calls;
    return n;
}

static struct calls collect(const struct chat *c, uint32_t n)
{
    struct calls calls = {calloc(n ? n : 1, sizeof *calls.list), 0};
    uint32_t number = 0;
    for (uint32_t i = 0; calls.list && i < c->n_messages; i++)
        for (uint32_t k = 0; k < c->messages[i].n_calls; k++, number++) {
            const struct chat_call *call = &c->messages[i].calls[k];
            if (!call->id) continue;
            calls.list[calls.n++] = (struct call_at){call->id, call->name, i, number, 0};
        }
    if (calls.list) qsort(calls.list, calls.n, sizeof *calls.list, by_id);
    return calls;
}

static void append(struct harmony_pairs *p, uint32_t call, uint32_t message)
{
    if (p->first[call] == PAIR_NONE)
        p->first[call] = message;
    else
        p->results[p->last[call]].next = message;
    p->last[call] = message;
}

static enum err link_all(struct harmony_pairs *p, const struct chat *c, struct calls *calls,
                         struct error *e)
{
    uint32_t speaker = PAIR_NONE; /* the last message that is not a tool's */
    for (uint32_t i = 0; i < c->n_messages; i++) {
        const struct chat_message *m = &c->messages[i];
        if (m->role != ROLE_TOOL) {
            speaker = i;
            continue;
        }
        const struct call_at *call = answer(calls, m->call_id, i);
        if (!call && !m->tool_name)
            return err_set(e, ERR_INVAL,
                           "messages[%u].tool_call_id: no earlier tool call has id \"%.64s\"", i,
                           m->call_id ? m->call_id : "");
        p->results[i].name = call ? call->name : m->tool_name;
        if (!call || call->message != speaker) continue;
        p->results[i].with_call = true;
        append(p, call->call, i);
    }
    return ERR_OK;
}

enum err harmony_pairs_find(struct harmony_pairs *p, const struct chat *c, struct error *e)
{
    uint32_t n = count_calls(c);
    struct calls calls = collect(c, n);
    size_t messages = c->n_messages ? c->n_messages : 1, room = n ? n : 1;
    p->results = calloc(messages, sizeof *p->results);
    p->first = malloc(room * sizeof *p->first);
    p->last = malloc(room * sizeof *p->last);
    enum err rc = ERR_NOMEM;
    if (calls.list && p->results && p->first && p->last) {
        for (uint32_t i = 0; i < c->n_messages; i++)
            p->results[i].next = PAIR_NONE;
        for (uint32_t i = 0; i < n; i++)
            p->first[i] = PAIR_NONE;
        rc = link_all(p, c, &calls, e);
    } else {
        err_set(e, rc, "a conversation of %u messages", c->n_messages);
    }
    free(calls.list);
    if (rc != ERR_OK) harmony_pairs_free(p);
    return rc;
}

void harmony_pairs_free(struct harmony_pairs *p)
{
    free(p->results);
    free(p->first);
    free(p->last);
    *p = (struct harmony_pairs){0};
}
