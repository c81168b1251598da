"""Writes tests/golden/parity/NAME.safetensors: what a real model's logits should be.

  make_reference.py --name smollm2 --gguf FILE --out DIR
  make_reference.py --name gemma3 --gguf FILE --out DIR
The weights of the GGUF are dequantised exactly and run through transformers in float32, teacher
forced, over the texts in tools/reference_texts. Needs torch, transformers, gguf and
llama-cpp-python; the latter gives the token ids and a second opinion on the logits.

Tensors, with N positions in all texts together, V the vocabulary, D the hidden size:
  token_ids      I32 [N]          the texts one after the other, cut to a common length
  text_starts    I32 [texts + 1]  text i is token_ids[text_starts[i] : text_starts[i + 1]]
  top_logprobs   F32 [N, 256]     the 256 likeliest next tokens, largest first, after each position
  top_ids        U8  [N, 256, B]  their ids, little-endian in B bytes (2 if V <= 65536, else 3)
  rest_logprob   F32 [N]          log of the probability of all other ids together
  margin         F32 [N]          logit of the top id minus that of the second
  bf16_noise     F32 [N]          absolute change of that margin in transformers' own bfloat16 run
  hidden_rows    I32 [n]          positions whose full vocabulary is kept, as
  hidden         F32 [n, D]       the state after the last norm: logits = head weight . hidden
Logprobs are computed in float64 from float32 logits over all V ids and stored as float32. The
metadata holds the text names (JSON list), the file's SHA-256, versions and the figures below.

Checks that end the script: gguf-py's decoder equals ggml's on every tensor; head weight . hidden in
float64 gives the float32 logits within 1e-5 of the row's largest; llama.cpp on the same weights in
float32 agrees; llama.cpp on the file itself has the same loss on English prose within 0.05.
"""

import argparse
import copy
import hashlib
import json
import pathlib
import tempfile

import gguf
import numpy as np
import safetensors.numpy
import torch
import transformers

import gguf_weights
import llama_cpp_oracle

TOP = 256
TEXTS = pathlib.Path(__file__).parent / "reference_texts"
# Float32 agreement with llama.cpp, mean KL in nat. Gemma's is limited by ggml's float16 GELU table.
AGREEMENT = {"llama": 1e-7, "gemma3": 1e-5}


def chat_text(messages, arch):
    """A conversation with the turn markers of the family; the last assistant turn stays open."""
    out = ""
    for i, message in enumerate(messages):
        last = i == len(messages) - 1
        if arch == "gemma3":
            role = {"assistant": "model"}.get(message["role"], "user")
            start, end = f"<start_of_turn>{role}\n", "<end_of_turn>\n"
        else:
            start, end = f"<|im_start|>{message['role']}\n", "<|im_end|>\n"
        out += start + message["content"] + ("" if last and message["role"] == "assistant" else end)
        if last and message["role"] == "user":
            out += "<start_of_turn>model\n" if arch == "gemma3" else "<|im_start|>assistant\n"
    return out


def load_texts(arch):
    """(name, kind, text): short ones, conversations, long ones."""
    short = json.loads((TEXTS / "short.json").read_text(encoding="utf-8"))
    chats = json.loads((TEXTS / "chats.json").read_text(encoding="utf-8"))
    out = [(item["name"], item["kind"], item["text"]) for item in short]
    out += [(item["name"], "chat", chat_text(item["messages"], arch)) for item in chats]
    return out + [(path.stem, "long", path.read_text(encoding="utf-8")) for path in sorted(TEXTS.glob("*.txt"))]


def tokenize(path, arch, short, long):
    oracle = llama_cpp_oracle.Oracle(path, 16)
    out = []
    for name, kind, text in load_texts(arch):
        ids = oracle.tokenize(text, add_special=True, parse_special=True)
        out.append((name, kind, np.array(ids[:long if kind == "long" else short], dtype=np.int32)))
    return out


def check_decoder(model):
    for tensor in model.raw.values():
        if tensor.tensor_type != gguf.GGMLQuantizationType.F32:
            theirs = llama_cpp_oracle.dequantize(tensor.data, tensor.tensor_type, model.tensors[tensor.name].shape)
            assert np.array_equal(theirs, model.tensors[tensor.name]), tensor.name


def build(model, weights):
    config = model.base_config()
    if model.arch == "gemma3":
        config |= {"sliding_window": model.key("attention.sliding_window"),
                   "query_pre_attn_scalar": config["head_dim"], "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6,
                   "hidden_activation": "gelu_pytorch_tanh"}
        made = transformers.Gemma3TextConfig(**config)
        network = transformers.Gemma3ForCausalLM
        for name, value in weights.items():  # transformers computes 1 + w: that must give the file's value
            if name.endswith("norm.weight"):
                stored = model.tensors[gguf_weights.gguf_name(name, model.arch)]
                assert np.array_equal(np.float32(1) + value, stored), name
    else:
        made = transformers.LlamaConfig(**config)
        network = transformers.LlamaForCausalLM
    made._attn_implementation = "eager"
    with transformers.initialization.no_init_weights():
        built = network(made).float()
    values = {k: torch.from_numpy(v) for k, v in weights.items()}
    missing, unexpected = built.load_state_dict(values, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    built.tie_weights()
    return built.eval()


def bfloat16_copy(network):
    """As transformers loads a checkpoint in bfloat16: inverse frequencies and scales stay float32."""
    out = copy.deepcopy(network)
    for parameter in out.parameters():
        parameter.data = parameter.data.bfloat16()
    return out


def forward(network, ids):
    """(logits, hidden after the final norm), float32."""
    with torch.no_grad():
        out = network.model(torch.from_numpy(ids).long()[None])
        hidden = out.last_hidden_state
        return network.lm_head(hidden)[0].float().numpy(), hidden[0].float().numpy()


def log_softmax(logits):
    return torch.log_softmax(torch.from_numpy(logits).double(), -1)


def summarise(logits):
    """Per row: ids and logprobs of the top 256, logprob of the rest."""
    rows = torch.from_numpy(logits)
    ids = torch.topk(rows, TOP, sorted=False).indices.sort(-1).values
    # Sorted by id first, so that the stable sort puts the smaller id first on ties.
    order = torch.gather(rows, 1, ids).sort(dim=-1, descending=True, stable=True).indices
    ids = torch.gather(ids, 1, order)
    wide = rows.double()
    wide -= wide.max(-1, keepdim=True).values
    top = torch.gather(wide, 1, ids)
    wide.exp_()
    total = wide.sum(-1)
    rest = wide.scatter_(1, ids, 0.0).sum(-1)
    return ids.numpy(), (top - total.log()[:, None]).float().numpy(), (rest / total).log().float().numpy()


def by_rows(function, *arrays, rows=64):
    return [function(*(a[i:i + rows] for a in arrays)) for i in range(0, len(arrays[0]), rows)]


def row_kl(reference, other):
    def kl(a, b):
        p, q = log_softmax(a), log_softmax(b)
        return (p.exp() * (p - q)).sum(-1).numpy()
    return np.concatenate(by_rows(kl, reference, other))


def loss(logits, ids):
    """Minus the logprob of each following token."""
    rows = torch.from_numpy(logits[:-1])
    taken = torch.gather(rows, 1, torch.from_numpy(ids[1:]).long()[:, None])[:, 0].double()
    totals = np.concatenate(by_rows(lambda a: torch.from_numpy(a).double().logsumexp(-1).numpy(), logits[:-1]))
    return totals - taken.numpy()


def margins(logits, top_two):
    values = np.take_along_axis(logits, top_two, -1)
    return (values[:, 0] - values[:, 1]).astype(np.float32)


def pack_ids(ids, vocab):
    width = 2 if vocab <= 1 << 16 else 3
    return np.ascontiguousarray(ids.astype("<u4").view(np.uint8).reshape(*ids.shape, 4)[..., :width])


class Figures:
    """Running comparison with llama.cpp and with transformers' bfloat16."""

    def __init__(self):
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(np.atleast_1d(np.asarray(value, dtype=np.float64)))

    def get(self, name):
        return np.concatenate(self.values[name])


def run_texts(texts, network, rounded, exact, quantised, args):
    """All tensors of the file and the figures. `network` float32, `rounded` bfloat16; oracles."""
    head = network.lm_head.weight.detach().double().numpy()
    out = {key: [] for key in ("ids", "top", "rest", "margin", "noise", "rows", "hidden")}
    figures, offset = Figures(), 0
    for number, (name, kind, ids) in enumerate(texts, 1):
        logits, hidden = forward(network, ids)
        ids_top, top, rest = (np.concatenate(part) for part in zip(*by_rows(summarise, logits), strict=True))
        top_two = ids_top[:, :2].astype(np.int64)
        margin = margins(logits, top_two)
        coarse, _ = forward(rounded, ids)
        noise = np.abs(margins(coarse, top_two) - margin)

        rows = [i for i in range(len(ids)) if (offset + i) % args.every == 0]
        again = hidden[rows].astype(np.float64) @ head.T
        error = np.abs(again - logits[rows]) / np.abs(logits[rows]).max(-1, keepdims=True)
        assert error.max() < 1e-5, (name, error.max())
        figures.add("hidden_error", error.max())
        if number % args.check_every == 0:
            figures.add("bf16_kl", row_kl(logits, coarse))
            compare(figures, logits, ids, kind, exact, quantised)
        for key, value in (("ids", ids_top), ("top", top), ("rest", rest), ("margin", margin), ("noise", noise),
                           ("rows", [offset + i for i in rows]), ("hidden", hidden[rows])):
            out[key].append(value)
        offset += len(ids)
        print(f"{name}: {len(ids)} positions, loss {loss(logits, ids).mean():.3f}", flush=True)
    return {key: np.concatenate(value) for key, value in out.items()}, figures


def compare(figures, logits, ids, kind, exact, quantised):
    theirs = exact.logits(ids)
    figures.add("float32_kl", row_kl(logits, theirs))
    figures.add("float32_difference", np.abs(theirs - logits).max())
    theirs = quantised.logits(ids)
    figures.add("file_kl", row_kl(logits, theirs))
    figures.add("file_top1", theirs.argmax(-1) == logits.argmax(-1))
    if kind in ("prose", "long"):
        figures.add("loss", loss(logits, ids))
        figures.add("file_loss", loss(theirs, ids))


def report(figures):
    facts = {
        "loss_english": figures.get("loss").mean(),
        "loss_english_llama_cpp": figures.get("file_loss").mean(),
        "llama_cpp_float32_mean_kl": figures.get("float32_kl").mean(),
        "llama_cpp_float32_max_difference": figures.get("float32_difference").max(),
        "llama_cpp_file_mean_kl": figures.get("file_kl").mean(),
        "llama_cpp_file_top1": figures.get("file_top1").mean(),
        "bf16_mean_kl": figures.get("bf16_kl").mean(),
        "bf16_p99_kl": np.quantile(figures.get("bf16_kl"), 0.99),
        "hidden_max_error": figures.get("hidden_error").max(),
    }
    for key, value in facts.items():
        print(f"{key} {value:.6g}")
    return facts


def check(facts, arch):
    assert facts["llama_cpp_float32_mean_kl"] < AGREEMENT[arch], "llama.cpp disagrees on float32 weights"
    assert abs(facts["loss_english"] - facts["loss_english_llama_cpp"]) < 0.05, "the losses differ"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--gguf", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--short", type=int, default=66, help="positions kept of a short text")
    parser.add_argument("--long", type=int, default=660, help="positions kept of a long text")
    parser.add_argument("--every", type=int, default=20, help="the full vocabulary is kept at every n-th position")
    parser.add_argument("--check-every", type=int, default=1, help="compare every n-th text with llama.cpp")
    parser.add_argument("--texts", type=int, help="only the first so many texts, for a trial")
    args = parser.parse_args()

    torch.set_num_threads(1)  # spinning threads only wait for each other on a busy machine
    model = gguf_weights.Model(args.gguf)
    check_decoder(model)
    vocab = model.tensors["token_embd.weight"].shape[0]
    assert vocab == len(model.get("tokenizer.ggml.tokens")), "padded vocabularies are not handled"
    texts = tokenize(args.gguf, model.arch, args.short, args.long)[:args.texts]
    weights = model.state_dict()
    network = build(model, weights)
    rounded = bfloat16_copy(network)
    with tempfile.TemporaryDirectory() as scratch:
        plain = pathlib.Path(scratch) / "float32.gguf"
        llama_cpp_oracle.save_float32(args.gguf, plain, model.tensors)
        exact = llama_cpp_oracle.Oracle(plain, args.long + 16)
        quantised = llama_cpp_oracle.Oracle(args.gguf, args.long + 16)
        data, figures = run_texts(texts, network, rounded, exact, quantised, args)
    facts = report(figures)

    lengths = [len(ids) for _, _, ids in texts]
    tensors = {
        "token_ids": np.concatenate([ids for _, _, ids in texts]),
        "text_starts": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "top_logprobs": data["top"], "top_ids": pack_ids(data["ids"], vocab), "rest_logprob": data["rest"],
        "margin": data["margin"], "bf16_noise": data["noise"].astype(np.float32),
        "hidden_rows": data["rows"].astype(np.int32), "hidden": data["hidden"],
    }
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{args.name}.safetensors"
    safetensors.numpy.save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, path, metadata={
        **{key: f"{value:.6g}" for key, value in facts.items()},
        "texts": json.dumps([name for name, _, _ in texts]), "vocabulary": str(vocab),
        "gguf_sha256": hashlib.sha256(args.gguf.read_bytes()).hexdigest(),
        "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]})
    print(f"{path}: {len(texts)} texts, {sum(lengths)} positions, {len(data['rows'])} with the full vocabulary, "
          f"{path.stat().st_size} bytes")
    check(facts, model.arch)


if __name__ == "__main__":
    main()
