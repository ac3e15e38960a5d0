/* service.h - a service over the byte vocabulary, for tests of the doors. */
#ifndef TESTS_UNIT_SERVICE_H
#define TESTS_UNIT_SERVICE_H

#include "server/service.h"
#include "tests/byte_vocab.h"

static inline struct service test_service(uint32_t max_context)
{
    return (struct service){.names = {"nano", "alias"},
                            .n_names = 2,
                            .tokenizer = byte_tokenizer(),
                            .max_context = max_context,
                            .longest_token = 13,
                            .created = 1700000000,
                            .fingerprint = "fp_test",
                            .temperature = 1,
                            .top_p = 1,
                            .effort = EFFORT_MEDIUM,
                            .date = "2025-06-28"};
}

static inline void test_service_free(struct service *s)
{
    tokenizer_free((struct tokenizer *)s->tokenizer);
}

#endif
