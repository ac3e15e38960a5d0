/* tensors.c - a table of tensors, sorted and free of overlaps. */
#include "engine/tensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t block, bytes;
} types[TT_COUNT] = {
#define X(name, elements, bytes) {#name, elements, bytes},
    TENSOR_TYPES(X)
#undef X
};

const char *tensor_type_name(enum tensor_type t)
{
    return (unsigned)t < TT_COUNT ? types[t].name : "?";
}

bool tensor_bytes(enum tensor_type t, const uint64_t *dims, uint32_t n_dims, uint64_t *bytes)
{
    assert((unsigned)t < TT_COUNT);
    uint64_t last = n_dims ? dims[n_dims - 1] : 1, total;
    if (last % types[t].block) return false;
    if (__builtin_mul_overflow(last / types[t].block, types[t].bytes, &total)) return false;
    for (uint32_t i = 0; i + 1 < n_dims; i++)
        if (__builtin_mul_overflow(total, dims[i], &total)) return false;
    *bytes = total;
    return total <= INT64_MAX;
}

const char *tensor_dims_text(const uint64_t *dims, uint32_t n_dims, char *out, size_t cap)
{
    size_t at = (size_t)snprintf(out, cap, "[");
    for (uint32_t i = 0; i < n_dims && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)dims[i]);
    if (at < cap) snprintf(out + at, cap - at, "]");
    return out;
}

void tensors_free(struct tensors *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->items[i].name);
    free(t->items);
    *t = (struct tensors){0};
}

enum err tensors_add(struct tensors *t, const struct tensor *one, const char *name, size_t name_len,
                     struct error *e)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 64;
        struct tensor *items = cap > t->cap ? realloc(t->items, cap * sizeof *items) : NULL;
        if (!items) return err_set(e, ERR_NOMEM, "%u tensors: out of memory", t->n);
        t->items = items;
        t->cap = cap;
    }
    char *copy = malloc(name_len + 1);
    if (!copy) return err_set(e, ERR_NOMEM, "%u tensors: out of memory", t->n);
    memcpy(copy, name, name_len);
    copy[name_len] = 0;
    t->items[t->n] = *one;
    t->items[t->n++].name = copy;
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = *(const struct tensor *const *)a;
    const struct tensor *y = *(const struct tensor *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static enum err check_overlap(const struct tensors *t, struct error *e)
{
    const struct tensor **order = malloc((t->n + 1) * sizeof(struct tensor *));
    if (!order) return err_set(e, ERR_NOMEM, "%u tensors: out of memory", t->n);
    for (uint32_t i = 0; i < t->n; i++)
        order[i] = &t->items[i];
    qsort(order, t->n, sizeof(struct tensor *), by_place);
    enum err rc = ERR_OK;
    for (uint32_t i = 1; i < t->n && !rc; i++)
        if (order[i - 1]->bytes > (uintptr_t)order[i]->data - (uintptr_t)order[i - 1]->data)
            rc = err_set(e, ERR_PARSE, "tensors %s and %s overlap", order[i - 1]->name,
                         order[i]->name);
    free(order);
    return rc;
}

enum err tensors_seal(struct tensors *t, struct error *e)
{
    if (t->n) qsort(t->items, t->n, sizeof *t->items, by_name);
    for (uint32_t i = 1; i < t->n; i++)
        if (!strcmp(t->items[i - 1].name, t->items[i].name))
            return err_set(e, ERR_PARSE, "tensor %s occurs twice", t->items[i].name);
    return check_overlap(t, e);
}

struct tensor *tensors_find(const struct tensors *t, const char *name)
{
    struct tensor key = {.name = (char *)(uintptr_t)name};
    return t->n ? bsearch(&key, t->items, t->n, sizeof *t->items, by_name) : NULL;
}
