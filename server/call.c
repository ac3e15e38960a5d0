/* call.c - fields that chat and completions share, and the checks across fields. */
#include "server/call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void call_init(struct call *c, enum call_kind kind, const struct service *s)
{
    *c = (struct call){
        .kind = kind,
        .temperature = s->temperature,
        .top_p = s->top_p,
        .n = 1,
        .seed = -1,
        .max_tokens = kind == CALL_TEXT ? 16 : -1,
        .max_completion_tokens = -1,
        .logprobs = -1,
        .top_logprobs = -1,
        .skip_special = true,
        .include_reasoning = true,
        .effort = s->effort,
    };
}

void call_free(struct call *c)
{
    for (uint32_t i = 0; i < c->n_prompts; i++)
        tokens_free(&c->prompts[i]);
    arena_free(&c->arena);
}

static bool add_stop(struct fields *f, const char *name, const json_t *v)
{
    struct call *c = f->target;
    if (!fields_string(f->err, name, v, 1, CALL_MAX_STOP_LEN)) return false;
    size_t len = json_string_length(v);
    char *text = arena_copy(&c->arena, json_string_value(v), len);
    if (!text) return api_fail_err(f->err, ERR_NOMEM, NULL, NULL);
    c->stops[c->n_stops++] = (struct chat_text){text, len};
    return true;
}

static bool set_stop(struct fields *f, const char *name, const json_t *v)
{
    if (json_is_string(v)) return add_stop(f, name, v);
    if (!json_is_array(v))
        return fields_bad_type(f->err, name, "a string or an array of strings", v);
    size_t n = json_array_size(v);
    if (n > CALL_MAX_STOPS)
        return api_fail(f->err, 400, "array_above_max_length", name,
                        "'%s' has %zu entries; at most %d are allowed.", name, n, CALL_MAX_STOPS);
    for (size_t i = 0; i < n; i++) {
        char path[32];
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        if (!add_stop(f, path, json_array_get(v, i))) return false;
    }
    return true;
}

static bool set_stop_ids(struct fields *f, const char *name, const json_t *v)
{
    struct call *c = f->target;
    const struct service *s = f->arg;
    if (!json_is_array(v)) return fields_bad_type(f->err, name, "an array of token ids", v);
    size_t n = json_array_size(v);
    if (n > CALL_MAX_STOP_IDS)
        return api_fail(f->err, 400, "array_above_max_length", name,
                        "'%s' has %zu entries; at most %d are allowed.", name, n,
                        CALL_MAX_STOP_IDS);
    for (size_t i = 0; i < n; i++) {
        char path[48];
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        const json_t *item = json_array_get(v, i);
        int64_t id;
        if (!fields_integer(item, &id)) return fields_bad_type(f->err, path, "a token id", item);
        if (id < 0 || id >= tokenizer_size(s->tokenizer))
            return api_fail(f->err, 400, "invalid_value", path,
                            "'%s' must be a token id from 0 to %u, not %lld.", path,
                            tokenizer_size(s->tokenizer) - 1, (long long)id);
        c->stop_ids[c->n_stop_ids++] = (uint32_t)id;
    }
    return true;
}

static bool set_stream_options(struct fields *f, const char *name, const json_t *v)
{
    static const struct field rows[] = {
        {"include_usage", FIELD_BOOL, .offset = offsetof(struct call, include_usage)},
        {"continuous_usage_stats", FIELD_BOOL, .offset = offsetof(struct call, continuous_usage)},
        FIELD_ROW_ANY("include_obfuscation"),
    };
    struct call *c = f->target;
    if (!json_is_object(v)) return fields_bad_type(f->err, name, "an object", v);
    struct api_error inner = {0};
    struct fields sub = {.target = c, .err = &inner};
    if (!fields_read(&sub, v, &(struct field_table){rows, sizeof rows / sizeof *rows}, 1))
        return api_fail(f->err, inner.status, inner.code, name, "In '%s': %s", name, inner.message);
    c->stream_options = json_object_size(v) > 0;
    return true;
}

/* FNV-1a, 64 bits: an identity, not a secret. */
static uint64_t hash(const char *s, size_t n)
{
    uint64_t h = 14695981039346656037ull;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 1099511628211ull;
    return h ? h : 1;
}

static bool set_cache_salt(struct fields *f, const char *name, const json_t *v)
{
    struct call *c = f->target;
    if (!fields_string(f->err, name, v, 1, 1024)) return false;
    c->cache_salt = hash(json_string_value(v), json_string_length(v));
    return true;
}

static bool check_metadata(struct fields *f, const char *name, const json_t *v)
{
    if (!json_is_object(v)) return fields_bad_type(f->err, name, "an object", v);
    if (json_object_size(v) > 16)
        return api_fail(f->err, 400, "object_above_max_properties", name,
                        "'%s' has %zu pairs; at most 16 are allowed.", name, json_object_size(v));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)v, key, value)
    {
        char path[96];
        snprintf(path, sizeof path, "%s.%.64s", name, key);
        if (strlen(key) > 64)
            return api_fail(f->err, 400, "string_above_max_length", path,
                            "A key of '%s' has more than 64 bytes.", name);
        if (!fields_string(f->err, path, value, 0, 512)) return false;
    }
    return true;
}

static bool check_penalty(struct fields *f, const char *name, const json_t *v)
{
    if (!json_is_number(v)) return fields_bad_type(f->err, name, "a number", v);
    double d = json_number_value(v);
    if (d < -2 || d > 2)
        return api_fail(f->err, 400, d > 2 ? "decimal_above_max_value" : "decimal_below_min_value",
                        name, "'%s' must be from -2 to 2, not %.15g.", name, d);
    return d == 0 || api_fail(f->err, 400, "unsupported_parameter", name,
                              "'%s' is not supported by this server; leave it at 0.", name);
}

static bool check_logit_bias(struct fields *f, const char *name, const json_t *v)
{
    if (!json_is_object(v)) return fields_bad_type(f->err, name, "an object", v);
    return json_object_size(v) == 0 ||
           api_fail(f->err, 400, "unsupported_parameter", name,
                    "'%s' is not supported by this server; leave it empty.", name);
}

static bool check_response_format(struct fields *f, const char *name, const json_t *v)
{
    if (!json_is_object(v)) return fields_bad_type(f->err, name, "an object", v);
    const json_t *type = json_object_get(v, "type");
    if (!json_is_string(type))
        return api_fail(f->err, 400, "missing_required_parameter", "response_format.type",
                        "'response_format.type' is required.");
    return !strcmp(json_string_value(type), "text") ||
           api_fail(f->err, 400, "unsupported_parameter", name,
                    "'%s' of type \"%.64s\" is not supported by this server; only \"text\" is.",
                    name, json_string_value(type));
}

#define AT(member) .offset = offsetof(struct call, member)

struct field_table call_rows(void)
{
    static const struct field rows[] = {
        {"temperature", FIELD_NUMBER, 0, 2, AT(temperature)},
        {"top_p", FIELD_NUMBER, 0, 1, AT(top_p)},
        {"top_k", FIELD_INT, -1, UINT32_MAX, AT(top_k)},
        {"min_p", FIELD_NUMBER, 0, 1, AT(min_p)},
        {"seed", FIELD_INT, -INFINITY, INFINITY, AT(seed)},
        {"n", FIELD_INT, 1, CALL_MAX_N, AT(n)},
        {"min_tokens", FIELD_INT, 0, UINT32_MAX, AT(min_tokens)},
        {"priority", FIELD_INT, INT32_MIN, INT32_MAX, AT(priority)},
        {"stream", FIELD_BOOL, AT(stream)},
        {"ignore_eos", FIELD_BOOL, AT(ignore_eos)},
        {"include_stop_str_in_output", FIELD_BOOL, AT(include_stop)},
        {"stop", FIELD_CUSTOM, .set = set_stop},
        {"stop_token_ids", FIELD_CUSTOM, .set = set_stop_ids},
        {"stream_options", FIELD_CUSTOM, .set = set_stream_options},
        {"cache_salt", FIELD_CUSTOM, .set = set_cache_salt},
        {"metadata", FIELD_CUSTOM, .set = check_metadata},
        {"presence_penalty", FIELD_CUSTOM, .set = check_penalty},
        {"frequency_penalty", FIELD_CUSTOM, .set = check_penalty},
        {"logit_bias", FIELD_CUSTOM, .set = check_logit_bias},
        {"response_format", FIELD_CUSTOM, .set = check_response_format},
        FIELD_ROW_NEUTRAL("repetition_penalty", 1),
        FIELD_ROW_NEUTRAL("repeat_penalty", 1),
        FIELD_ROW_NEUTRAL("length_penalty", 1),
        FIELD_ROW_NEUTRAL("use_beam_search", 0),
        FIELD_ROW_NEUTRAL("structured_outputs", 0),
        FIELD_ROW_NEUTRAL("guided_json", 0),
        FIELD_ROW_NEUTRAL("guided_regex", 0),
        FIELD_ROW_NEUTRAL("guided_choice", 0),
        FIELD_ROW_NEUTRAL("guided_grammar", 0),
        FIELD_ROW_NEUTRAL("allowed_token_ids", 0),
        FIELD_ROW_NEUTRAL("bad_words", 0),
        FIELD_ROW_NEUTRAL("return_token_ids", 0),
        FIELD_ROW_NEUTRAL("return_tokens_as_token_ids", 0),
        FIELD_ROW_NEUTRAL("prompt_logprobs", -1),
        FIELD_ROW_NEUTRAL("truncate_prompt_tokens", -1),
        FIELD_ROW_ANY("model"), /* call_check_model */
        FIELD_ROW_ANY("user"),
        FIELD_ROW_ANY("store"),
        FIELD_ROW_ANY("request_id"),
        FIELD_ROW_ANY("spaces_between_special_tokens"),
    };
    return (struct field_table){rows, sizeof rows / sizeof *rows};
}

bool call_check_model(const json_t *root, const struct service *s, struct api_error *e)
{
    const json_t *v = json_object_get(root, "model");
    if (!v || json_is_null(v)) return true;
    if (!fields_string(e, "model", v, 0, 1024)) return false;
    for (uint32_t i = 0; i < s->n_names; i++)
        if (!strcmp(s->names[i], json_string_value(v))) return true;
    return api_fail(e, 404, "model_not_found", "model",
                    "The model '%.100s' does not exist here; this server has '%.100s'.",
                    json_string_value(v), s->names[0]);
}

bool call_check(struct call *c, struct api_error *e)
{
    if (c->max_completion_tokens >= 0) c->max_tokens = c->max_completion_tokens;
    if (c->max_tokens >= 0 && c->min_tokens > c->max_tokens)
        return api_fail(e, 400, "invalid_value", "min_tokens",
                        "'min_tokens' is %lld but at most %lld tokens may be made.",
                        (long long)c->min_tokens, (long long)c->max_tokens);
    if (c->stream_options && !c->stream)
        return api_fail(e, 400, "invalid_value", "stream_options",
                        "'stream_options' is only allowed with 'stream': true.");
    if (c->top_logprobs > 0 && !c->want_logprobs)
        return api_fail(e, 400, "invalid_value", "top_logprobs",
                        "'top_logprobs' needs 'logprobs': true.");
    if (c->want_logprobs) c->logprobs = c->top_logprobs > 0 ? c->top_logprobs : 0;
    /* nearly 0 is not 0: it overflows where it divides. vLLM lifts it likewise */
    if (c->temperature > 0 && c->temperature < 0.01) c->temperature = 0.01;
    if (c->seed == -1 && getrandom(&c->seed, sizeof c->seed, 0) != sizeof c->seed)
        return api_fail(e, 500, "internal_error", NULL, "No random numbers.");
    return true;
}

bool call_check_bytes(size_t bytes, const struct service *s, const char *param, struct api_error *e)
{
    if (bytes / s->longest_token < s->max_context) return true;
    return api_fail(e, 400, "context_length_exceeded", param,
                    "This model's maximum context length is %u tokens. However, your request has "
                    "%zu bytes of input, at least %zu tokens. Please reduce its length.",
                    s->max_context, bytes, bytes / s->longest_token);
}

bool call_check_context(const struct call *c, const struct service *s, const char *param,
                        struct api_error *e)
{
    uint64_t want = c->max_tokens > 0 ? (uint64_t)c->max_tokens : 1;
    for (uint32_t i = 0; i < c->n_prompts; i++) {
        if (c->prompts[i].failed) return api_fail_err(e, ERR_NOMEM, NULL, NULL);
        if (c->prompts[i].n + (c->max_tokens != 0) > s->max_context)
            return api_fail(
                e, 400, "context_length_exceeded", param,
                "This model's maximum context length is %u tokens. However, your request has %u "
                "input tokens and asks for %llu output tokens. Please reduce the length of the %s.",
                s->max_context, c->prompts[i].n, (unsigned long long)want, param);
    }
    return true;
}

/* splitmix64: samples of one request get streams of their own; the first keeps the seed given. */
static uint64_t derive_seed(uint64_t seed, uint64_t i)
{
    if (!i) return seed;
    uint64_t z = seed + i * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

void call_request(const struct call *c, const struct service *s, uint32_t prompt, uint32_t i,
                  struct gen_request *out)
{
    *out = (struct gen_request){
        .prompt = c->prompts[prompt].ids,
        .n_prompt = c->prompts[prompt].n,
        .max_tokens =
            c->max_tokens < 0 || c->max_tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)c->max_tokens,
        .min_tokens = (uint32_t)c->min_tokens,
        .sample = {.temperature = (float)c->temperature,
                   .top_p = (float)c->top_p,
                   .min_p = (float)c->min_p,
                   .top_k = c->top_k > 0 ? (uint32_t)c->top_k : 0,
                   .seed = derive_seed((uint64_t)c->seed, i),
                   .logprobs = (int)c->logprobs},
        .cache_salt = c->cache_salt,
        .priority = (int32_t)c->priority,
    };
    const struct harmony_ids *h = tokenizer_harmony(s->tokenizer);
    if (!c->ignore_eos) {
        const uint32_t own[CALL_OWN_STOP_IDS] = {h->ret, h->call, h->endoftext};
        memcpy(out->stops, own, sizeof own);
        out->n_stops = CALL_OWN_STOP_IDS;
    }
    memcpy(out->stops + out->n_stops, c->stop_ids, c->n_stop_ids * sizeof *c->stop_ids);
    out->n_stops += c->n_stop_ids;
}
