#!/usr/bin/python3
"""Writes trained weights as a Hugging Face gpt-oss folder: experts in MXFP4, the rest in BF16.

usage: export.py WEIGHTS.bin FOLDER
"""
import json
import os
import struct
import sys

import numpy as np

import data
import tokens

HIDDEN, LAYERS, Q_HEADS, KV_HEADS, HEAD, EXPERTS, INNER = 128, 4, 4, 2, 32, 8, 128
QKV = (Q_HEADS + 2 * KV_HEADS) * HEAD
BORDERS = np.array([.25, .75, 1.25, 1.75, 2.5, 3.5, 5.], np.float32)  # between e2m1 neighbours
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


class Flat:
    """Hands out the flat array of the trainer in the order of model.c."""

    def __init__(self, path):
        self.raw, self.at = np.fromfile(path, dtype="<f4"), 0

    def take(self, *shape):
        n = int(np.prod(shape))
        self.at += n
        return self.raw[self.at - n:self.at].reshape(shape)


def bf16(x):
    bits = np.ascontiguousarray(x, dtype="<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def mxfp4(w):
    """[..., K] to blocks [..., K/32, 16] (even element in the low nibble), scales [..., K/32]."""
    b = w.reshape(*w.shape[:-1], -1, 32)
    most = np.maximum(np.abs(b).max(-1), np.float32(2.) ** -120)
    e = np.floor(np.log2(most)) - 2
    e = np.where(most / np.exp2(e) > 7, e + 1, e)
    x = b / np.exp2(e)[..., None].astype(np.float32)
    code = np.searchsorted(BORDERS, np.abs(x), side="right").astype(np.uint8)
    code |= np.where(np.signbit(x) & (code > 0), 8, 0).astype(np.uint8)
    return code[..., 0::2] | (code[..., 1::2] << 4), (e + 127).astype(np.uint8)


def tensors(flat, vocab):
    out = {}

    def dense(name, a):
        out[name] = ("BF16", bf16(a))

    def packed(name, a):
        blocks, scales = mxfp4(a)
        out[name + "_blocks"], out[name + "_scales"] = ("U8", blocks), ("U8", scales)

    dense("model.embed_tokens.weight", flat.take(vocab, HIDDEN))
    dense("lm_head.weight", flat.take(vocab, HIDDEN))
    for layer in range(LAYERS):
        p = "model.layers.%d." % layer
        dense(p + "input_layernorm.weight", flat.take(HIDDEN))
        dense(p + "post_attention_layernorm.weight", flat.take(HIDDEN))
        w, b = flat.take(QKV, HIDDEN), flat.take(QKV)
        q, k = Q_HEADS * HEAD, (Q_HEADS + KV_HEADS) * HEAD
        for name, a, z in (("q", 0, q), ("k", q, k), ("v", k, QKV)):
            dense(p + "self_attn.%s_proj.weight" % name, w[a:z])
            dense(p + "self_attn.%s_proj.bias" % name, b[a:z])
        dense(p + "self_attn.o_proj.weight", flat.take(HIDDEN, Q_HEADS * HEAD))
        dense(p + "self_attn.o_proj.bias", flat.take(HIDDEN))
        dense(p + "self_attn.sinks", flat.take(Q_HEADS))
        dense(p + "mlp.router.weight", flat.take(EXPERTS, HIDDEN))
        dense(p + "mlp.router.bias", flat.take(EXPERTS))
        # the trainer keeps gate rows before up rows; the format has them interleaved
        gate_up = flat.take(EXPERTS, 2, INNER, HIDDEN).swapaxes(1, 2)
        bias = flat.take(EXPERTS, 2, INNER).swapaxes(1, 2)
        packed(p + "mlp.experts.gate_up_proj", gate_up.reshape(EXPERTS, 2 * INNER, HIDDEN))
        dense(p + "mlp.experts.gate_up_proj_bias", bias.reshape(EXPERTS, 2 * INNER))
        packed(p + "mlp.experts.down_proj", flat.take(EXPERTS, HIDDEN, INNER))
        dense(p + "mlp.experts.down_proj_bias", flat.take(EXPERTS, HIDDEN))
    dense("model.norm.weight", flat.take(HIDDEN))
    if flat.at != flat.raw.size:
        sys.exit("the weights hold %d numbers, the model %d" % (flat.raw.size, flat.at))
    return out


def write_safetensors(path, all_tensors):
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(all_tensors):
        kind, a = all_tensors[name]
        head[name] = {"dtype": kind, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(all_tensors):
            f.write(all_tensors[name][1].tobytes())


def byte_letters():
    """The character that stands for each byte in tokenizer.json."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(other)}


def tokenizer_json(tok):
    letter = byte_letters()

    def show(token):
        return "".join(letter[b] for b in token)

    added = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for s, i in tok.special.items()]
    split = {"type": "Split", "pattern": {"Regex": O200K}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
            "post_processor": None,
            "decoder": level | {"add_prefix_space": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                      "vocab": {show(t): i for i, t in enumerate(tok.tokens)},
                      "merges": [[show(a), show(b)] for a, b in tok.merges]}}


def config_json(tok):
    return {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True,
        "attention_dropout": 0.0, "eos_token_id": tok.special["<|return|>"],
        "pad_token_id": tok.special["<|endoftext|>"], "head_dim": HEAD, "hidden_act": "silu",
        "hidden_size": HIDDEN, "initial_context_length": 4096, "initializer_range": 0.02,
        "intermediate_size": INNER,
        "layer_types": ["full_attention" if i % 2 else "sliding_attention" for i in range(LAYERS)],
        "max_position_embeddings": 131072, "num_attention_heads": Q_HEADS,
        "num_experts_per_tok": 2, "experts_per_token": 2, "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS, "num_local_experts": EXPERTS,
        "output_router_logits": False,
        "quantization_config": {
            "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                       "model.embed_tokens", "lm_head"],
            "quant_method": "mxfp4"},
        "rms_norm_eps": 1e-05,
        "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                         "original_max_position_embeddings": 4096, "rope_type": "yarn",
                         "truncate": False},
        "rope_theta": 150000, "router_aux_loss_coef": 0.01, "sliding_window": 128,
        "swiglu_limit": 7.0, "tie_word_embeddings": False, "use_cache": True,
        "vocab_size": tokens.VOCAB}


def main(weights, folder):
    tok = data.make_tokenizer()
    os.makedirs(folder, exist_ok=True)
    write_safetensors(folder + "/model.safetensors", tensors(Flat(weights), tokens.VOCAB))
    with open(folder + "/tokenizer.json", "w") as f:
        json.dump(tokenizer_json(tok), f, ensure_ascii=False, indent=0, separators=(",", ":"))
        f.write("\n")
    with open(folder + "/config.json", "w") as f:
        json.dump(config_json(tok), f, indent=2)
        f.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
