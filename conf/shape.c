/* shape.c - checks and sums over a model's shape. */
#include "conf/shape.h"

static enum err bound(struct error *e, const char *field, uint64_t v, uint64_t lo, uint64_t hi)
{
    if (v >= lo && v <= hi) return ERR_OK;
    return err_set(e, ERR_RANGE, "%s is %llu, must be %llu to %llu", field, (unsigned long long)v,
                   (unsigned long long)lo, (unsigned long long)hi);
}

static enum err check_ranges(const struct model_shape *s, struct error *e)
{
    const struct {
        const char *name;
        uint32_t v, lo, hi;
    } fields[] = {
        {"layers", s->layers, 1, SHAPE_MAX_LAYERS},
        {"hidden", s->hidden, 32, 1 << 16},
        {"q_heads", s->q_heads, 1, 1024},
        {"kv_heads", s->kv_heads, 1, 1024},
        {"head_dim", s->head_dim, 2, 1024},
        {"experts", s->experts, 1, 4096},
        {"experts_per_token", s->experts_per_token, 1, 64},
        {"intermediate", s->intermediate, 32, 1 << 18},
        {"vocab", s->vocab, 1, 1 << 22},
        {"window", s->window, 1, 1 << 24},
        {"max_positions", s->max_positions, 1, 1 << 24},
        {"rope_original", s->rope_original, 1, 1 << 24},
    };
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++) {
        enum err rc = bound(e, fields[i].name, fields[i].v, fields[i].lo, fields[i].hi);
        if (rc) return rc;
    }
    return ERR_OK;
}

enum err shape_check(const struct model_shape *s, struct error *e)
{
    enum err rc = check_ranges(s, e);
    if (rc) return rc;
    if (s->q_heads % s->kv_heads)
        return err_set(e, ERR_INVAL, "q_heads (%u) is not a multiple of kv_heads (%u)", s->q_heads,
                       s->kv_heads);
    if (s->head_dim % 2) return err_set(e, ERR_INVAL, "head_dim (%u) is odd", s->head_dim);
    if (s->experts_per_token > s->experts)
        return err_set(e, ERR_INVAL, "experts_per_token (%u) is more than experts (%u)",
                       s->experts_per_token, s->experts);
    if (s->hidden % 32 || s->intermediate % 32)
        return err_set(e, ERR_INVAL, "hidden (%u) and intermediate (%u) must be multiples of 32",
                       s->hidden, s->intermediate);
    if (s->dense_type == DT_Q8_0 && (uint64_t)s->q_heads * s->head_dim % 32)
        return err_set(e, ERR_INVAL, "q_heads * head_dim (%u * %u) is not a multiple of 32",
                       s->q_heads, s->head_dim);
    if (!(s->rms_eps > 0 && s->rms_eps < 1))
        return err_set(e, ERR_RANGE, "rms_eps is %g, must be above 0 and below 1", s->rms_eps);
    if (!(s->rope_theta > 1 && s->rope_theta < 1e12))
        return err_set(e, ERR_RANGE, "rope_theta is %g, must be 1 to 1e12", s->rope_theta);
    if (!(s->rope_factor > 0 && s->rope_factor <= 4096))
        return err_set(e, ERR_RANGE, "rope_factor is %g, must be 0 to 4096", s->rope_factor);
    if (!(s->rope_beta_slow > 0 && s->rope_beta_fast > 0))
        return err_set(e, ERR_RANGE, "rope_beta_fast and rope_beta_slow must be above 0");
    return ERR_OK;
}

uint64_t dtype_row_bytes(enum dtype t, uint64_t n)
{
    switch (t) {
    case DT_F32:
        return 4 * n;
    case DT_F16:
    case DT_BF16:
        return 2 * n;
    case DT_Q8_0:
        return n / 32 * 34;
    case DT_MXFP4:
        return n / 32 * 16;
    case DT_MXFP4_GGML:
        return n / 32 * 17;
    }
    return 0;
}

uint64_t dtype_scale_bytes(enum dtype t, uint64_t n)
{
    return t == DT_MXFP4 ? n / 32 : 0;
}

const char *dtype_name(enum dtype t)
{
    static const char *const names[] = {"F32", "F16", "BF16", "Q8_0", "MXFP4", "MXFP4_GGML"};
    return (unsigned)t < sizeof names / sizeof *names ? names[t] : "?";
}

uint64_t shape_kv_bytes_per_token_layer(const struct model_shape *s)
{
    return 2ull * s->kv_heads * s->head_dim * 2;
}

uint32_t shape_full_layers(const struct model_shape *s)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < s->layers; l++)
        n += !s->sliding[l];
    return n;
}
