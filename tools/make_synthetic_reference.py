"""Writes tests/golden/synthetic: what transformers makes of exported synthetic models.

  make_synthetic_reference.py --program PATH --out DIR
  make_synthetic_reference.py --program PATH --check "synthetic:..." ...
Needs torch, transformers and safetensors. `ashlar inspect --export` writes the folders.

--out stores logits.safetensors, teacher-forced float32 logits of MODEL below (`tokens` I32 [T],
`logits` F32 [T V]), and tokens.json, the ids that AutoTokenizer gives texts of token_texts.py; its
tokenizer must also decode each to the text it came from. --check compares a model without storing:
transformers' float32 choice of the most likely token, greedy from a fixed prompt, with that of
`ashlar run --temperature 0`, and their log-probabilities.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

import numpy as np
import safetensors.torch
import token_texts
import torch
import transformers

MODEL = "synthetic:qwen3-0.6b?layers=2&vocab=512"
TOKENIZER = "synthetic:qwen3-0.6b?layers=1&vocab=151936"
PROMPT = "the stone river"
STEPS = 12
TOP = 5


def export(program, model, folder):
    subprocess.run([program, "inspect", model, "--export", str(folder)], check=True, stdout=subprocess.DEVNULL)


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def store_logits(program, out):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "model"
        export(program, MODEL, folder)
        ids = torch.from_numpy(np.random.default_rng(1).integers(4, 512, 24))
        with torch.no_grad():
            logits = load(folder)(ids[None]).logits[0]
    source = {"model": MODEL, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    tensors = {"tokens": ids.int(), "logits": logits.contiguous()}
    safetensors.torch.save_file(tensors, out / "logits.safetensors", metadata=source)
    print(f"logits: spread {logits.std():.3f}")


def store_tokens(program, out):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "model"
        export(program, TOKENIZER, folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    cases = []
    for text in token_texts.all_texts(1, 60):
        ids = tokenizer.encode(text, add_special_tokens=True, split_special_tokens=True)
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text, text
        cases.append({"text": text, "ids": ids})
    head = json.dumps({"source": f"transformers {transformers.__version__}", "tokens": len(tokenizer)})[:-1]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (out / "tokens.json").write_text(f'{head}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"tokens: {len(cases)} texts, {sum(len(case['ids']) for case in cases)} ids")


def check(program, model):
    command = [program, "run", model, PROMPT, "--raw", "--json", "--temperature", "0", "--ignore-eos",
               "--max-tokens", str(STEPS), "--logprobs", str(TOP), "--kv-type", "f32"]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "model"
        export(program, model, folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        network = load(folder)
    ids = tokenizer.encode(PROMPT) + answer["tokens"]
    decodable = len(tokenizer)
    with torch.no_grad():
        logits = network(torch.tensor(ids)[None]).logits[0, -STEPS - 1:-1, :decodable]
    logprobs = torch.log_softmax(logits.double(), -1)
    same = int((logits.argmax(-1) == torch.tensor(answer["tokens"])).sum())
    worst = 0.0
    for row, position in zip(logprobs, answer["logprobs"], strict=True):
        for item in position["top"]:
            worst = max(worst, abs(row[item["id"]].item() - item["logprob"]))
    perplexity = math.exp(-(logprobs.exp() * logprobs).sum(-1).mean().item())
    print(f"{model}: top-1 {same} of {STEPS}, largest difference of a log-probability {worst:.1e}, "
          f"logit spread {logits.std():.2f}, perplexity {perplexity:.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", nargs="*", default=[])
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        store_logits(args.program, args.out)
        store_tokens(args.program, args.out)
    for model in args.check:
        check(args.program, model)


if __name__ == "__main__":
    main()
