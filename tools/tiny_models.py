"""The tiny models: configurations, random weights, vocabularies. Data for make_tiny_models.py.

Each model stresses what its family adds: grouped heads, head sizes that are not hidden / heads,
biases, tied heads, windows shorter than the texts, every RoPE scaling. Weights are larger than a
trained model's would be, so that attention is sharp and a wrong angle, window or scale shows in the
logits. All values are drawn on a grid that is exact in the model's storage type.
"""

import dataclasses

import numpy as np

VOCAB = 320
BYTES_AT = 3  # llama-type vocabularies: <unk> <s> </s>, then 256 bytes, then pieces


@dataclasses.dataclass
class Spec:
    name: str
    arch: str | None          # GGUF architecture, or None: only safetensors
    config: dict
    dtypes: tuple             # storage types, taken in turn by the tensors
    shards: int = 1
    gguf_types: tuple = ("F32",)   # storage types of matrices, taken in turn
    vocabulary: str = "spm"
    tokenizer_json: bool = False
    scale: float = 1.0
    quantized: dict = dataclasses.field(default_factory=dict)  # suffix -> types of matrices, in turn


def base(model_type, architecture, **more):
    config = {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return config | more


def llama(**more):
    return base("llama", "LlamaForCausalLM", **({"attention_bias": False, "mlp_bias": False} | more))


def mistral(**more):
    return base("mistral", "MistralForCausalLM", **more)


def qwen(version, **more):
    return base(f"qwen{version}", f"Qwen{version}ForCausalLM", use_sliding_window=False, sliding_window=None,
                max_window_layers=2, rms_norm_eps=1e-6, **more)


def gemma3(**more):
    config = base("gemma3_text", "Gemma3ForCausalLM", attention_bias=False, bos_token_id=2, eos_token_id=1,
                  pad_token_id=0, rms_norm_eps=1e-6, rope_theta=1000000.0, rope_local_base_freq=10000.0,
                  sliding_window=16, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=24, head_dim=24,
                  num_key_value_heads=1, tie_word_embeddings=True, attn_logit_softcapping=None,
                  final_logit_softcapping=None, **more)
    del config["hidden_act"]
    return config


LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}

SPECS = [
    Spec("llama", "llama", llama(head_dim=24), ("float32",), tokenizer_json=True,
         quantized={"q8_0_q4_0": ("Q8_0", "Q4_0")}),
    Spec("llama_llama3", "llama", llama(num_key_value_heads=1, rope_scaling=LLAMA3, rope_theta=500000.0,
                                        tie_word_embeddings=True, num_hidden_layers=3),
         ("bfloat16",), shards=3, gguf_types=("BF16",), vocabulary="bpe"),
    Spec("llama_linear", "llama", llama(rope_scaling={"type": "linear", "factor": 2.5, "rope_type": "linear"}),
         ("float16",), gguf_types=("F16",)),
    Spec("llama_yarn", "llama", llama(head_dim=32, rope_scaling=YARN),
         ("bfloat16", "bfloat16", "float32"), gguf_types=("BF16",),
         vocabulary="bpe"),
    Spec("llama_bias", None, llama(vocab_size=64, attention_bias=True, mlp_bias=True), ("float16",)),
    Spec("mistral", "llama", mistral(sliding_window=None, head_dim=16), ("bfloat16",), gguf_types=("BF16", "F16")),
    Spec("mistral_window", None, mistral(sliding_window=16, num_hidden_layers=3, vocab_size=128), ("bfloat16",)),
    Spec("qwen2", "qwen2", qwen(2, num_hidden_layers=3), ("bfloat16",), gguf_types=("BF16",), vocabulary="bpe",
         quantized={"f16_q8_0": ("F16", "Q8_0", "BF16")}),
    Spec("qwen2_tied", "qwen2", qwen(2, tie_word_embeddings=True, rope_theta=1000000.0), ("float16", "float32"),
         gguf_types=("F16",), vocabulary="bpe"),
    Spec("qwen2_yarn", None, qwen(2, vocab_size=96, rope_scaling=YARN | {"attention_factor": 1.25, "beta_fast": 8.0,
                                                                    "beta_slow": 2.0}), ("float16",)),
    Spec("qwen3", "qwen3", qwen(3, head_dim=32, tie_word_embeddings=True, rope_theta=1000000.0, attention_bias=False),
         ("bfloat16",), gguf_types=("BF16",), vocabulary="bpe", tokenizer_json=True,
         quantized={"q4_1_q5_1_iq4_nl_mxfp4": ("Q4_1", "Q5_1", "IQ4_NL", "MXFP4")}),
    Spec("qwen3_untied", None, qwen(3, head_dim=24, num_key_value_heads=4, vocab_size=96, attention_bias=False),
         ("float16", "bfloat16", "float32"), shards=2),
    Spec("gemma3", "gemma3", gemma3(num_hidden_layers=7, rope_scaling={"rope_type": "linear", "factor": 8.0},
                                    sliding_window_pattern=6), ("bfloat16",), gguf_types=("BF16",),
         quantized={"q5_0_q8_0_q4_0": ("Q5_0", "Q8_0", "Q4_0")}),
    Spec("gemma3_types", None, gemma3(num_hidden_layers=4, vocab_size=128, num_attention_heads=2) | {
        "query_pre_attn_scalar": 48, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "sliding_window": 9, "head_dim": 16}, ("bfloat16", "bfloat16", "float32")),
    Spec("llama_k", "llama", llama(hidden_size=256, intermediate_size=256, num_attention_heads=8,
                                   tie_word_embeddings=True), (),
         quantized={"q2_k_to_q6_k": ("Q4_K", "Q6_K", "Q5_K", "Q3_K", "Q2_K")}, scale=0.7),
]


def shapes(config):
    """Ordered transformers name -> shape."""
    d, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    k = config.get("head_dim") or d // heads
    kind = config["model_type"]
    attention_bias = kind == "qwen2" or config.get("attention_bias", False)
    out = {"model.embed_tokens.weight": (v, d)}
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}"
        out[f"{p}.input_layernorm.weight"] = (d,)
        for name, rows in (("q", heads * k), ("k", groups * k), ("v", groups * k)):
            out[f"{p}.self_attn.{name}_proj.weight"] = (rows, d)
            if attention_bias:
                out[f"{p}.self_attn.{name}_proj.bias"] = (rows,)
        out[f"{p}.self_attn.o_proj.weight"] = (d, heads * k)
        if attention_bias and kind == "llama":
            out[f"{p}.self_attn.o_proj.bias"] = (d,)
        if kind in ("qwen3", "gemma3_text"):
            out[f"{p}.self_attn.q_norm.weight"] = (k,)
            out[f"{p}.self_attn.k_norm.weight"] = (k,)
        out[f"{p}.post_attention_layernorm.weight"] = (d,)
        if kind == "gemma3_text":
            out[f"{p}.pre_feedforward_layernorm.weight"] = (d,)
            out[f"{p}.post_feedforward_layernorm.weight"] = (d,)
        for name, shape in (("gate", (f, d)), ("up", (f, d)), ("down", (d, f))):
            out[f"{p}.mlp.{name}_proj.weight"] = shape
            if config.get("mlp_bias"):
                out[f"{p}.mlp.{name}_proj.bias"] = shape[:1]
    out["model.norm.weight"] = (d,)
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = (v, d)
    return out


def weights(spec, seed):
    """Ordered name -> float32 array, exact in bfloat16 and float16 (7 significant bits)."""
    rng = np.random.default_rng([seed, *spec.name.encode()])
    gemma = spec.config["model_type"] == "gemma3_text"
    out = {}
    for name, shape in shapes(spec.config).items():
        if name.endswith("norm.weight"):
            centre = 0.0 if gemma else 1.0
            value = centre + np.round(rng.uniform(-0.4, 0.6, shape) * 64) / 64
            if "q_norm" in name or "k_norm" in name:
                value = value + 0.5
        elif name.endswith(".bias"):
            value = rng.normal(0, 0.4, shape)
        elif "embed_tokens" in name:
            value = rng.normal(0, 0.15 if spec.config["tie_word_embeddings"] else 1.0, shape)
        else:
            gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.3
            value = rng.normal(0, spec.scale * gain / np.sqrt(shape[1]), shape)
        out[name] = seven_bits(value)
    return out


def seven_bits(value):
    """Rounds to 7 significant bits: exact in bfloat16 and, above 2^-18, in float16."""
    mantissa, exponent = np.frexp(value)
    exponent = np.maximum(exponent, -10)
    return (np.round(np.ldexp(value, 7 - exponent)) * np.ldexp(1.0, exponent - 7)).astype(np.float32)


def sequences(spec, seed):
    """Two token id lists, the first much longer than any window used here."""
    rng = np.random.default_rng([seed, 7, *spec.name.encode()])
    vocab = spec.config["vocab_size"]
    return [rng.integers(3, vocab, n).astype(np.int32) for n in (40, 13)]


PIECES = [" ", "e", "t", "a", "o", "n", "th", "he", " the", " a", "in", "er", " s", "st", "on", "one", " st", " stone",
          " w", "al", "all", " wall", "en", "at", " o", "re", "or", "an", "and", " and", "ed", "is", "it", "ing", "\n",
          ".", ",", "0", "1", "2", "é", "石", "😀", "ou", "es", "le", "ve", "se", "de", "me", "ne", "te", "ow", "ay",
          "ar", "as", "us", "ut", "un", "up"]


def spm_vocabulary(gemma=False):
    """tokens, scores, types: specials, 256 byte tokens, then pieces, most frequent first."""
    special = ["<pad>", "<eos>", "<bos>"] if gemma else ["<unk>", "<s>", "</s>"]
    tokens = special + [f"<0x{b:02X}>" for b in range(256)]
    types = [3 if gemma else 2, 3, 3] + [6] * 256
    pieces = (["<unk>"] if gemma else []) + [p.replace(" ", "\u2581") for p in PIECES]
    pieces = pieces[:VOCAB - len(tokens)]
    types += [2 if p == "<unk>" else 1 for p in pieces]
    scores = [0.0] * len(tokens) + [-1000.0 if p == "<unk>" else -float(i) for i, p in enumerate(pieces)]
    while len(tokens) + len(pieces) < VOCAB:
        pieces.append(f"<unused{len(pieces)}>")
        types.append(3)
        scores.append(-1000.0)
    return tokens + pieces, scores, types


MERGES = ["Ġ t", "h e", "Ġt he", "i n", "e r", "Ġ a", "o n", "Ġ s", "Ġs t", "on e", "Ġst one", "a l", "al l", "Ġ w",
          "Ġw all", "a n", "n d", "Ġa nd", "r e", "Ġ o", "e n", "a t", "o r", "e d", "i s", "i t", "in g", "Ġ Ġ",
          "ĠĠ ĠĠ", "Ċ Ċ", "o u", "e s", "l e", "v e", "s e", "Ã ©", "ð Ł", "d e", "m e", "n e", "t e", "o w", "a y",
          "a r", "a s", "u s", "u t", "u n", "u p", "t h", "c h", "s h", "o f", "Ġ of", "t o", "Ġ to", "i f", "l l",
          "s s", "e e", "o o"]


def byte_alphabet():
    """The 256 letters that byte-level vocabularies write bytes as."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, extra = [], 0
    for byte in range(256):
        if byte in kept:
            out.append(chr(byte))
        else:
            out.append(chr(256 + extra))
            extra += 1
    return out


def bpe_vocabulary():
    """tokens, merges, types: three specials, the alphabet, then one token per merge."""
    letters = byte_alphabet()
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + letters
    merges = []
    for merge in MERGES:
        left, right = merge.split(" ")
        merges.append((left, right))
        tokens.append(left + right)
    assert len(tokens) == VOCAB and len(set(tokens)) == VOCAB, (len(tokens), len(set(tokens)))
    return tokens, merges, [3, 3, 3] + [1] * (VOCAB - 3)
