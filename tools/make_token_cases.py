"""Writes tests/golden/text/tokens_{smollm2,gemma3,qwen3}.json: texts and their token ids.

Oracles: llama-cpp-python for vocabularies inside GGUF files (transformers' conversion of those is
wrong for some texts), the `tokenizers` library for a tokenizer.json. Run with one of
  make_token_cases.py --family smollm2 --gguf FILE --out DIR
  make_token_cases.py --family qwen3 --tokenizer-json FILE --out DIR
Needs llama-cpp-python or tokenizers, never more than the one asked for.

File: {"source", "cases", "u2581_cases"}, each case {"text", "ids", "parse_special", "add_special"}.
`parse_special`: special tokens spelt in the text become their ids. `add_special`: BOS/EOS are added
as the vocabulary asks. `u2581_cases` hold a literal U+2581, which SentencePiece-like vocabularies
cannot tell from a space; implementations may differ there and are compared apart.
"""

import argparse
import json
import pathlib
import random

import token_texts


def gguf_encoder(path):
    import llama_cpp

    model = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
    vocab = llama_cpp.llama_model_get_vocab(model.model)

    def encode(text, parse_special, add_special):
        data = text.encode("utf-8")
        room = len(data) + 16
        ids = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(vocab, data, len(data), ids, room, add_special, parse_special)
        assert count >= 0, text
        return list(ids[:count])

    encode.keep = model
    return encode, f"llama-cpp-python {llama_cpp.__version__}"


def json_encoder(path):
    import tokenizers

    plain = tokenizers.Tokenizer.from_file(str(path))
    special = tokenizers.Tokenizer.from_file(str(path))
    plain.encode_special_tokens = True  # special tokens are then encoded as ordinary text

    def encode(text, parse_special, add_special):
        chosen = special if parse_special else plain
        return chosen.encode(text, add_special_tokens=add_special).ids

    return encode, f"tokenizers {tokenizers.__version__}"


def make_cases(encode, family, seed, count):
    rng = random.Random(seed + 1)

    def case(text, parse_special, add_special):
        return {"text": text, "ids": encode(text, parse_special, add_special),
                "parse_special": parse_special, "add_special": add_special}

    cases = []
    for text in token_texts.all_texts(seed, count):
        cases.append(case(text, rng.random() < 0.5, rng.random() < 0.25))
    for text in token_texts.unique(token_texts.special_texts(rng, family)):
        cases.append(case(text, True, rng.random() < 0.25))
        cases.append(case(text, False, rng.random() < 0.25))
    literal = [case(text, True, False) for text in token_texts.unique(token_texts.u2581_texts(rng))]
    return cases, literal


def write(path, source, cases, literal):
    def lines(items):
        return ",\n".join(json.dumps(item, ensure_ascii=True, separators=(",", ":")) for item in items)

    path.write_text(f'{{"source":{json.dumps(source)},\n"cases":[\n{lines(cases)}\n],\n'
                    f'"u2581_cases":[\n{lines(literal)}\n]}}\n', encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--family", required=True, choices=sorted(token_texts.SPECIAL))
    parser.add_argument("--gguf", type=pathlib.Path)
    parser.add_argument("--tokenizer-json", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1100)
    args = parser.parse_args()
    if bool(args.gguf) == bool(args.tokenizer_json):
        parser.error("give exactly one of --gguf and --tokenizer-json")

    encode, oracle = gguf_encoder(args.gguf) if args.gguf else json_encoder(args.tokenizer_json)
    cases, literal = make_cases(encode, args.family, args.seed, args.count)
    path = args.out / f"tokens_{args.family}.json"
    write(path, f"{args.family} vocabulary, {oracle}, seed {args.seed}", cases, literal)
    texts = len({c["text"] for c in cases})
    ids = len({i for c in cases for i in c["ids"]})
    print(f"{path}: {len(cases)} cases, {texts} texts, {len(literal)} with U+2581, {ids} different ids, "
          f"{path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
