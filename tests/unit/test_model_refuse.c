/* test_model_refuse.c - real model files with one thing changed: split in other ways they still
 * open, broken they are refused with a message that names the tensor or key. */
#include "config.h" /* memmem() is GNU */

#include "engine/model.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODELS  "tests/models/"
#define SCRATCH MODELS "refuse/" /* our own copies */
#define SHARD0  "model-00000-of-00001.safetensors"
#define SHARD1  "model-00001-of-00001.safetensors"
#define INDEX   "model.safetensors.index.json"

struct blob {
    char *data;
    size_t size;
};

static struct blob load(const char *path)
{
    struct blob b = {0};
    struct stat st;
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f && stat(path, &st) == 0, "cannot read %s", path);
    b.size = (size_t)st.st_size;
    b.data = malloc(b.size);
    ck_assert_uint_eq(fread(b.data, 1, b.size, f), b.size);
    fclose(f);
    return b;
}

/* Writes and frees. */
static void save(const char *path, struct blob b)
{
    FILE *f = fopen(path, "wb");
    ck_assert_msg(f != NULL, "cannot write %s", path);
    ck_assert_uint_eq(fwrite(b.data, 1, b.size, f), b.size);
    ck_assert_int_eq(fclose(f), 0);
    free(b.data);
}

static char *find(const struct blob *b, const char *text)
{
    char *at = memmem(b->data, b->size, text, strlen(text));
    ck_assert_msg(at != NULL, "no %s in the file", text);
    return at;
}

static void copy(const char *from, const char *to)
{
    save(to, load(from));
}

static void cut(const char *path, size_t size)
{
    ck_assert_int_eq(truncate(path, (off_t)size), 0);
}

static void refused(const char *path, const char *says)
{
    struct error e = {0};
    struct model *m = model_open(path, &e);
    ck_assert_msg(!m && e.code != ERR_OK && strstr(e.text, says) && strstr(e.text, SCRATCH),
                  "wanted \"%s\", got %d \"%s\"", says, e.code, e.text);
}

static void opens(const char *path)
{
    struct error e = {0};
    struct model *m = model_open(path, &e);
    ck_assert_msg(m != NULL, "%s", e.text);
    ck_assert_uint_eq(model_shape(m)->layers, 4);
    model_free(m);
}

/* ---- Hugging Face folders */

static const char *const hf_files[] = {"config.json", INDEX, SHARD0, SHARD1};

static void fresh_folder(void)
{
    char from[200], to[200];
    mkdir(SCRATCH "hf", 0777);
    unlink(SCRATCH "hf/model.safetensors");
    for (int i = 0; i < 4; i++) {
        snprintf(from, sizeof from, MODELS "tiny-1/hf/%s", hf_files[i]);
        snprintf(to, sizeof to, SCRATCH "hf/%s", hf_files[i]);
        copy(from, to);
    }
}

/* Replaces text in every file of the folder that holds it. A shard's header must keep its length:
 * a shorter replacement is filled up with spaces, which JSON ignores between its words. */
static void edit_folder(const char *what, const char *with)
{
    size_t n = strlen(what), m = strlen(with);
    ck_assert_uint_le(m, n);
    for (int i = 0; i < 4; i++) {
        char path[200];
        snprintf(path, sizeof path, SCRATCH "hf/%s", hf_files[i]);
        struct blob b = load(path);
        char *at = memmem(b.data, b.size, what, n);
        if (at) {
            memset(at, ' ', n);
            memcpy(at, with, m);
        }
        save(path, b);
    }
}

#define L0 "model.layers.0."

static const struct {
    const char *what, *with, *says;
} folder_edits[] = {
    {L0 "self_attn.sinks", L0 "self_attn.sinkz", "tensor " L0 "self_attn.sinks is missing"},
    {"lm_head.weight", "lm_hood.weight", "tensor lm_head.weight is missing"},
    {L0 "self_attn.q_proj.weight\": {\"dtype\": \"BF16\", \"shape\": [256, 64]",
     L0 "self_attn.q_proj.weight\": {\"dtype\": \"BF16\", \"shape\": [64, 256]",
     L0 "self_attn.q_proj.weight: shape [256, 64] is expected, the file has [64, 256]"},
    {L0 "self_attn.sinks\": {\"dtype\": \"BF16\", \"shape\": [8]",
     L0 "self_attn.sinks\": {\"dtype\": \"BF16\", \"shape\": [4]", "BF16 [4] does not take 16"},
    {L0 "self_attn.sinks\": {\"dtype\": \"BF16\", ", L0 "self_attn.sinks\": {\"dtype\": \"I16\", ",
     L0 "self_attn.sinks: type F32 or F16 or BF16 is expected, the file has I16"},
    {L0 "self_attn.k_proj.weight\": {\"dtype\": \"BF16\"",
     L0 "self_attn.k_proj.weight\": {\"dtype\": \"U16\"",
     L0 "self_attn.k_proj.weight: type F32 or F16 or BF16 or Q8_0 is expected, the file has U16"},
    {L0 "mlp.experts.down_proj_blocks\": {\"dtype\": \"U8\"",
     L0 "mlp.experts.down_proj_blocks\": {\"dtype\": \"I8\"",
     L0 "mlp.experts.down_proj_blocks: type U8 is expected, the file has I8"},
    {L0 "mlp.experts.gate_up_proj_scales\": {\"dtype\": \"U8\", \"shape\": [8, 192, 2]",
     L0 "mlp.experts.gate_up_proj_scales\": {\"dtype\": \"U8\", \"shape\": [8, 2, 192]",
     L0 "mlp.experts.gate_up_proj_scales: shape [8, 192, 2] is expected"},
    {L0 "mlp.experts.gate_up_proj_blocks\"", L0 "mlp.experts.gate_up_proj\"",
     "gate_up_proj: an export with expanded experts"},
    {L0 "self_attn.o_proj.weight\"", "block.0.attn.qkv.weight\"", "the original OpenAI layout"},
    {"\"vocab_size\": 320", "\"vocab_size\": 319",
     "tensor model.embed_tokens.weight: shape [319, 64] is expected, the file has [320, 64]"},
    {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 3", "layer_types has 4 entries"},
};

START_TEST(a_changed_folder_is_refused)
{
    fresh_folder();
    opens(SCRATCH "hf");
    edit_folder(folder_edits[_i].what, folder_edits[_i].with);
    refused(SCRATCH "hf", folder_edits[_i].says);
}
END_TEST

START_TEST(files_that_are_not_what_they_should_be)
{
    fresh_folder();
    edit_folder("\"" L0 "self_attn.sinks\": \"" SHARD0, "\"" L0 "self_attn.sinks\": \"" SHARD1);
    refused(SCRATCH "hf", "sinks is not in " SHARD1 ", as the index says");
    fresh_folder();
    edit_folder("\": \"" SHARD0, "\": \"../00000-of-00001.safetensors");
    refused(SCRATCH "hf", "is not a plain file name in the folder");
    fresh_folder();
    cut(SCRATCH "hf/" SHARD1, 5000);
    refused(SCRATCH "hf", SHARD1 ": ");
    unlink(SCRATCH "hf/" SHARD1);
    refused(SCRATCH "hf", SHARD1 ": No such file");
    cut(SCRATCH "hf/" SHARD0, 0);
    refused(SCRATCH "hf", SHARD0 ": the file is empty");
    unlink(SCRATCH "hf/" INDEX);
    refused(SCRATCH "hf", "model.safetensors: No such file");
    mkdir(SCRATCH "hf/model.safetensors", 0777);
    refused(SCRATCH "hf", "model.safetensors: not a regular file");
    rmdir(SCRATCH "hf/model.safetensors");
    unlink(SCRATCH "hf/config.json");
    refused(SCRATCH "hf", "config.json: No such file");
    refused(SCRATCH "nothing", "No such file");
}
END_TEST

START_TEST(one_file_without_an_index_opens)
{
    fresh_folder();
    unlink(SCRATCH "hf/" INDEX);
    copy(MODELS "parts-0/hf/model-00000-of-00000.safetensors", SCRATCH "hf/model.safetensors");
    opens(SCRATCH "hf");
}
END_TEST

/* ---- GGUF files */

#define GGUF SCRATCH "m.gguf"

/* Text for text of the same length. */
static const struct {
    const char *what, *with, *says;
} gguf_edits[] = {
    {"GGUF", "GGML", "not a GGUF file"},
    {"gpt-oss", "llama-2", "general.architecture is llama-2, only gpt-oss is supported"},
    {"general.architecture", "general.architectura", "general.architecture is missing"},
    {"gpt-oss.block_count", "gpt-oss.block_kount", "gpt-oss.block_count is missing"},
    {"gpt-oss.rope.freq_base", "gpt-oss.rope.freq_bass", "gpt-oss.rope.freq_base is missing"},
    {"yarn", "ntk1", "gpt-oss.rope.scaling.type is ntk1"},
    {"token_embd.weight", "token_emba.weight", "tensor token_embd.weight is missing"},
    {"blk.3.attn_sinks.weight", "blk.3.attn_sinkz.weight", "blk.3.attn_sinks.weight is missing"},
    {"blk.0.ffn_gate_exps.bias", "blk.0.ffn_gate_exps.bios", "blk.0.ffn_gate_exps.bias is missing"},
};

START_TEST(changed_text_is_refused)
{
    struct blob b = load(MODELS "tiny-1/f32.gguf");
    memcpy(find(&b, gguf_edits[_i].what), gguf_edits[_i].with, strlen(gguf_edits[_i].with));
    save(GGUF, b);
    refused(GGUF, gguf_edits[_i].says);
}
END_TEST

/* Four bytes, `skip` bytes after a key's or tensor's name. A key is followed by its type, a tensor
 * by n_dims, then 8 bytes a dimension, then its type. */
static const struct {
    const char *name;
    size_t skip;
    uint32_t value;
    const char *says;
} number_edits[] = {
    {"gpt-oss.block_count", 4, 0, "gpt-oss.block_count is 0, must be 1"},
    {"gpt-oss.block_count", 4, 257, "gpt-oss.block_count is 257, at most 256"},
    {"gpt-oss.block_count", 4, 5, "tensor blk.4.attn_norm.weight is missing"},
    {"gpt-oss.block_count", 0, 6, "gpt-oss.block_count: a whole number is expected"},
    {"gpt-oss.attention.head_count_kv", 4, 3, "q_heads (8) is not a multiple of kv_heads (3)"},
    {"gpt-oss.attention.value_length", 4, 16, "value_length 16"},
    {"gpt-oss.expert_used_count", 4, 9, "experts_per_token (9) is more than experts (8)"},
    {"gpt-oss.expert_feed_forward_length", 4, 128,
     "tensor blk.0.ffn_gate_exps.weight: shape [8, 128, 64] is expected, the file has [8, 96, 64]"},
    {"gpt-oss.rope.freq_base", 4, 0x7fc00000, "gpt-oss.rope.freq_base is nan"},
    {"gpt-oss.rope.scaling.factor", 4, 0x7f800000, "gpt-oss.rope.scaling.factor is inf"},
    {"gpt-oss.attention.layer_norm_rms_epsilon", 4, 0xbf800000, "rms_epsilon is -1"},
    {"token_embd.weight", 4, 32, "tensor token_embd.weight: shape [320, 64] is expected"},
    {"token_embd.weight", 12, 0, "vocab is 0"},
    {"blk.1.attn_q.weight", 4, 32, "tensor blk.1.attn_q.weight: shape [256, 64] is expected"},
    {"blk.1.attn_norm.weight", 12, 8, "tensor blk.1.attn_norm.weight: type F32 or F16 or BF16"},
    {"blk.1.attn_q.weight", 20, 39, "blk.1.attn_q.weight: type F32 or F16 or BF16 or Q8_0"},
    {"blk.1.attn_q.weight", 20, 12, "blk.1.attn_q.weight: ggml type 12 is not supported"},
    {"blk.1.attn_q.weight", 24, 1, "blk.1.attn_q.weight: offset 1 is not a multiple of 32"},
    {"blk.1.attn_q.weight", 28, 1, "blk.1.attn_q.weight: 65536 bytes from"},
    {"blk.1.attn_q.weight", 24, 0, "overlap"},
};

START_TEST(changed_numbers_are_refused)
{
    struct blob b = load(MODELS "tiny-1/f32.gguf");
    uint32_t v = number_edits[_i].value;
    char bytes[4] = {(char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24)};
    const char *name = number_edits[_i].name;
    memcpy(find(&b, name) + strlen(name) + number_edits[_i].skip, bytes, 4);
    save(GGUF, b);
    refused(GGUF, number_edits[_i].says);
}
END_TEST

/* Gives a string in the header a shorter text; the bytes won go to the padding before the data. */
static void shorten(struct blob *b, const char *what, const char *with)
{
    static const char last[] = "output.weight"; /* the last tensor: 2 dims, type, offset follow */
    size_t cut = strlen(what) - strlen(with);
    char *at = find(b, what), *end = b->data;
    for (char *p; (p = memmem(end, b->size - (size_t)(end - b->data), last, sizeof last - 1));)
        end = p + 1;
    end += sizeof last - 2 + 4 + 16 + 4 + 8;
    at[-8] = (char)strlen(with);
    memcpy(at, with, strlen(with));
    memmove(at + strlen(with), at + strlen(what), (size_t)(end - at) - strlen(what));
    memset(end - cut, 0, cut);
}

START_TEST(fused_and_foreign_layouts_are_refused)
{
    struct blob b = load(MODELS "tiny-1/f32.gguf");
    shorten(&b, "blk.0.attn_norm.weight", "blk.0.attn_qkv.weight");
    save(GGUF, b);
    refused(GGUF, "tensor blk.0.attn_qkv.weight: fused matrices are not supported");
    b = load(MODELS "tiny-1/f32.gguf");
    shorten(&b, "blk.0.post_attention_norm.weight", "blk.0.ffn_gate_up_exps.weight");
    save(GGUF, b);
    refused(GGUF, "tensor blk.0.ffn_gate_up_exps.weight: fused");
    b = load(MODELS "tiny-1/f32.gguf");
    shorten(&b, "gpt-oss", "gptoss");
    save(GGUF, b);
    refused(GGUF, "general.architecture is gptoss, ollama's own layout");
}
END_TEST

START_TEST(a_file_cut_off_is_refused)
{
    struct blob b = load(MODELS "tiny-1/public.gguf");
    size_t size = b.size;
    save(GGUF, b);
    opens(GGUF);
    for (size_t n = size - 33; n > 0; n = n * 4 / 5) { /* 32: the padding after the last tensor */
        cut(GGUF, n);
        refused(GGUF, GGUF);
    }
}
END_TEST

#define PART(n) "p-0000" n "-of-00003.gguf"

static void fresh_parts(void)
{
    copy(MODELS "parts-0/public-00001-of-00003.gguf", SCRATCH PART("1"));
    copy(MODELS "parts-0/public-00002-of-00003.gguf", SCRATCH PART("2"));
    copy(MODELS "parts-0/public-00003-of-00003.gguf", SCRATCH PART("3"));
}

START_TEST(parts)
{
    fresh_parts();
    opens(SCRATCH PART("1"));
    refused(SCRATCH PART("2"), "is part 2 of 3: name the first part");
    copy(SCRATCH PART("2"), SCRATCH PART("3"));
    refused(SCRATCH PART("1"), "says it is part 2 of 3, not 3 of 3");
    unlink(SCRATCH PART("3"));
    refused(SCRATCH PART("1"), PART("3") ": No such file");
    copy(SCRATCH PART("1"), SCRATCH "other.gguf");
    refused(SCRATCH "other.gguf", "must be named ...-00001-of-00003.gguf");
    fresh_parts();
    struct blob b = load(SCRATCH PART("1"));
    find(&b, "split.tensors.count")[strlen("split.tensors.count") + 4]++;
    save(SCRATCH PART("1"), b);
    refused(SCRATCH PART("1"), "split.tensors.count is 80, the parts hold 79");
}
END_TEST

int main(void)
{
    if (!tap_has(MODELS "parts-0.stamp")) return EXIT_SUCCESS;
    mkdir(SCRATCH, 0777);
    Suite *s = suite_create("model_refuse");
    TCase *t = tcase_create("model_refuse");
    tcase_add_loop_test(t, a_changed_folder_is_refused, 0,
                        sizeof folder_edits / sizeof *folder_edits);
    tcase_add_test(t, files_that_are_not_what_they_should_be);
    tcase_add_test(t, one_file_without_an_index_opens);
    tcase_add_loop_test(t, changed_text_is_refused, 0, sizeof gguf_edits / sizeof *gguf_edits);
    tcase_add_loop_test(t, changed_numbers_are_refused, 0,
                        sizeof number_edits / sizeof *number_edits);
    tcase_add_test(t, fused_and_foreign_layouts_are_refused);
    tcase_add_test(t, a_file_cut_off_is_refused);
    tcase_add_test(t, parts);
    suite_add_tcase(s, t);
    return tap_run(s);
}
