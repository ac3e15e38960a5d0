/* harmony_header.h - a message's header while it is sampled, and what it means in the end. Inside
 * the engine. Source: gpt-oss spec section 5.9, openai-api spec section 7.6. */
#ifndef ENGINE_HARMONY_HEADER_H
#define ENGINE_HARMONY_HEADER_H

#include "base/buf.h"

#include <stdint.h>

#define HEADER_MAX_PARTS 32
#define HEADER_MAX_BYTES                                                                           \
    256 /* a real one is a channel, a type and a tool name of at most 128 bytes */

enum header_part { PART_AUTHOR, PART_CHANNEL, PART_CONSTRAIN };

struct harmony_header {
    struct buf text; /* of all parts, without the control tokens between them */
    struct {
        enum header_part part;
        size_t at; /* where it starts in the text */
    } parts[HEADER_MAX_PARTS];
    uint32_t n_parts;
    bool author_given; /* no <|start|> came: the author is the assistant */
};

enum header_channel {
    CHANNEL_NONE,
    CHANNEL_UNKNOWN,
    CHANNEL_ANALYSIS,
    CHANNEL_COMMENTARY,
    CHANNEL_FINAL
};

struct header_meaning {
    enum header_channel channel;
    const char *recipient; /* inside the header's text; NULL: none */
    size_t recipient_len;
    bool foreign;    /* the author is not the assistant */
    struct buf rest; /* words that are no markup; the caller frees */
};

void header_open(struct harmony_header *h, bool author_given);
void header_free(struct harmony_header *h);
void header_mark(struct harmony_header *h, enum header_part part);
void header_add(struct harmony_header *h, const char *bytes, size_t len);

bool header_is_empty(const struct harmony_header *h);
/* So long that it cannot be a header. */
bool header_is_full(const struct harmony_header *h);
/* Plain text where a header was due: no continuation makes it one. */
bool header_is_hopeless(const struct harmony_header *h);

/* Reads the header. `complete`: <|message|> came, so odd words in the place of a channel or a type
 * are markup; otherwise the body may have started unannounced, and all behind the first odd word is
 * rest. */
void header_read(const struct harmony_header *h, bool complete, struct header_meaning *out);

#endif
