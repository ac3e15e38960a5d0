"""A numpy decoder that reads nothing but an exported folder: many prompts at once, greedy.

It is the second opinion on the export and on the server: no line of the trainer is used.
"""
import json
import math
import struct

import numpy as np

import export
import tokens

FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        part = raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            a = (np.frombuffer(part, "<u2").astype("<u4") << 16).view("<f4")
        else:
            a = np.frombuffer(part, np.uint8)
        out[name] = a.reshape(t["shape"])
    for name in [n for n in out if n.endswith("_blocks")]:
        code, scale = out.pop(name), out.pop(name.replace("_blocks", "_scales"))
        x = np.empty((*code.shape[:-1], 32), np.float32)
        x[..., 0::2], x[..., 1::2] = FP4[code & 15], FP4[code >> 4]
        x *= np.exp2(scale.astype(np.float32) - 127)[..., None]
        out[name[:-7]] = x.reshape(*code.shape[:-2], -1)
    return out


def read_tokenizer(path):
    with open(path) as f:
        t = json.load(f)
    byte = {c: b for b, c in export.byte_letters().items()}

    def raw(s):
        return bytes(byte[c] for c in s)

    tok = tokens.Tokenizer((raw(a), raw(b)) for a, b in t["model"]["merges"])
    if tok.special != {a["content"]: a["id"] for a in t["added_tokens"]}:
        raise ValueError("special tokens are not where they should be")
    return tok


class Decoder:
    def __init__(self, folder):
        with open(folder + "/config.json") as f:
            self.c = json.load(f)
        self.w = read_safetensors(folder + "/model.safetensors")
        self.tok = read_tokenizer(folder + "/tokenizer.json")
        c, rope = self.c, self.c["rope_scaling"]
        d, theta = c["head_dim"], c["rope_theta"]
        f = theta ** (np.arange(0, d, 2) / d)

        def bound(turns):
            return d / 2 * math.log(rope["original_max_position_embeddings"]
                                    / (turns * 2 * math.pi)) / math.log(theta)

        low, high = bound(rope["beta_fast"]), bound(rope["beta_slow"])
        ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
        self.inverse = ramp / (rope["factor"] * f) + (1 - ramp) / f
        self.concentration = .1 * math.log(rope["factor"]) + 1

    def rms(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * self.w[name]

    def rotate(self, x, pos):
        half = self.c["head_dim"] // 2
        angle = pos[..., None] * self.inverse
        cos = (np.cos(angle) * self.concentration).astype(np.float32)[..., None, :]
        sin = (np.sin(angle) * self.concentration).astype(np.float32)[..., None, :]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

    def experts(self, x, p):
        """x: [rows, hidden]; rows are gathered by expert."""
        c, w = self.c, self.w
        r = x @ w[p + "router.weight"].T + w[p + "router.bias"]
        top = np.argsort(-r, axis=1, kind="stable")[:, :c["num_experts_per_tok"]]
        g = np.take_along_axis(r, top, 1)
        g = np.exp(g - g.max(1, keepdims=True))
        g /= g.sum(1, keepdims=True)
        y = np.zeros_like(x)
        for e in range(c["num_local_experts"]):
            rows, place = np.nonzero(top == e)
            if len(rows) == 0:
                continue
            u = x[rows] @ w[p + "experts.gate_up_proj"][e].T + w[p + "experts.gate_up_proj_bias"][e]
            limit = c["swiglu_limit"]
            gate, up = np.minimum(u[:, 0::2], limit), np.clip(u[:, 1::2], -limit, limit)
            a = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
            out = a @ w[p + "experts.down_proj"][e].T + w[p + "experts.down_proj_bias"][e]
            y[rows] += out * g[rows, place][:, None]
        return y

    def step(self, ids, pos, cache):
        """ids, pos: [batch, n]. A position of -1 is padding in front and is seen by nobody."""
        c, w = self.c, self.w
        batch, n = ids.shape
        nq, nkv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        x = w["model.embed_tokens.weight"][ids]
        cache["pos"] = np.concatenate((cache.get("pos", pos[:, :0]), pos), 1)
        distance = pos[:, :, None] - cache["pos"][:, None, :]
        hidden = (distance < 0) | (cache["pos"][:, None, :] < 0)
        for layer in range(c["num_hidden_layers"]):
            p = "model.layers.%d." % layer
            h = self.rms(x, p + "input_layernorm.weight")
            a = p + "self_attn."
            q, k, v = (h @ w[a + s + "_proj.weight"].T + w[a + s + "_proj.bias"] for s in "qkv")
            q = self.rotate(q.reshape(batch, n, nq, d), pos)
            k = self.rotate(k.reshape(batch, n, nkv, d), pos)
            v = v.reshape(batch, n, nkv, d)
            if layer in cache:
                k = np.concatenate((cache[layer][0], k), 1)
                v = np.concatenate((cache[layer][1], v), 1)
            cache[layer] = (k, v)
            mask = hidden
            if c["layer_types"][layer] == "sliding_attention":
                mask = hidden | (distance >= c["sliding_window"])
            out = np.empty((batch, n, nq, d), np.float32)
            for head in range(nq):
                kv = head // (nq // nkv)
                z = q[:, :, head] @ k[:, :, kv].swapaxes(1, 2) / np.float32(math.sqrt(d))
                z[mask] = -1e30
                sink = w[p + "self_attn.sinks"][head]
                most = np.maximum(z.max(-1, keepdims=True), sink)
                e = np.exp(z - most)
                out[:, :, head] = e @ v[:, :, kv] / (e.sum(-1, keepdims=True) + np.exp(sink - most))
            x = x + out.reshape(batch, n, -1) @ w[p + "self_attn.o_proj.weight"].T \
                + w[p + "self_attn.o_proj.bias"]
            h = self.rms(x, p + "post_attention_layernorm.weight")
            x = x + self.experts(h.reshape(batch * n, -1), p + "mlp.").reshape(x.shape)
        return self.rms(x[:, -1], "model.norm.weight") @ w["lm_head.weight"].T

    def complete(self, prompts, limit=300):
        """The greedy completion of each prompt (text with special tokens), until it stops."""
        encoded = [self.tok.encode(p) for p in prompts]
        longest = max(map(len, encoded))
        ids = np.array([[0] * (longest - len(e)) + e for e in encoded])
        pos = np.array([[-1] * (longest - len(e)) + list(range(len(e))) for e in encoded])
        stops = [self.tok.special[s] for s in ("<|return|>", "<|call|>", "<|endoftext|>")]
        live, done, cache = np.arange(len(prompts)), [[] for _ in prompts], {}
        for _ in range(limit):
            best = self.step(ids, pos, cache).argmax(1)
            for i, token in zip(live, best):
                done[i].append(int(token))
            keep = ~np.isin(best, stops)
            if not keep.any():
                break
            live, ids, pos = live[keep], best[keep][:, None], pos[keep][:, -1:] + 1
            cache = {k: v[keep] if k == "pos" else (v[0][keep], v[1][keep])
                     for k, v in cache.items()}
        return [self.tok.decode(d) for d in done]
