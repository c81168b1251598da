#!/usr/bin/env python3
"""Writes the seed inputs of the fuzz targets, fuzz/corpus/TARGET/*, from nothing but this repository.

Usage: make_seeds.py

Seeds are small and differ in what they reach: each kind of value, storage, tokenizer and template. The
files it writes are stored, so it runs only when seeds change; inputs that a fuzzer found to reach more are
added to the same folders by hand, under other names.
"""

import glob
import json
import os
import struct

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEPARATOR = b"\x1e"  # fuzz/targets.h

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
GGML_F32, GGML_F16, GGML_Q8_0 = 0, 1, 8


def put(target, name, *parts):
    folder = os.path.join(ROOT, "fuzz", "corpus", target)
    os.makedirs(folder, exist_ok=True)
    data = SEPARATOR.join(part if isinstance(part, bytes) else part.encode() for part in parts)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# GGUF


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], value)


def entry(key, kind, value):
    if isinstance(value, list):
        head = struct.pack("<IIQ", ARRAY, kind, len(value))
        return text(key) + head + b"".join(scalar(kind, item) for item in value)
    return text(key) + struct.pack("<I", kind) + scalar(kind, value)


def gguf(entries, tensors, version=3, alignment=32):
    """entries: (key, kind, value); tensors: (name, extents innermost first, ggml type, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    head += b"".join(entry(*item) for item in entries)
    data = b""
    for name, extents, kind, payload in tensors:
        data += bytes(-len(data) % alignment)
        head += text(name) + struct.pack("<I", len(extents)) + struct.pack(f"<{len(extents)}Q", *extents)
        head += struct.pack("<IQ", kind, len(data))
        data += payload
    return head + bytes(-len(head) % alignment) + data


def vocabulary(model):
    if model == "llama":
        tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", "\u2581", "a", "b", "\u2581ab"]
        types = [2, 3, 3, 6, 6, 6, 1, 1, 1, 1]
        more = [("tokenizer.ggml.scores", F32, [0.0] * 6 + [-1.0, -2.0, -3.0, -4.0]),
                ("tokenizer.ggml.add_space_prefix", BOOL, True)]
    else:
        tokens = ["a", "b", "\u0120", "ab", "<s>", "</s>", "1", "\u010a"]
        types = [1, 1, 1, 1, 3, 3, 1, 1]
        more = [("tokenizer.ggml.merges", STRING, ["a b"]), ("tokenizer.ggml.pre", STRING, "qwen2")]
    ends = {"llama": (1, 2), "gpt2": (4, 5)}[model]
    return [("tokenizer.ggml.model", STRING, model), ("tokenizer.ggml.tokens", STRING, tokens),
            ("tokenizer.ggml.token_type", I32, types), ("tokenizer.ggml.bos_token_id", U32, ends[0]),
            ("tokenizer.ggml.eos_token_id", U32, ends[1]), ("tokenizer.ggml.add_bos_token", BOOL, True),
            ("tokenizer.chat_template", STRING, "{{ bos_token }}{{ messages[0]['content'] }}")] + more


def architecture(name):
    return [("general.architecture", STRING, name), (f"{name}.block_count", U32, 1),
            (f"{name}.embedding_length", U64, 32), (f"{name}.attention.head_count", I32, 2),
            (f"{name}.attention.key_length", U32, 16), (f"{name}.context_length", U32, 128),
            (f"{name}.feed_forward_length", I32, [64]), (f"{name}.rope.freq_base", F32, 1e6),
            (f"{name}.attention.layer_norm_rms_epsilon", F32, 1e-5)]


def write_gguf():
    ones = struct.pack("<32f", *[1.0] * 32)
    tensors = [("token_embd.weight", [32, 1], GGML_F32, ones),
               ("blk.0.attn_q.weight", [32, 2], GGML_Q8_0, bytes(68)),
               ("output_norm.weight", [32], GGML_F16, bytes(64))]
    scaling = [("gemma3.rope.scaling.type", STRING, "yarn"), ("gemma3.rope.scaling.factor", F32, 8.0),
               ("gemma3.attention.sliding_window_pattern", BOOL, [True])]
    put("gguf", "llama", gguf(architecture("llama") + vocabulary("llama"), tensors))
    put("gguf", "qwen3", gguf(architecture("qwen3") + vocabulary("gpt2"), tensors, version=2))
    aligned = [("general.alignment", U32, 64)]
    put("gguf", "gemma3_aligned", gguf(architecture("gemma3") + scaling + aligned, tensors, alignment=64))
    put("gguf", "tokens_only", gguf(vocabulary("gpt2"), []))
    put("gguf", "empty", gguf([], []))


def safetensors(header, data):
    encoded = header if isinstance(header, bytes) else compact(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    return struct.pack("<Q", len(encoded)) + encoded + data


def write_safetensors():
    two = {"__metadata__": {"format": "pt"},
           "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
           "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}
    put("safetensors", "two", safetensors(two, bytes(26)))
    kinds = {f"t{i}": {"dtype": kind, "shape": [0, 5], "data_offsets": [0, 0]}
             for i, kind in enumerate(["F16", "I64", "U8", "F8_E4M3", "BOOL", "X1"])}
    put("safetensors", "kinds", safetensors(kinds, b""))
    put("safetensors", "gap", safetensors({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, bytes(2)))
    put("safetensors", "escapes", safetensors(b'{"\\u0061\\ud83d\\ude00":{"shape":[1],"dtype":"U8",'
                                              b'"data_offsets":[0,1]}}', b"x"))
    put("safetensors", "empty", safetensors({}, b""))


# Texts


def write_configs():
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden/tiny/*/config.json"))):
        with open(path, encoding="utf-8") as file:
            put("config", os.path.basename(os.path.dirname(path)), compact(json.load(file)))


MESSAGES = compact([
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": 'Hi "there"'},
    {"role": "assistant", "content": "Yes", "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, None, True]}}}]},
    {"role": "user", "content": "Go"}])

TEMPLATES = {
    "loop_nested": "{% for i in range(9) %}{% for j in range(i) %}{{ i ~ j }}{% endfor %}{% endfor %}",
    "macro_recursive": "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{{ n }}{% endmacro %}{{ f(5) }}",
    "slices": "{{ messages[1:][::-1] | length }}{{ 'abcdef'[-4:5:2] }}{{ messages[-1]['content'][0:1] }}",
    "numbers": "{{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 10 }} {{ 1.5e3 }} {{ 10 / 4 }} {{ -7 // 2 }} {{ n * 3 }}",
    "formats": "{{ '%s-%d' % ('a', 3) }}{{ '{} {}'.format(1, 2) }}{{ 'x' | indent(4) }}{{ 'a,b'.split(',') | join('-') }}",
    "namespace": "{% set ns = namespace(k=0) %}{% for m in messages %}{% set ns.k = ns.k + 1 %}{% endfor %}{{ ns.k }}",
    "raises": "{{ raise_exception('no ' ~ messages[0].role) }}",
    "date": "{{ strftime_now('%d %b %Y %H:%M') }}",
    "json": "{{ messages | tojson(indent=2) }}{{ {'a': [1, none, true]} | tojson }}",
    "escapes": "{{ '\\u00e9\\n\\t\\'' }}{{ '{%' }}{# a comment #}{%- raw %}{{ x }}{% endraw -%} ",
    "broken": "{% if %}{{ }}{% for x %}",
    "sorted": "{% for k, v in {'b':1,'a':2} | dictsort %}{{ k }}={{ v }};{% endfor %}"
              "{{ xs | sort | first | upper | replace('A','z') | trim }}",
}


def write_templates():
    for path in sorted(glob.glob(os.path.join(ROOT, "tools/chat_templates/*.jinja"))):
        with open(path, encoding="utf-8") as file:
            put("chat_template", os.path.basename(path), file.read(), MESSAGES,
                '{"enable_thinking":false,"n":3,"xs":["a","b"]}')
    for name, source in TEMPLATES.items():
        put("chat_template", name, source, MESSAGES, '{"n":3,"xs":["b","a"]}')


def added(number, content, special):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": not special, "special": special}


def byte_level(**changes):
    pieces = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": kind}} for name, kind in (("A", 0), ("B", 1)))
    out = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(4, "<s>", True), added(5, "</s>", True), added(6, "<tool>", False)],
        "normalizer": None, "pre_tokenizer": pieces,
        "post_processor": {"type": "TemplateProcessing", "single": [begin, first], "pair": [first, second],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}},
        "decoder": dict(pieces, add_prefix_space=True),
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3}, "merges": ["a b"]}}
    out.update(changes)
    return out


def word_spaces(**changes):
    space = "\u2581"
    out = byte_level(
        added_tokens=[added(0, "<unk>", True), added(1, "<s>", True), added(2, "</s>", True)],
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": space},
            {"type": "Replace", "pattern": {"String": " "}, "content": space}]},
        pre_tokenizer=None, post_processor=None,
        decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": space}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
    out["model"].update(
        byte_fallback=True, unk_token="<unk>", fuse_unk=True, merges=[["a", "b"], [space, "ab"]],
        vocab={"<unk>": 0, "<s>": 1, "</s>": 2, "<0x0A>": 3, "<0xC3>": 4, "<0xA9>": 5, space: 6, "a": 7,
               "b": 8, "ab": 9, space + "ab": 10})
    out.update(changes)
    return out


def write_tokenizers():
    config = ('{"bos_token":"<s>","eos_token":{"content":"</s>"},"add_bos_token":true,'
              '"chat_template":"{{ messages[0].content }}"}')
    put("tokenizer_json", "byte_level", compact(byte_level()), config, "ab <s>a <tool>b")
    put("tokenizer_json", "byte_fallback", compact(word_spaces()),
        '{"bos_token":"<s>","add_bos_token":true,"legacy":true}', " ab\u00e9\n")
    pieces = byte_level()["pre_tokenizer"]
    pattern = (r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s+(?!\S)|\s+")
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    put("tokenizer_json", "split_regex", compact(byte_level(
        normalizer={"type": "NFC"},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [split, dict(pieces, use_regex=False)]})),
        "{}", "it's 1234  ab")
    digits = {"type": "Digits", "individual_digits": True}
    put("tokenizer_json", "digits", compact(byte_level(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [digits, pieces]})), config, "a 12")
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    put("tokenizer_json", "metaspace", compact(word_spaces(normalizer=None, pre_tokenizer=meta, decoder=meta)),
        "", "ab  a")
    put("tokenizer_json", "word_piece", compact(byte_level(model={
        "type": "WordPiece", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]",
        "continuing_subword_prefix": "##", "max_input_chars_per_word": 100})), "", "a")
    put("tokenizer_json", "tiny_llama", read("tests/golden/tiny/llama/tokenizer.json"),
        read("tests/golden/tiny/llama/tokenizer_config.json"), "Hello there")


BODIES = {
    "completion_text": 't{"model":"m","prompt":"Hello","max_tokens":5,"temperature":0.5,"top_p":0.9,"seed":7,'
                       '"stop":["\\n","x"],"stream":true,"stream_options":{"include_usage":true}}',
    "completion_ids": 't{"prompt":[1,2,3],"n":2,"logprobs":3,"echo":true,"logit_bias":{"5":-100,"7":1.5},'
                      '"stop":"a"}',
    "completion_many": 't{"prompt":[[1],[2,3]],"best_of":1,"presence_penalty":0,"frequency_penalty":0.0,'
                       '"suffix":null,"user":"u"}',
    "completion_texts": 't{"prompt":["a","\\u00e9\\ud83d\\ude00"],"ignore_eos":true,"min_tokens":2,'
                        '"stop_token_ids":[2,3],"top_k":5,"min_p":0.1,"repetition_penalty":1.1}',
    "chat": 'c{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"Hi"}],'
            '"max_completion_tokens":9,"logprobs":true,"top_logprobs":2}',
    "chat_parts": 'c{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":'
                  '"b"}]}],"chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":true,"n":1}',
    "chat_refused": 'c{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":'
                    '{"name":"f"}}],"response_format":{"type":"json_object"}}',
    "broken": 't{"prompt":"a","prompt":"b"',
    "deep": "c" + '{"messages":' + "[" * 70 + "]" * 70 + "}",
    "numbers": 't{"prompt":[1e2,-1,2147483648,1.0,9223372036854775808],"n":1e400,"seed":-0,'
               '"temperature":1E-320}',
    "invalid_utf8": b'c{"messages":[{"role":"user","content":"\xff\xc3"}]}',
}


def main():
    write_gguf()
    write_safetensors()
    write_configs()
    write_templates()
    write_tokenizers()
    for name, body in BODIES.items():
        put("http_body", name, body)


if __name__ == "__main__":
    main()
