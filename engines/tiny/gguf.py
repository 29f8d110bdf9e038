#!/usr/bin/env python3
"""Writes a small but complete language model as a GGUF file, with Python's standard library only.

  gguf.py OUT.gguf [--kind counter|random] [--embd 64] [--layers 2] [--heads 2] [--ff 128]
          [--context 4096] [--max-number 999] [--seed 1]

counter  counts. The answer continues the last number of the prompt: "count from 41" gives
         " 42 43 44 ..."; any other ending starts at " 1"; after the greatest number the model
         says end-of-text. Each number is one token, so a lost, doubled, late or foreign piece of
         a stream shows at once, and token counts are known in advance. The answer is the same
         at any usual temperature.
random   random weights: fluent nonsense, for load and slow loading. `--embd 512 --layers 12
         --heads 8 --ff 2048` has 52 M parameters and 207 MB.

The file is a real llama-architecture network (RMSNorm, rotary attention, SwiGLU), all of it
computed for each token. In `counter` the two projections that write back into the residual
stream are nearly zero, so that the embedding and the output matrix alone decide. Equal arguments
give equal bytes.
"""

import argparse
import array
import random
import struct
import sys

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # token types of GGUF
SPACE = "\u2581"  # how a SentencePiece vocabulary writes a space
TEMPLATE = ("{%- for m in messages -%}{{ '<' + m['role'] + '> ' + m['content'] }}"
            "{%- if not loop.last %}{{ '\\n' }}{%- endif -%}{%- endfor -%}")


def vocabulary(max_number):
    """Returns (texts, scores, types, number -> id). Pieces merge by score, and merging needs
    every prefix of a piece: all of " 7", " 70" and " 700"."""
    rows = [("<unk>", 0, UNKNOWN), ("<s>", 0, CONTROL), ("</s>", 0, CONTROL)]
    rows += [(f"<0x{byte:02X}>", 0, BYTE) for byte in range(256)]
    # Single characters come last in merging: below all numbers.
    rows += [(c, -2 * max_number - 10, NORMAL) for c in [SPACE] + [chr(i) for i in range(33, 127)]]
    first = len(rows)
    rows += [(SPACE + str(n), -n - 1, NORMAL) for n in range(max_number + 1)]
    texts, scores, types = zip(*rows)
    return texts, scores, types, {n: first + n for n in range(max_number + 1)}


def counting_matrices(width, size, number, rng):
    """Embedding and output matrix that make each number's successor the likeliest next token."""
    codes = [[rng.choice((-1.0, 1.0)) for _ in range(width)] for _ in range(size)]
    # Tokens that are no number share one code; else their sum would add noise to all answers.
    is_number = set(number.values())
    for token in range(size):
        if token not in is_number:
            codes[token] = codes[0]
    # A code times itself is `width`, so the right answer gets 64 and all others about 0 +- 8.
    gain = 64.0 / width
    out = [[0.0] * width for _ in range(size)]
    follows = [(number[n], number[n + 1]) for n in range(len(number) - 1)]
    follows += [(number[len(number) - 1], 2), (0, number[1])]
    for token, successor in follows:
        out[successor] = [gain * x + y for x, y in zip(codes[token], out[successor])]
    return flatten(codes), flatten(out)


def flatten(rows):
    return array.array("f", [x for row in rows for x in row])


def noise(count, deviation, rng):
    """`count` Gaussian numbers; a long block repeats, which is quick and random enough."""
    block = array.array("f", [rng.gauss(0.0, deviation) for _ in range(min(count, 65521))])
    repeats, rest = divmod(count, len(block))
    return block * repeats + block[:rest]


def network(a, size, number, rng):
    """All tensors as (name, dimensions fastest first, numbers)."""
    width, unit = a.embd, a.embd ** -0.5
    if a.kind == "counter":
        embedding, output = counting_matrices(width, size, number, rng)
        back = 1e-3
    else:
        embedding, output = noise(size * width, 1.0, rng), noise(size * width, unit, rng)
        back = 1.0
    ones = array.array("f", [1.0]) * width
    tensors = [("token_embd.weight", (width, size), embedding)]
    for i in range(a.layers):
        def matrix(name, rows, columns, deviation):
            tensors.append((f"blk.{i}.{name}.weight", (rows, columns),
                            noise(rows * columns, deviation, rng)))
        tensors.append((f"blk.{i}.attn_norm.weight", (width,), ones))
        matrix("attn_q", width, width, unit)
        matrix("attn_k", width, width, unit)
        matrix("attn_v", width, width, unit)
        matrix("attn_output", width, width, unit * back)
        tensors.append((f"blk.{i}.ffn_norm.weight", (width,), ones))
        matrix("ffn_gate", width, a.ff, unit)
        matrix("ffn_up", width, a.ff, unit)
        matrix("ffn_down", a.ff, width, a.ff ** -0.5 * back)
    tensors += [("output_norm.weight", (width,), ones), ("output.weight", (width, size), output)]
    return tensors


# ---- GGUF version 3 ---------------------------------------------------------------------------
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
FORMATS = {U32: "I", I32: "i", F32: "f", BOOL: "?"}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def item(key, kind, value):
    data = text(value) if kind == STRING else struct.pack("<" + FORMATS[kind], value)
    return text(key) + struct.pack("<I", kind) + data


def items(key, kind, values):
    data = b"".join(map(text, values)) if kind == STRING else \
        struct.pack(f"<{len(values)}{FORMATS[kind]}", *values)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + data


def metadata(a, texts, scores, types):
    return [
        item("general.architecture", STRING, "llama"),
        item("general.name", STRING, a.kind),
        item("general.file_type", U32, 0),
        item("general.alignment", U32, 32),
        item("llama.vocab_size", U32, len(texts)),
        item("llama.context_length", U32, a.context),
        item("llama.embedding_length", U32, a.embd),
        item("llama.block_count", U32, a.layers),
        item("llama.feed_forward_length", U32, a.ff),
        item("llama.attention.head_count", U32, a.heads),
        item("llama.attention.head_count_kv", U32, a.heads),
        item("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        item("llama.rope.dimension_count", U32, a.embd // a.heads),
        item("llama.rope.freq_base", F32, 10000.0),
        item("tokenizer.ggml.model", STRING, "llama"),
        item("tokenizer.ggml.pre", STRING, "default"),
        items("tokenizer.ggml.tokens", STRING, texts),
        items("tokenizer.ggml.scores", F32, scores),
        items("tokenizer.ggml.token_type", I32, types),
        item("tokenizer.ggml.unknown_token_id", U32, 0),
        item("tokenizer.ggml.bos_token_id", U32, 1),
        item("tokenizer.ggml.eos_token_id", U32, 2),
        item("tokenizer.ggml.add_bos_token", BOOL, True),
        item("tokenizer.ggml.add_eos_token", BOOL, False),
        item("tokenizer.ggml.add_space_prefix", BOOL, True),
        item("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def write(path, values, tensors):
    infos, offset = [], 0
    for name, dimensions, numbers in tensors:
        infos.append(text(name) + struct.pack("<I", len(dimensions))
                     + struct.pack(f"<{len(dimensions)}Q", *dimensions)
                     + struct.pack("<IQ", 0, offset))  # 0: numbers are F32
        offset += -(-len(numbers) * 4 // 32) * 32
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)))
        f.write(b"".join(values) + b"".join(infos))
        f.write(b"\0" * (-f.tell() % 32))
        for _, _, numbers in tensors:
            if sys.byteorder == "big":
                numbers = numbers[:]
                numbers.byteswap()
            numbers.tofile(f)
            f.write(b"\0" * (-f.tell() % 32))


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--kind", choices=["counter", "random"], default="counter")
    for name, default in (("embd", 64), ("layers", 2), ("heads", 2), ("ff", 128),
                          ("context", 4096), ("max-number", 999), ("seed", 1)):
        p.add_argument("--" + name, type=int, default=default)
    a = p.parse_args()
    if a.embd % a.heads or a.embd // a.heads % 2:
        p.error("--embd must be an even multiple of --heads")
    rng = random.Random(a.seed)
    texts, scores, types, number = vocabulary(a.max_number)
    tensors = network(a, len(texts), number, rng)
    write(a.out, metadata(a, texts, scores, types), tensors)
    parameters = sum(len(numbers) for _, _, numbers in tensors)
    print(f"{a.out}: {a.kind}, {len(texts)} tokens, {parameters / 1e6:.2f} M parameters")


if __name__ == "__main__":
    main()
