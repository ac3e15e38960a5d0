/* test_model_config.c - config.json: the public file, its aliases, and every refusal. */
#include "engine/model_config.h"
#include "tests/unit/tap.h"

#include <stdio.h>
#include <string.h>

/* config.json of openai/gpt-oss-20b; source: gpt-oss spec 1.1. Layer types are left to the default,
 * which equals them. */
static const char public_config[] =
    "{\"architectures\":[\"GptOssForCausalLM\"],\"attention_bias\":true,\"attention_dropout\":0.0,"
    "\"eos_token_id\":200002,\"experts_per_token\":4,\"head_dim\":64,\"hidden_act\":\"silu\","
    "\"hidden_size\":2880,\"initial_context_length\":4096,\"initializer_range\":0.02,"
    "\"intermediate_size\":2880,\"max_position_embeddings\":131072,\"model_type\":\"gpt_oss\","
    "\"num_attention_heads\":64,\"num_experts_per_tok\":4,\"num_hidden_layers\":24,"
    "\"num_key_value_heads\":8,\"num_local_experts\":32,\"output_router_logits\":false,"
    "\"pad_token_id\":199999,\"quantization_config\":{\"modules_to_not_convert\":[\"lm_head\"],"
    "\"quant_method\":\"mxfp4\"},\"rms_norm_eps\":1e-05,"
    "\"rope_scaling\":{\"beta_fast\":32.0,\"beta_slow\":1.0,\"factor\":32.0,"
    "\"original_max_position_embeddings\":4096,\"rope_type\":\"yarn\",\"truncate\":false},"
    "\"rope_theta\":150000,\"router_aux_loss_coef\":0.9,\"sliding_window\":128,"
    "\"swiglu_limit\":7.0,\"tie_word_embeddings\":false,\"transformers_version\":\"4.55.0.dev0\","
    "\"use_cache\":true,\"vocab_size\":201088}";

/* The public file with one piece of its text replaced. */
static enum err read_edited(const char *find, const char *replace, struct model_shape *s,
                            struct error *e)
{
    char json[4096];
    const char *at = strstr(public_config, find);
    ck_assert_msg(at != NULL, "no %s in the config", find);
    int n = snprintf(json, sizeof json, "%.*s%s%s", (int)(at - public_config), public_config,
                     replace, at + strlen(find));
    return model_config_read((const uint8_t *)json, (size_t)n, s, e);
}

START_TEST(the_public_file)
{
    struct model_shape s;
    struct error e = {0};
    ck_assert_msg(!read_edited("{", "{", &s, &e), "%s", e.text);
    ck_assert_uint_eq(s.layers, 24);
    ck_assert_uint_eq(s.hidden, 2880);
    ck_assert_uint_eq(s.q_heads, 64);
    ck_assert_uint_eq(s.kv_heads, 8);
    ck_assert_uint_eq(s.head_dim, 64);
    ck_assert_uint_eq(s.experts, 32);
    ck_assert_uint_eq(s.experts_per_token, 4);
    ck_assert_uint_eq(s.intermediate, 2880);
    ck_assert_uint_eq(s.vocab, 201088);
    ck_assert_uint_eq(s.window, 128);
    ck_assert_uint_eq(s.max_positions, 131072);
    ck_assert_uint_eq(s.rope_original, 4096);
    ck_assert(s.rope_theta == 150000 && s.rope_factor == 32 && !s.rope_truncate);
    ck_assert(s.rope_beta_fast == 32 && s.rope_beta_slow == 1);
    ck_assert(s.rms_eps == 1e-5f && s.swiglu_limit == 7 && s.swiglu_alpha == 1.702f);
    for (uint32_t i = 0; i < s.layers; i++)
        ck_assert(s.sliding[i] == (i % 2 == 0));
}
END_TEST

START_TEST(aliases_and_defaults)
{
    struct model_shape s;
    struct error e = {0};
    ck_assert_msg(!read_edited("num_local_experts", "num_experts", &s, &e), "%s", e.text);
    ck_assert_uint_eq(s.experts, 32);
    ck_assert_msg(!read_edited("\"num_experts_per_tok\":4,", "", &s, &e), "%s", e.text);
    ck_assert_uint_eq(s.experts_per_token, 4);
    ck_assert_msg(!read_edited("\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":2880",
                               "\"head_dim\":null,\"hidden_size\":2048", &s, &e),
                  "%s", e.text);
    ck_assert_uint_eq(s.head_dim, 32);
    ck_assert_msg(!read_edited(",\"truncate\":false", "", &s, &e), "%s", e.text);
    ck_assert(s.rope_truncate);
    ck_assert_msg(!read_edited("\"swiglu_limit\":7.0,", "", &s, &e), "%s", e.text);
    ck_assert(s.swiglu_limit == 7);
    ck_assert_msg(!read_edited("\"max_position_embeddings\":131072,", "", &s, &e), "%s", e.text);
    ck_assert_uint_eq(s.max_positions, 131072);
    ck_assert_msg(!read_edited("\"rope_type\":\"yarn\"", "\"rope_type\":\"default\"", &s, &e), "%s",
                  e.text);
    ck_assert(s.rope_factor == 1);
    ck_assert_msg(!read_edited("\"original_max_position_embeddings\":4096,", "", &s, &e), "%s",
                  e.text);
    ck_assert_uint_eq(s.rope_original, 4096); /* from initial_context_length */
}
END_TEST

START_TEST(newer_rope_parameters)
{
    static const char json[] =
        "{\"model_type\":\"gpt_oss\",\"num_hidden_layers\":2,\"hidden_size\":64,"
        "\"intermediate_size\":96,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
        "\"head_dim\":32,\"num_local_experts\":8,\"num_experts_per_tok\":4,\"vocab_size\":320,"
        "\"sliding_window\":16,\"layer_types\":[\"full_attention\",\"sliding_attention\"],"
        "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":32,\"rope_theta\":1000,"
        "\"original_max_position_embeddings\":2048,\"truncate\":true}}";
    struct model_shape s;
    struct error e = {0};
    ck_assert_msg(!model_config_read((const uint8_t *)json, sizeof json - 1, &s, &e), "%s", e.text);
    ck_assert(s.rope_theta == 1000 && s.rope_factor == 32 && s.rope_truncate);
    ck_assert_uint_eq(s.max_positions, 65536);
    ck_assert(!s.sliding[0] && s.sliding[1]);
}
END_TEST

static const struct {
    const char *find, *replace, *says;
} refused[] = {
    {"{", "[", "config.json: line 1"},
    {"\"num_hidden_layers\":24", "\"num_hidden_layers\":24,\"num_hidden_layers\":24", "duplicate"},
    {"\"model_type\":\"gpt_oss\",", "", "model_type is missing"},
    {"\"gpt_oss\"", "\"llama\"", "model_type is llama, only gpt_oss is supported"},
    {"\"gpt_oss\"", "3", "model_type is not a string"},
    {"\"silu\"", "\"gelu\"", "hidden_act is gelu"},
    {"\"mxfp4\"", "\"awq\"", "quantization_config.quant_method is awq"},
    {"\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true",
     "tie_word_embeddings is true"},
    {"\"attention_bias\":true", "\"attention_bias\":false", "attention_bias is false"},
    {"\"hidden_size\":2880,", "", "config.json: hidden_size is missing"},
    {"\"hidden_size\":2880", "\"hidden_size\":\"2880\"", "hidden_size is not a whole number"},
    {"\"hidden_size\":2880", "\"hidden_size\":2880.0", "hidden_size is not a whole number"},
    {"\"hidden_size\":2880", "\"hidden_size\":0", "hidden_size is 0, must be 1"},
    {"\"hidden_size\":2880", "\"hidden_size\":-64", "hidden_size is -64, must be 1"},
    {"\"hidden_size\":2880", "\"hidden_size\":4294967296", "hidden_size is 4294967296"},
    {"\"hidden_size\":2880", "\"hidden_size\":2881", "hidden (2881) and intermediate (2880)"},
    {"\"hidden_size\":2880", "\"hidden_size\":4294967295", "hidden is 4294967295"},
    {"\"num_hidden_layers\":24", "\"num_hidden_layers\":1000", "num_hidden_layers is 1000"},
    {"\"num_key_value_heads\":8", "\"num_key_value_heads\":7", "not a multiple of kv_heads (7)"},
    {"\"head_dim\":64", "\"head_dim\":63", "head_dim (63) is odd"},
    {"\"num_experts_per_tok\":4", "\"num_experts_per_tok\":33", "experts_per_token (33) is more"},
    {"\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":2880",
     "\"hidden_act\":\"silu\",\"hidden_size\":2976", "head_dim is missing"},
    {"1e-05", "NaN", "config.json: line 1"},
    {"1e-05", "Infinity", "config.json: line 1"},
    {"1e-05", "1e999", "config.json: line 1"},
    {"1e-05", "0", "rms_norm_eps is 0, must be above 0"},
    {"1e-05", "\"small\"", "rms_norm_eps is not a number"},
    {"1e-05", "2", "rms_eps is 2, must be above 0 and below 1"},
    {"\"swiglu_limit\":7.0", "\"swiglu_limit\":1e300", "does not fit a float"},
    {"\"rope_theta\":150000,", "", "rope_theta is missing"},
    {"\"rope_theta\":150000", "\"rope_theta\":-1", "rope_theta is -1"},
    {"\"yarn\"", "\"longrope\"", "rope_type is longrope, yarn or default is needed"},
    {"\"yarn\"", "1", "rope_type is not a string"},
    {"\"rope_scaling\":{", "\"rope_scaling\":[1],\"x\":{", "rope_scaling is not an object"},
    {"\"factor\":32.0,", "", "rope_scaling.factor is missing"},
    {"\"factor\":32.0", "\"factor\":0", "rope_scaling.factor is 0"},
    {"\"factor\":32.0", "\"factor\":1e9", "rope_factor is 1e+09"},
    {"\"beta_fast\":32.0", "\"beta_fast\":-1", "rope_scaling.beta_fast is -1"},
    {"\"truncate\":false", "\"truncate\":0", "rope_scaling.truncate is not true or false"},
    {"\"truncate\":false", "\"attention_factor\":1.5", "attention_factor"},
    {"\"use_cache\":true", "\"layer_types\":[\"full_attention\"]", "layer_types has 1 entries"},
    {"\"num_hidden_layers\":24", "\"num_hidden_layers\":1,\"layer_types\":[\"linear\"]",
     "layer_types[0] is linear"},
    {"\"num_hidden_layers\":24", "\"num_hidden_layers\":1,\"layer_types\":[4]",
     "layer_types[0] is not a string"},
};

START_TEST(what_is_wrong_is_named)
{
    struct model_shape s;
    struct error e = {0};
    enum err rc = read_edited(refused[_i].find, refused[_i].replace, &s, &e);
    ck_assert_msg(rc != ERR_OK && strstr(e.text, refused[_i].says), "%s -> %s: got %d \"%s\"",
                  refused[_i].find, refused[_i].replace, rc, e.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_config");
    TCase *t = tcase_create("model_config");
    tcase_add_test(t, the_public_file);
    tcase_add_test(t, aliases_and_defaults);
    tcase_add_test(t, newer_rope_parameters);
    tcase_add_loop_test(t, what_is_wrong_is_named, 0, sizeof refused / sizeof *refused);
    suite_add_tcase(s, t);
    return tap_run(s);
}
