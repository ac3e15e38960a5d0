/* batch.h - the rows of one step, plain data between scheduler, lowering, execution and sampling.
 * Rows of one sequence are consecutive and ascending in position; rows of one replica are
 * consecutive. A batch that is executed may hold rows of several replicas (host fusion). */
#ifndef DEVICE_BATCH_H
#define DEVICE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

struct batch_seq {
    uint32_t replica;
    uint16_t dp;              /* data-parallel group inside the replica: holds its KV */
    uint32_t first_row, rows; /* in batch.rows */
    uint32_t start;           /* position of its first row = tokens already in the cache */
    bool wants_logits;        /* of its last row */
    /* Block i holds positions [i * block_tokens, (i + 1) * block_tokens). Ids are unique over all
     * replicas. Blocks of sliding layers that fell out of the window may hold any id. */
    const uint32_t *full_blocks, *slide_blocks;
    void *user; /* the engine's; nobody else looks */
};

struct batch_row {
    uint32_t token;
    uint32_t pos;
    uint32_t seq; /* index into batch.seqs */
};

struct batch {
    struct batch_seq *seqs;
    struct batch_row *rows;
    uint32_t n_seqs, n_rows;
};

#endif
