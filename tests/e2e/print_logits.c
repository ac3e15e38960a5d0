/* print_logits MODEL IDS [PLAN] - writes the logits of every position, f32 [tokens][vocab], to
 * standard output. IDS holds u32 token ids. */
#include "engine/model.h"
#include "tests/unit/feed.h"

#include <stdio.h>
#include <stdlib.h>

static uint32_t *read_ids(const char *path, uint32_t *n)
{
    FILE *f = fopen(path, "rb");
    uint32_t *ids = NULL, id;
    *n = 0;
    while (f && fread(&id, sizeof id, 1, f) == 1) {
        ids = realloc(ids, (*n + 1) * sizeof *ids);
        if (!ids) abort();
        ids[(*n)++] = id;
    }
    if (f) fclose(f);
    return ids;
}

int main(int argc, char **argv)
{
    struct error e = {0};
    uint32_t n = 0;
    struct model *m = argc > 2 ? model_open(argv[1], &e) : NULL;
    uint32_t *ids = m ? read_ids(argv[2], &n) : NULL;
    if (!ids) {
        fprintf(stderr, "print_logits MODEL IDS [PLAN]: %s\n", m ? "no ids" : e.text);
        return 2;
    }
    struct feed *f = feed_new(&(struct feed_options){.shape = model_shape(m),
                                                     .weights = model_weights(m),
                                                     .plan = argc > 3 ? argv[3] : "1x1",
                                                     .max_tokens = n});
    for (uint32_t i = 0; i < n; i++) {
        feed_add(f, 0, ids + i, 1);
        feed_step(f);
        fwrite(feed_logits(f, 0), sizeof(float), model_shape(m)->vocab, stdout);
    }
    feed_free(f);
    free(ids);
    model_free(m);
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
