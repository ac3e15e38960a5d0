"""gptoss_numbers.py - the number formats of GPT-OSS files, and the random numbers of a synthetic model:
each tensor's depend on the seed, its name and its shape only. Used by make-model."""
import math
import zlib

import numpy as np

CHUNK = 1 << 22  # values drawn at once; part of what a seed means


def rng_of(seed, name, part=0):
    return np.random.Generator(np.random.SFC64([seed, zlib.crc32(name.encode()), part]))


def to_bf16(x):
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2")


def from_bf16(h):
    return (h.astype(np.uint32) << 16).view(np.float32)


def to_q8_0(x):
    """ggml's blocks: f16 scale = max / 127, then 32 int8, rounded half away from zero."""
    b = np.ascontiguousarray(x, np.float32).reshape(-1, 32)
    d = np.abs(b).max(1) / np.float32(127)
    inv = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d > 0)
    t = b * inv[:, None]
    out = np.empty((len(b), 34), np.uint8)
    out[:, :2] = d.astype("<f2").view(np.uint8).reshape(-1, 2)
    out[:, 2:] = (np.sign(t) * np.floor(np.abs(t) + np.float32(.5))).astype(np.int8).view(np.uint8)
    return out


def from_q8_0(raw):
    d = raw[:, :2].copy().view("<f2").astype(np.float64)
    return (raw[:, 2:].view(np.int8) * d).reshape(-1)


ENCODE = {"F32": lambda x: x.astype("<f4"), "F16": lambda x: x.astype("<f2"), "BF16": to_bf16,
          "Q8_0": to_q8_0}


class Model:
    """The numbers of a model: every tensor by name, piece by piece, always the same for a seed."""

    def __init__(self, a):
        self.a, self.seed = a, a.seed

    def pieces(self, name, shape, std, mean=0.0):
        """Flat float32 pieces of a dense tensor, each number exact in BF16."""
        rng, left = rng_of(self.seed, name), math.prod(shape)
        while left:
            x = rng.standard_normal(min(left, CHUNK), dtype=np.float32)
            left -= len(x)
            yield from_bf16(to_bf16(x * np.float32(std) + np.float32(mean)))

    def dense(self, name, shape, std, mean=0.0):
        return np.concatenate(list(self.pieces(name, shape, std, mean))).reshape(shape)

    def expert(self, name, e, rows, cols, std):
        """One expert's matrix as HF stores it: blocks u8 [rows][cols/32][16], scales u8. Codes are
        drawn evenly; a share of the scales is half the others, so that the deviation is std."""
        rng = rng_of(self.seed, name, e + 1)
        mean_square = (0.25 + 1 + 2.25 + 4 + 9 + 16 + 36) / 8  # of the codes 0 .5 1 1.5 2 3 4 6
        m = math.ceil(math.log(std * std / mean_square, 4))
        p = (std * std / mean_square / 4.0 ** m - 0.25) / 0.75
        n = rows * (cols // 32)
        blocks = np.frombuffer(rng.bytes(16 * n), np.uint8).reshape(rows, cols // 32, 16)
        draw = np.frombuffer(rng.bytes(n), np.uint8).reshape(rows, cols // 32)
        return blocks, np.where(draw < round(p * 256), 127 + m, 126 + m).astype(np.uint8)

    def expert_dense(self, name, e, rows, cols, std):
        h, s = self.expert(name, e, rows, cols, std)
        codes = np.stack([h & 15, h >> 4], -1).reshape(rows, cols // 32, 32)
        table = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
        scale = np.exp2(s.astype(np.float32) - 127)
        return (table[codes] * scale[..., None]).reshape(rows, cols)


def to_ggml_mxfp4(blocks, scales):
    """Byte k of HF holds elements 2k and 2k+1, of ggml k and k+16; ggml puts the scale first."""
    lo, hi = blocks[..., :8], blocks[..., 8:]
    out = np.empty(blocks.shape[:-1] + (17,), np.uint8)
    out[..., 0] = scales
    out[..., 1::2] = (lo & 15) | (hi << 4)
    out[..., 2::2] = (lo >> 4) | (hi & 0xF0)
    return out
