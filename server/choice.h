/* choice.h - inside of answer*.c: one of the texts that a call asks for. */
#ifndef SERVER_CHOICE_H
#define SERVER_CHOICE_H

#include "server/answer.h"
#include "server/logprobs.h"
#include "server/stops.h"

struct answer_call { /* a tool call of the model */
    char id[32];
    struct buf name, arguments;
};

struct choice {
    struct answer *answer;
    uint32_t index, prompt;
    uint32_t tokens;    /* sampled so far, stop ids included */
    const char *finish; /* NULL = goes on */
    int stop_string;    /* which one ended it, or -1 */
    int64_t stop_token; /* which of the client's ids, or -1 */
    bool ended, failed, begun;

    struct stops_state *stops;
    uint64_t seen, passed; /* bytes of visible text: made, and let through by `stops` */
    uint64_t chars;        /* characters made */
    struct logprobs logprobs;

    /* text that was let through, but is not in a frame or in the object's texts yet */
    enum harmony_kind kind;
    struct buf delta;

    struct harmony_parser *parser; /* chat */
    struct buf tail;               /* text: half a character */
    struct buf content, reasoning; /* of an object; a stream keeps none */
    struct answer_call *calls;
    uint32_t n_calls;
};

struct answer {
    const struct service *service;
    const struct call *call;
    char id[160];
    int64_t created;
    uint64_t seed; /* of tool call ids */
    uint32_t n, open;
    struct choice *choices;
    struct stops *stops;
    struct buf head; /* what every frame begins with */
    struct buf frames;
    uint64_t cached;
    uint32_t *prompt_cached; /* by prompt: the most that one of its choices found */
    struct error error;
    uint32_t finished[FINISH_ERROR + 1];
    bool failed; /* memory */
};

/* Visible text: through the stop strings to the delta. True when one of them was found. */
bool choice_text(struct choice *c, const char *text, size_t len);
/* Appends to the delta; when the kind changes what was there is emitted first. */
void choice_delta(struct choice *c, enum harmony_kind kind, const char *text, size_t len);
/* Emits the delta: as a frame, or into the object's texts. */
void choice_emit(struct choice *c);
/* Ends the choice with this reason: held text, last delta, finish frame. */
void choice_finish(struct choice *c, const char *finish);

void choice_count(struct choice *c, const struct sampled *t, uint64_t before, uint64_t chars);

/* {"prompt_tokens":...} */
void answer_usage(const struct answer *a, const struct choice *only, struct buf *out);
void answer_stop_reason(const struct choice *c, struct buf *out);

/* What differs between the endpoints. */
struct choice_ops {
    const char *object, *chunk; /* names of the objects */
    bool (*begin)(struct choice *c);
    bool (*token)(struct choice *c, const struct sampled *t);
    void (*flush)(struct choice *c);       /* no more tokens */
    const char *(*stop)(struct choice *c); /* finish reason of an ordinary stop */
    void (*frame)(struct choice *c);       /* the delta as a frame */
    void (*last_frame)(struct choice *c);  /* the finish reason as a frame */
    void (*object_choice)(struct choice *c, struct buf *out);
};
extern const struct choice_ops choice_chat, choice_plain;

/* Between the head and the end of a frame of this choice stands what the caller appends. */
struct buf *frame_open(struct choice *c);
void frame_close(struct choice *c);

#endif
