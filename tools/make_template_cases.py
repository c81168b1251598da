"""Writes tests/golden/text/templates.json: chat templates rendered by transformers.

The oracle is `apply_chat_template(tokenize=False)` of transformers: same Jinja environment, same
normalisation of messages (keys whose value is null are dropped before rendering). Run with
  make_template_cases.py --smollm2-gguf FILE --qwen3-config tokenizer_config.json --out DIR
The models' own templates are referenced by name and not stored; the others are the files in
tools/chat_templates/, written for this test.

File: {"source", "cases"}; a case has name, template (string or null), model ("smollm2", "qwen3" or
null), messages, tools, add_generation_prompt, kwargs (further template variables), bos_token,
eos_token (null: not defined), now (ISO local time that strftime_now must see, or null), expected
and error. A failing case has expected null; `error` is then the text given to raise_exception, or
"template error" where only the failure counts, because its wording belongs to the interpreter.
"""

import argparse
import datetime
import json
import pathlib

import gguf
import jinja2
import tokenizers
import transformers
from transformers.utils import chat_template_utils

import template_conversations as talk

NOW = "2025-03-09T14:05:07"
TEMPLATES = pathlib.Path(__file__).parent / "chat_templates"
GENERIC_ERROR = "template error"


class FixedDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(NOW)


def render(template, case):
    """(expected, error) of one case."""
    blank = tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0}, unk_token="x"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=blank, bos_token=case["bos_token"], eos_token=case["eos_token"])
    try:
        text = tokenizer.apply_chat_template(
            case["messages"], tools=case["tools"], chat_template=template, tokenize=False,
            add_generation_prompt=case["add_generation_prompt"], **case["kwargs"])
        return text, None
    except jinja2.exceptions.TemplateError as error:
        raised = type(error) is jinja2.exceptions.TemplateError
        return None, error.message if raised else GENERIC_ERROR
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError):
        return None, GENERIC_ERROR


class Cases:
    def __init__(self, own):
        self.own = own  # model name -> (template, bos, eos)
        self.items = []

    def add(self, name, messages, template=None, model=None, tools=None, prompt=False, bos="<s>", eos="</s>",
            **kwargs):
        if model:
            text, bos, eos = self.own[model]
        else:
            text = template if template is not None else (TEMPLATES / f"{name.split('/')[0]}.jinja").read_text()
        case = {"name": name, "template": None if model else text, "model": model, "messages": messages,
                "tools": tools, "add_generation_prompt": prompt, "kwargs": kwargs, "bos_token": bos,
                "eos_token": eos, "now": NOW if "strftime_now" in text else None}
        case["expected"], case["error"] = render(text, case)
        self.items.append(case)


def add_model_cases(cases, model):
    for name, messages in talk.CONVERSATIONS.items():
        for prompt in (False, True):
            cases.add(f"{model}/{name}/{'prompt' if prompt else 'plain'}", messages, model=model, prompt=prompt)
    for name, messages in talk.TOOL_CONVERSATIONS.items():
        cases.add(f"{model}/tools/{name}", messages, model=model, tools=talk.TOOLS, prompt=True)
        cases.add(f"{model}/no_tools/{name}", messages, model=model, prompt=True)
    for name, messages in talk.ODD_CONVERSATIONS.items():
        cases.add(f"{model}/odd/{name}", messages, model=model, prompt=True)
    if model == "qwen3":
        for name in ("user", "multi_turn", "reasoning_field", "reasoning_inline"):
            messages = talk.CONVERSATIONS[name]
            for thinking in (False, True):
                cases.add(f"qwen3/thinking_{thinking}/{name}".lower(), messages, model=model, prompt=True,
                          enable_thinking=thinking)
        cases.add("qwen3/tools/empty_list", talk.CONVERSATIONS["user"], model=model, tools=[], prompt=True)


def add_written_cases(cases):
    chat = talk.CONVERSATIONS
    for path in sorted(TEMPLATES.glob("*.jinja")):
        for name in ("user", "system", "multi_turn", "unicode", "long_chat", "padded"):
            cases.add(f"{path.stem}/{name}", chat[name], prompt=name != "long_chat")
    for name, messages in talk.TOOL_CONVERSATIONS.items():
        for template in ("tools_json", "json_values", "dict_methods", "tests"):
            cases.add(f"{template}/tools_{name}", messages, tools=talk.TOOLS, bos=None)
    for name, messages in talk.ODD_CONVERSATIONS.items():
        for template in ("macros", "raises", "tests", "dict_methods", "namespace"):
            cases.add(f"{template}/odd_{name}", messages)
    cases.add("dates/given", chat["user"], date_string="1 January 2001")
    cases.add("reasoning/inline", chat["reasoning_inline"], prompt=True)
    cases.add("reasoning/inline_last", chat["reasoning_inline"][:-1], prompt=True, enable_thinking=False)
    cases.add("generation/no_tokens", chat["multi_turn"], bos=None, eos=None)
    cases.add("raises/no_tokens", chat["multi_turn"], bos=None, eos=None)
    for name, template in talk.ERROR_TEMPLATES.items():
        cases.add(f"error/{name}", chat["system"], template=template)
    for name, template in talk.SNIPPETS.items():
        cases.add(f"snippet/{name}", chat["multi_turn"], template=template, prompt=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--smollm2-gguf", type=pathlib.Path, required=True)
    parser.add_argument("--qwen3-config", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()

    chat_template_utils.datetime = FixedDatetime
    smollm2 = gguf.GGUFReader(args.smollm2_gguf).fields["tokenizer.chat_template"].contents()
    qwen3 = json.loads(args.qwen3_config.read_text(encoding="utf-8"))
    cases = Cases({"smollm2": (smollm2, "<|im_start|>", "<|im_end|>"),
                   "qwen3": (qwen3["chat_template"], qwen3["bos_token"], qwen3["eos_token"])})
    add_model_cases(cases, "smollm2")
    add_model_cases(cases, "qwen3")
    add_written_cases(cases)

    source = f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}"
    lines = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases.items)
    path = args.out / "templates.json"
    path.write_text(f'{{"source":{json.dumps(source)},\n"cases":[\n{lines}\n]}}\n', encoding="utf-8")
    failed = [case for case in cases.items if case["error"] is not None]
    names = {case["name"] for case in cases.items}
    assert len(names) == len(cases.items), "names must be unique"
    print(f"{path}: {len(cases.items)} cases, {len(failed)} of them errors, "
          f"{len({c['template'] for c in cases.items if c['template']})} templates, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
