"""Writes tests/golden/tiny: tiny random models, safetensors and GGUF, with reference logits.

  make_tiny_models.py --out DIR [--only NAME ...]
Needs torch, transformers, safetensors, tokenizers, gguf and llama-cpp-python. Per model NAME
(tiny_models.py says what each stresses):
  NAME/config.json, generation_config.json, model*.safetensors [, tokenizer*.json]
  NAME.gguf                    the same weights, if the family's GGUF can say all of the config
  NAME.reference.safetensors   logits of transformers in float32, for the folder and the GGUF
  NAME.TYPES.gguf              quantised matrices, with its own NAME.TYPES.reference.safetensors,
                               made by transformers in float32 on the dequantised weights
A reference holds for i = 0, 1: `tokens.i` I32 [T], `logits.i` F32 [T, V] (teacher forced, one row after
each token) and, for files that llama.cpp reads, `llama_cpp_top1.i` I32 [T] of that file as it is. Its
metadata states the versions, the largest difference to llama.cpp on the same weights in float32
(`llama_cpp_max_difference`) and, for quantised files, how often llama.cpp's top-1 agrees.

Checks that end the script: GGUF read back equals the safetensors weights; llama.cpp and transformers
agree on float32 weights (for Gemma with ggml's GELU table put into transformers); gguf-py's decoder
equals ggml's; planted mistakes in the configuration change the logits, so that a reader's mistake
cannot hide.
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import gguf
import numpy as np
import safetensors.torch
import tokenizers
import torch
import transformers

import gguf_weights
import llama_cpp_oracle
import tiny_models

AGREEMENT = 2e-4   # largest logit difference to llama.cpp, both in float32
GELU_AGREEMENT = 4e-3  # for Gemma: a rounding difference before the float16 table moves its index
PLANTED = 2e-2     # a planted mistake must change some logit by more than this
CHAT_TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                 "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_folder(spec, weights, folder):
    folder.mkdir(parents=True)
    # Half of the folders use the keys that transformers 5 writes, half the older ones.
    config = dict(spec.config, torch_dtype=spec.dtypes[0])
    if spec.name in ("llama", "qwen3", "llama_yarn"):
        config["dtype"] = config.pop("torch_dtype")
        config["rope_parameters"] = {"rope_type": "default", **config.pop("rope_scaling", {}),
                                     "rope_theta": config.pop("rope_theta")}
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {
        "bos_token_id": config["bos_token_id"], "eos_token_id": [config["eos_token_id"], 5], "do_sample": True,
        "temperature": 0.6, "top_k": 20, "top_p": 0.95})
    tensors = {name: torch.from_numpy(value).to(getattr(torch, spec.dtypes[i % len(spec.dtypes)])).contiguous()
               for i, (name, value) in enumerate(weights.items())}
    for name, value in tensors.items():
        assert np.array_equal(value.float().numpy(), weights[name]), f"{name} is not exact in {value.dtype}"
    save_shards(tensors, spec.shards, folder)


def save_shards(tensors, shards, folder):
    if shards == 1:
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names, index = list(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[i * len(names) // shards:(i + 1) * len(names) // shards]}
        safetensors.torch.save_file(part, folder / file, metadata={"format": "pt"})
        index |= dict.fromkeys(part, file)
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))})


def write_tokenizer(folder):
    tokens, merges, _ = tiny_models.bpe_vocabulary()
    model = tokenizers.models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(tokens[:3])
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "chat_template": CHAT_TEMPLATE})


def vocabulary_writer(spec):
    def write(writer):
        if spec.vocabulary == "bpe":
            tokens, merges, types = tiny_models.bpe_vocabulary()
            writer.add_tokenizer_model("gpt2")
            writer.add_tokenizer_pre("qwen2" if spec.arch.startswith("qwen") else "llama-bpe")
            writer.add_token_list(tokens)
            writer.add_token_types(types)
            writer.add_token_merges([" ".join(m) for m in merges])
            writer.add_chat_template(CHAT_TEMPLATE)
            writer.add_add_bos_token(False)
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(2)
            return
        gemma = spec.arch == "gemma3"
        tokens, scores, types = tiny_models.spm_vocabulary(gemma)
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types(types)
        writer.add_bos_token_id(2 if gemma else 1)
        writer.add_eos_token_id(1 if gemma else 2)
        writer.add_unk_token_id(tokens.index("<unk>"))
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(not gemma)
    return write


def write_gguf(spec, weights, path, matrix_types):
    config = spec.config
    tensors, types = {}, {}
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = gguf_weights.llama3_rope_factors(config)
    turn = 0
    for name, value in weights.items():
        stored, array = gguf_weights.to_file(name, value, spec.arch, config["num_attention_heads"],
                                             config["num_key_value_heads"])
        tensors[stored] = array
        if array.ndim == 2:
            types[stored] = matrix_types[turn % len(matrix_types)]
            turn += 1
    gguf_weights.save(path, spec.arch, config, vocabulary_writer(spec), tensors, types, llama_cpp_oracle.quantize)


class HalfTableGelu(torch.nn.Module):
    """The tanh GELU as ggml's CPU code has it: a table indexed by and holding float16."""

    def forward(self, x):
        y = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
        return torch.where(x <= -10, torch.zeros_like(x), torch.where(x >= 10, x, y))


def transformers_logits(config_folder, texts, weights=None, change=None, gelu=None):
    """Float32 logits; weights replace the folder's, change edits the configuration."""
    config = transformers.AutoConfig.from_pretrained(config_folder)
    if change:
        change(config)
    config._attn_implementation = "eager"
    if weights is None:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            config_folder, config=config, dtype=torch.float32, attn_implementation="eager")
    else:
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
        values = {k: torch.from_numpy(v) for k, v in weights.items()}
        missing, unexpected = model.load_state_dict(values, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        model.tie_weights()
    model.eval()
    if gelu:
        for layer in model.model.layers:
            layer.mlp.act_fn = gelu
    with torch.no_grad():
        return [model(torch.from_numpy(ids).long()[None]).logits[0].numpy() for ids in texts]


def largest_difference(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))


def llama_cpp_logits(path, texts):
    oracle = llama_cpp_oracle.Oracle(path, 64, threads=1)
    return [oracle.logits(ids) for ids in texts]


def compare_with_llama_cpp(spec, path, folder, texts, logits):
    """(top-1 of the file as it is, largest difference on float32 weights); ends on disagreement."""
    model = gguf_weights.Model(path)
    for tensor in model.raw.values():
        if tensor.tensor_type not in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16,
                                      gguf.GGMLQuantizationType.BF16):
            theirs = llama_cpp_oracle.dequantize(tensor.data, tensor.tensor_type, model.tensors[tensor.name].shape)
            assert np.array_equal(theirs, model.tensors[tensor.name]), (path.name, tensor.name)
    if spec.arch == "gemma3":  # compare like with like; the stored reference keeps the exact GELU
        logits = transformers_logits(folder, texts, model.state_dict(), gelu=HalfTableGelu())
    with tempfile.TemporaryDirectory() as scratch:
        exact = pathlib.Path(scratch) / "float32.gguf"
        gguf_weights.save(exact, spec.arch, spec.config, vocabulary_writer(spec), model.tensors)
        difference = largest_difference(llama_cpp_logits(exact, texts), logits)
    limit = GELU_AGREEMENT if spec.arch == "gemma3" else AGREEMENT
    assert difference < limit, f"{path.name}: llama.cpp differs by {difference}"
    return [rows.argmax(-1).astype(np.int32) for rows in llama_cpp_logits(path, texts)], difference


def planted_mistakes(spec, folder, texts, logits, weights):
    """Edits of the configuration that must show in the logits."""
    def rope(config):
        nested = "full_attention" in config.rope_parameters
        return list(config.rope_parameters.values()) if nested else [config.rope_parameters]

    def theta(config):
        for parameters in rope(config):
            parameters["rope_theta"] *= 1.3

    def factor(config):
        for parameters in rope(config):
            if "factor" in parameters:
                parameters["factor"] *= 1.1

    def window(config):
        config.sliding_window += 1

    def scalar(config):
        config.query_pre_attn_scalar += 4

    edits = {"theta": theta}
    if spec.config.get("rope_scaling"):
        edits["factor"] = factor
    if spec.config.get("sliding_window"):
        edits["window"] = window
    if "query_pre_attn_scalar" in spec.config:
        edits["scalar"] = scalar
    out = {}
    for label, edit in edits.items():
        out[label] = largest_difference(transformers_logits(folder, texts, weights, edit), logits)
        assert out[label] > PLANTED, f"{spec.name}: a wrong {label} changes the logits by {out[label]} only"
    return out


def save_reference(path, texts, logits, top1, metadata):
    tensors = {}
    for i, (ids, rows) in enumerate(zip(texts, logits, strict=True)):
        tensors[f"tokens.{i}"] = torch.from_numpy(ids)
        tensors[f"logits.{i}"] = torch.from_numpy(np.ascontiguousarray(rows))
        if top1:
            tensors[f"llama_cpp_top1.{i}"] = torch.from_numpy(top1[i])
    safetensors.torch.save_file(tensors, path, metadata=metadata)


def make(spec, out, seed):
    weights, texts = tiny_models.weights(spec, seed), tiny_models.sequences(spec, seed)
    source = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    folder = out / spec.name
    temporary = None
    if spec.dtypes:
        write_folder(spec, weights, folder)
        if spec.tokenizer_json:
            write_tokenizer(folder)
    else:
        temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(temporary.name)
        write_json(folder / "config.json", spec.config)

    logits = transformers_logits(folder, texts, None if spec.dtypes else weights)
    spread = float(np.mean([rows.std() for rows in logits]))
    planted = planted_mistakes(spec, folder, texts, logits, weights)
    line = f"{spec.name}: logit spread {spread:.2f}, planted "
    line += ", ".join(f"{k} {v:.2f}" for k, v in planted.items())
    if spec.dtypes:
        top1, facts = None, dict(source)
        if spec.arch:
            path = out / f"{spec.name}.gguf"
            write_gguf(spec, weights, path, spec.gguf_types)
            back = gguf_weights.Model(path).state_dict()
            assert back.keys() == weights.keys() and all(np.array_equal(back[k], weights[k]) for k in weights)
            top1, difference = compare_with_llama_cpp(spec, path, folder, texts, logits)
            facts["llama_cpp_max_difference"] = f"{difference:.2e}"
            line += f"; llama.cpp differs by {difference:.1e}"
        save_reference(out / f"{spec.name}.reference.safetensors", texts, logits, top1, facts)

    for suffix, types in spec.quantized.items():
        path = out / f"{spec.name}.{suffix}.gguf"
        write_gguf(spec, weights, path, types)
        dequantized = gguf_weights.Model(path).state_dict()
        logits = transformers_logits(folder, texts, dequantized)
        top1, difference = compare_with_llama_cpp(spec, path, folder, texts, logits)
        agree = np.mean(np.concatenate([a == b.argmax(-1) for a, b in zip(top1, logits, strict=True)]))
        line += f"; {suffix}: float32 {difference:.1e}, top-1 as quantised {agree:.3f}"
        save_reference(out / f"{spec.name}.{suffix}.reference.safetensors", texts, logits, top1, source | {
            "llama_cpp_max_difference": f"{difference:.2e}", "llama_cpp_top1_agreement": f"{agree:.3f}"})
    if temporary:
        temporary.cleanup()
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for spec in tiny_models.SPECS:
        if args.only and spec.name not in args.only:
            continue
        args.out.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(args.out / spec.name, ignore_errors=True)
        for old in args.out.glob(f"{spec.name}.*"):
            old.unlink()
        make(spec, args.out, args.seed)
    size = sum(p.stat().st_size for p in args.out.rglob("*") if p.is_file())
    print(f"{args.out}: {size} bytes")


if __name__ == "__main__":
    main()
