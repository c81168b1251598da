"""GGUF files of the llama, qwen2, qwen3 and gemma3 families to and from transformers' names.

Used by make_tiny_models.py (writes GGUF) and make_reference.py (reads GGUF). Knows the three
conventions that differ between the two worlds: rows of q and k are permuted in arch `llama`, the
norms of gemma3 are stored as 1 + w, a llama3 RoPE scaling becomes a tensor `rope_freqs.weight`.
Nothing here is used at run time.
"""

import json
import re

import gguf
import numpy as np

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
PLAIN_NORMS = {"post_attention_layernorm": "ffn_norm"}
GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(hf_name, arch):
    """`model.layers.3.mlp.up_proj.weight` -> `blk.3.ffn_up.weight`."""
    base, suffix = hf_name.rsplit(".", 1)
    if base in TOP_NAMES:
        return f"{TOP_NAMES[base]}.{suffix}"
    layer, part = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", base).groups()
    norms = GEMMA_NORMS if arch == "gemma3" else PLAIN_NORMS
    return f"blk.{layer}.{(LAYER_NAMES | norms)[part]}.{suffix}"


def hf_name(name, arch):
    base, suffix = name.rsplit(".", 1)
    top = {v: k for k, v in TOP_NAMES.items()}
    if base in top:
        return f"{top[base]}.{suffix}"
    norms = GEMMA_NORMS if arch == "gemma3" else PLAIN_NORMS
    parts = {v: k for k, v in (LAYER_NAMES | norms).items()}
    layer, part = re.fullmatch(r"blk\.(\d+)\.(.+)", base).groups()
    return f"model.layers.{layer}.{parts[part]}.{suffix}"


def permute(rows, heads):
    """Rows of half-split RoPE to rows of adjacent pairs: file row h*D + 2i + p = row h*D + p*D/2 + i."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def unpermute(rows, heads):
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _heads(name, heads, kv_heads):
    if ".attn_q." in name:
        return heads
    return kv_heads if ".attn_k." in name else 0


def to_file(name, value, arch, heads, kv_heads):
    """A transformers tensor as the GGUF of this family stores it (float32)."""
    stored = gguf_name(name, arch)
    if arch == "llama" and _heads(stored, heads, kv_heads):
        value = permute(value, _heads(stored, heads, kv_heads))
    if arch == "gemma3" and stored.endswith("norm.weight"):
        value = value + np.float32(1)
    return stored, np.ascontiguousarray(value)


def from_file(stored, value, arch, heads, kv_heads):
    if arch == "llama" and _heads(stored, heads, kv_heads):
        value = unpermute(value, _heads(stored, heads, kv_heads))
    if arch == "gemma3" and stored.endswith("norm.weight"):
        value = value - np.float32(1)
    return hf_name(stored, arch), np.ascontiguousarray(value)


def dequantize(tensor):
    """float32 array [N, K] or [N] of a gguf-py reader tensor."""
    shape = tuple(int(n) for n in reversed(tensor.shape))
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)


class Model:
    """Metadata and float32 tensors (as stored) of one GGUF file."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {key: field for key, field in reader.fields.items()}
        self.arch = self.get("general.architecture")
        self.types = {t.name: t.tensor_type.name for t in reader.tensors}
        self.raw = {t.name: t for t in reader.tensors}
        self.tensors = {t.name: dequantize(t) for t in reader.tensors}
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)

    def get(self, key, default=None):
        return self.fields[key].contents() if key in self.fields else default

    def key(self, key, default=None):
        return self.get(f"{self.arch}.{key}", default)

    def state_dict(self):
        """name -> float32 array, in transformers' names and conventions."""
        weights = {}
        for name, value in self.tensors.items():
            if name == "rope_freqs.weight":
                continue  # the reader of the config applies it
            key, array = from_file(name, value, self.arch, self.heads, self.kv_heads)
            weights[key] = array
        return weights

    def base_config(self):
        """The part of config.json that the metadata gives directly."""
        hidden = self.key("embedding_length")
        return {
            "vocab_size": self.tensors["token_embd.weight"].shape[0],
            "hidden_size": hidden,
            "intermediate_size": self.key("feed_forward_length"),
            "num_hidden_layers": self.key("block_count"),
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.key("attention.key_length", hidden // self.heads),
            "rms_norm_eps": float(np.float32(self.key("attention.layer_norm_rms_epsilon"))),
            "max_position_embeddings": self.key("context_length"),
            "rope_theta": self.key("rope.freq_base", 10000.0),
            "tie_word_embeddings": "output.weight" not in self.tensors,
        }


def write_metadata(writer, config, arch):
    """The keys of one model, from a config.json as transformers 4 wrote it."""
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_type("model")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(head_dim)
    if arch == "gemma3":
        writer.add_sliding_window(config["sliding_window"])
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", "default")
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(getattr(gguf.RopeScalingType, kind.upper()))
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def llama3_rope_factors(config):
    """The divisors that arch `llama` stores as rope_freqs.weight."""
    scaling = config["rope_scaling"]
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    old, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    out = []
    for i in range(0, head_dim, 2):
        wave = 2 * np.pi * config["rope_theta"] ** (i / head_dim)
        if wave < old / high:
            out.append(1.0)
        elif wave > old / low:
            out.append(factor)
        else:
            smooth = (old / wave - low) / (high - low)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(out, dtype=np.float32)


def save(path, arch, config, vocabulary, tensors, types=None, quantize=None):
    """Writes a GGUF. tensors: stored name -> float32; types: stored name -> ggml type name."""
    writer = gguf.GGUFWriter(path, arch)
    write_metadata(writer, config, arch)
    vocabulary(writer)
    for name, value in tensors.items():
        kind = (types or {}).get(name, "F32")
        qtype = gguf.GGMLQuantizationType[kind]
        if kind == "F32":
            writer.add_tensor(name, value.astype(np.float32))
        else:
            writer.add_tensor(name, quantize(value, qtype), raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load_config(folder):
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))
