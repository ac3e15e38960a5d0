/* shape_file.c - conf/models/NAME.conf to struct model_shape. */
#include "conf/paths.h"
#include "conf/reader.h"
#include "conf/shape.h"

#include <string.h>

enum sliding { SLIDING_EVEN, SLIDING_ODD, SLIDING_ALL, SLIDING_NONE };

struct shape_file {
    struct model_shape shape;
    enum sliding sliding;
};

#define AT(f) OPT_FIELD(struct shape_file, shape.f)
#define TYPES "F32|F16|BF16|Q8_0|MXFP4|MXFP4_GGML" /* in the order of enum dtype */

/* Ranges are those of shape_check(), which sees models of every origin. */
static const struct option rows[] = {
    {"model", "name", OPT_STRING, AT(name)},
    {"model", "layers", OPT_UINT, AT(layers)},
    {"model", "hidden", OPT_UINT, AT(hidden)},
    {"model", "vocab", OPT_UINT, AT(vocab)},
    {"model", "max_positions", OPT_UINT, AT(max_positions)},
    {"model", "rms_eps", OPT_REAL, AT(rms_eps)},
    {"model", "dense_type", OPT_ENUM, AT(dense_type), .choices = TYPES},
    {"model", "expert_type", OPT_ENUM, AT(expert_type), .choices = TYPES},

    {"attention", "q_heads", OPT_UINT, AT(q_heads)},
    {"attention", "kv_heads", OPT_UINT, AT(kv_heads)},
    {"attention", "head_dim", OPT_UINT, AT(head_dim)},
    {"attention", "window", OPT_UINT, AT(window)},
    {"attention", "sliding", OPT_ENUM, OPT_FIELD(struct shape_file, sliding),
     .choices = "even|odd|all|none"},

    {"rope", "theta", OPT_REAL, AT(rope_theta)},
    {"rope", "factor", OPT_REAL, AT(rope_factor)},
    {"rope", "beta_fast", OPT_REAL, AT(rope_beta_fast)},
    {"rope", "beta_slow", OPT_REAL, AT(rope_beta_slow)},
    {"rope", "original_positions", OPT_UINT, AT(rope_original)},
    {"rope", "truncate", OPT_BOOL, AT(rope_truncate)},

    {"experts", "count", OPT_UINT, AT(experts)},
    {"experts", "per_token", OPT_UINT, AT(experts_per_token)},
    {"experts", "intermediate", OPT_UINT, AT(intermediate)},
    {"experts", "swiglu_alpha", OPT_REAL, AT(swiglu_alpha)},
    {"experts", "swiglu_limit", OPT_REAL, AT(swiglu_limit)},
};

static bool slides(enum sliding pattern, uint32_t layer)
{
    switch (pattern) {
    case SLIDING_EVEN:
        return layer % 2 == 0;
    case SLIDING_ODD:
        return layer % 2 == 1;
    case SLIDING_ALL:
        return true;
    case SLIDING_NONE:
        break;
    }
    return false;
}

enum err shape_load_file(struct model_shape *s, const char *path, struct error *e)
{
    static const struct option_table table = {rows, sizeof rows / sizeof *rows};
    struct shape_file f;
    struct error why = {0};
    memset(&f, 0, sizeof f);
    enum err rc = reader_whole_file(&table, &f, path, e);
    if (rc) return rc;
    rc = shape_check(&f.shape, &why);
    if (rc) return err_set(e, rc, "%s: %s", path, why.text);
    for (uint32_t l = 0; l < f.shape.layers; l++)
        f.shape.sliding[l] = slides(f.sliding, l);
    *s = f.shape;
    return ERR_OK;
}

enum err shape_load(struct model_shape *s, const char *name, struct error *e)
{
    char path[CONF_PATH_BYTES];
    enum err rc = conf_find(CONF_SHAPE, name, path, e);
    return rc ? rc : shape_load_file(s, path, e);
}
