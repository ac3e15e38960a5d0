/* model_tokenizer.c - the tokenizer that came with a model. */
#include "engine/model_parts.h"
#include "engine/vocab_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err read_vocab(const struct model *m, struct vocab *v, struct error *e)
{
    if (m->format == MODEL_GGUF) {
        struct error inner = {0};
        enum err rc = vocab_from_gguf(&m->gguf, m->shape.vocab, v, &inner);
        return rc ? err_set(e, rc, "%s: %s", m->path, inner.text) : ERR_OK;
    }
    size_t n = strlen(m->path) + sizeof "/tokenizer.json";
    char *path = malloc(n);
    if (!path) return err_set(e, ERR_NOMEM, "%s: out of memory", m->path);
    snprintf(path, n, "%s/tokenizer.json", m->path);
    enum err rc = vocab_from_json(path, m->shape.vocab, v, e);
    free(path);
    return rc;
}

struct tokenizer *model_tokenizer(const struct model *m, struct error *e)
{
    struct vocab v;
    struct error inner = {0};
    if (read_vocab(m, &v, e)) return NULL;
    struct tokenizer *t = tokenizer_new(&v, &inner);
    if (!t) err_set(e, inner.code, "%s: %s", m->path, inner.text);
    return t;
}
