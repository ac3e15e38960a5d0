/* exec.c - shares the work of an op among the host's threads. */
#include "device/exec.h"

struct each {
    const struct exec *x;
    exec_item_fn *f;
};

static void each_item(void *arg, uint32_t item, uint32_t thread)
{
    const struct each *a = arg;
    a->f(a->x, item, thread);
}

void exec_each(const struct exec *x, exec_item_fn *f, uint32_t items, uint64_t macs)
{
    if (macs < EXEC_ALONE_MACS) {
        for (uint32_t i = 0; i < items; i++)
            f(x, i, 0);
        return;
    }
    struct each a = {x, f};
    pool_run(x->m->pool, each_item, &a, items);
}

uint32_t exec_cut(struct exec_item *items, uint32_t n, struct exec_item whole, uint32_t outs)
{
    for (uint32_t o = whole.out0; o < whole.out1; o += outs) {
        uint32_t end = whole.out1 - o < outs ? whole.out1 : o + outs;
        items[n++] = (struct exec_item){whole.job, o, end};
    }
    return n;
}

static void linear_item(const struct exec *x, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct exec_item *it = &x->m->items[item];
    struct linear_args a = x->m->jobs[it->job];
    a.y += it->out0 - a.out0;
    a.out0 = it->out0;
    a.out1 = it->out1;
    x->m->kernels->linear(&a);
}

void exec_linears(const struct exec *x, uint32_t n)
{
    struct machine *m = x->m;
    uint64_t macs = 0;
    uint32_t items = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct linear_args *a = &m->jobs[i];
        macs += (uint64_t)a->n * (a->out1 - a->out0) * (a->border[a->parts] - a->border[0]);
        items =
            exec_cut(m->items, items, (struct exec_item){i, a->out0, a->out1}, EXEC_LINEAR_OUTS);
    }
    exec_each(x, linear_item, items, macs);
}
