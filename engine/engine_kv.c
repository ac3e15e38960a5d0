/* engine_kv.c - how many KV blocks a data-parallel group gets: what the host's memory and the HBM
 * of the timed machine hold, whichever is less. */
#include "engine/engine_state.h"

#include <inttypes.h>

#define KV_HOST_BYTES 8 /* the machine keeps K and V as f32 */

/* More slide blocks than this nobody uses: the windows of all sequences, as much again for the
 * prefix cache, and the chunks of one step. */
static uint64_t slide_limit(const struct engine_options *o, uint32_t dp)
{
    uint64_t seqs = (o->max_seqs + dp - 1) / dp;
    uint64_t window = o->shape->window / o->block_tokens + 2;
    return 2 * seqs * window + o->step_tokens / o->block_tokens + seqs;
}

static enum err host_blocks(const struct engine_options *o, uint32_t dp, uint64_t *full,
                            uint64_t *slide, struct error *e)
{
    const struct model_shape *s = o->shape;
    uint64_t layer = (uint64_t)KV_HOST_BYTES * o->block_tokens * s->kv_heads * s->head_dim;
    uint64_t full_bytes = layer * shape_full_layers(s);
    uint64_t slide_bytes = layer * (s->layers - shape_full_layers(s));
    uint64_t groups = (uint64_t)o->plan.replicas * dp;
    uint64_t bytes = o->kv_host_bytes / groups;
    *full = *slide = bytes / (full_bytes + slide_bytes);
    if (!*full)
        return err_set(e, ERR_RANGE,
                       "kv_host_bytes: %" PRIu64 " bytes are %" PRIu64 " for each of %" PRIu64
                       " groups of chips, a block of %u tokens takes %" PRIu64,
                       o->kv_host_bytes, bytes, groups, o->block_tokens, full_bytes + slide_bytes);
    if (*slide > slide_limit(o, dp)) {
        *slide = slide_limit(o, dp);
        if (full_bytes) *full = (bytes - *slide * slide_bytes) / full_bytes;
    }
    return ERR_OK;
}

/* Full blocks that the HBM of the group's busiest chip has room for beside the windows, which get
 * half of it at most. */
static enum err hbm_blocks(const struct engine_options *o, uint32_t dp, uint64_t *full,
                           struct error *e)
{
    uint64_t tokens = 0;
    enum err rc = plan_kv_capacity(&o->plan, o->timed, o->machine, &tokens, e);
    if (rc) return rc;
    uint64_t token_bytes = plan_kv_token_bytes(&o->plan, o->timed);
    uint64_t seqs = (o->max_seqs + dp - 1) / dp;
    uint64_t share = tokens / dp, windows = 0;
    if (token_bytes) windows = seqs * plan_kv_window_bytes(&o->plan, o->timed) / token_bytes;
    if (windows > share / 2) windows = share / 2;
    *full = (share - windows) / o->block_tokens;
    if (*full) return ERR_OK;
    return err_set(
        e, ERR_RANGE,
        "machine %s: the HBM that the weights of %s leave holds no KV block of %u tokens",
        o->machine->name, o->timed->name, o->block_tokens);
}

enum err engine_size_kv(const struct engine_options *o, uint32_t dp, struct kv_size *out,
                        struct error *e)
{
    uint64_t full, slide, hbm;
    if (o->kv_blocks) {
        if (o->kv_blocks < dp)
            return err_set(e, ERR_RANGE, "kv_blocks: %u for %u data-parallel groups", o->kv_blocks,
                           dp);
        full = slide = o->kv_blocks / dp;
    } else {
        enum err rc = host_blocks(o, dp, &full, &slide, e);
        if (!rc) rc = hbm_blocks(o, dp, &hbm, e);
        if (rc) return rc;
        if (full > hbm) full = hbm;
        if (slide > full) slide = full; /* no sequence has more of these */
    }
    uint64_t groups = (uint64_t)o->plan.replicas * dp;
    if (full > UINT32_MAX / 2 / groups) full = UINT32_MAX / 2 / groups;
    if (slide > full) slide = full;
    *out = (struct kv_size){(uint32_t)full, (uint32_t)slide};
    return ERR_OK;
}
