"""Texts on which tokenizers disagree, generated from a seed.

Used by make_token_cases.py. Everything here is written or generated for this project. The lists
favour what breaks tokenizers: runs of one character, digits after spaces, scripts without spaces,
marks that combine, emoji built from several code points, control characters, special tokens spelt
out in plain text. Only code points assigned in the interpreter's Unicode version are drawn, because
libraries with different Unicode tables would differ on the others for no fault of their own.
"""

import random
import unicodedata

WORDS = {
    "en": "the river stone builder quickly measured twice and cut once because mortar hides "
          "nothing I'll can't we've they're don't CAN'T He'S naïve co-operate re-entry".split(),
    "de": "Straße größer Übung schließlich Fußgänger Donaudampfschiff daß können fünf".split(),
    "fr": "l'été déjà où garçon cœur naïf aujourd'hui qu'il français œuvre".split(),
    "es": "¿qué mañana corazón niño pingüino ¡hola! árbol canción".split(),
    "pl": "źdźbło gżegżółka łódź ćwierć święto żółw".split(),
    "vi": "tiếng Việt đường phố người những được không thể".split(),
    "tr": "ığdır şişe çiçek İstanbul ağaç gözlük".split(),
    "ru": "камень кладка быстро ёлка объект съёмка река мастер".split(),
    "uk": "ґанок їжак щастя ім'я мова".split(),
    "el": "πέτρα τοίχος γρήγορα Ελλάδα ώρα ςίγμα".split(),
    "he": "אבן קיר שלום מהיר בַּיִת עולם".split(),
    "ar": "حجر جدار سريع مرحبا بالعالم مُحَمَّد لغة".split(),
    "fa": "سنگ دیوار می‌خواهم کتاب‌ها فارسی".split(),
    "hi": "पत्थर दीवार नमस्ते क्षेत्र स्त्री हिन्दी".split(),
    "bn": "পাথর দেয়াল বাংলা ক্ষমা".split(),
    "ta": "கல் சுவர் வணக்கம் தமிழ்".split(),
    "th": "หิน กำแพง สวัสดี ภาษาไทย เร็ว".split(),
    "km": "ថ្ម ជញ្ជាំង សួស្តី".split(),
    "ka": "ქვა კედელი გამარჯობა".split(),
    "hy": "քար պատ բարեւ".split(),
    "am": "ድንጋይ ግድግዳ ሰላም".split(),
    "zh": "石头 墙 你好世界 快速 测量两次 砌筑 繁體字 龍".split(),
    "ja": "石 壁 こんにちは カタカナ ひらがな 速い 測る ﾊﾝｶｸ".split(),
    "ko": "돌 벽 안녕하세요 빠르게 한국어 뷁".split(),
}

EMOJI = [
    "😀", "😂", "❤️", "❤", "👍", "👍🏽", "👩‍👩‍👧‍👦", "🧑🏿‍🚀", "🏳️‍🌈", "🇩🇪", "🇯🇵🇺🇸", "🇦", "👨‍💻", "🤷🏻‍♀️", "☠️",
    "1️⃣", "#️⃣", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "🫠", "🧱", "🪨", "⚒️", "👁️‍🗨️", "🐻‍❄️", "💯", "✅", "〰️", "©️", "™",
]

COMBINING = [
    "e\u0301", "a\u0308\u0323", "o\u0302\u0301", "Z\u0335\u0322\u0327a\u0353l\u0321g\u0334o\u0338",
    "n\u0303", "\u0301", " \u0301x", "q\u0307\u0323", "\u1112\u1161\u11ab", "각\u11a8", "é", "ﬁ", "Å",
    "\u0915\u094d\u0937", "x\u20dd", "1\u0332", "\u05d0\u05b8", "\u0e01\u0e34\u0e49",
]

WHITESPACE = [
    " ", "  ", "   ", "\t", "\t\t", " \t ", "\n", "\n\n", "\r\n", "\r", "\n \n", " \n", "\n ", "\v",
    "\f", "\u00a0", "\u0085", "\u2003", "\u2028", "\u2029", "\u202f", "\u3000", "\u200b", "\ufeff",
    "\u1680", "\x1c", "\x1f", "\u180e", "\u2009\u2009",
]

CONTROL = ["\x01", "\x02\x03", "\x07", "\x08", "\x0b", "\x1b[31m", "\x7f", "\x80", "\x9f", "\u200e",
           "\u202e", "\u2066", "\u00ad", "\ufffd", "\ue000", "\ufff9", "\u061c", "\x00", "a\x00b"]

CODE = [
    "def add(a, b):\n    return a + b\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += x[i] * y[i];\n}\n",
    "#include <vector>\nint main() { return 0; }",
    "if x == None or not y:\n        pass  # two spaces before\n\n\n",
    "SELECT id, name FROM stones WHERE weight >= 12.5 ORDER BY id DESC;",
    "<div class=\"wall\" id='a-1'>\n  <p>&nbsp;stone</p>\n</div>",
    "{\"key\": [1, 2.5, -3e-7, null, true], \"nested\": {\"a\": \"b\\n\"}}",
    "let f = |x: &mut Vec<u8>| -> Result<(), E> { x.push(0xFF); Ok(()) };",
    "cat a.txt | grep -E '^[0-9]+$' >> out 2>&1 && echo $?",
    "x = lambda *a, **k: {**k, 'n': len(a)}\nprint(f\"{x(1)!r:>10}\")",
    "\\frac{\\partial f}{\\partial x} = \\sum_{i=1}^{n} x_i^2 \\quad \\forall n \\in \\mathbb{N}",
    "https://example.org/path/to?q=a+b%20c&lang=en#top",
    "C:\\Users\\mason\\file (1).txt",
    "0x1F 0b1010 0o17 1_000_000 1e10 3.14159f -42L",
    "@@ -1,4 +1,5 @@\n-old\n+new\n unchanged",
    "fn main(){println!(\"{:?}\",vec![1;3]);}",
    "a=b==c!=d<=e>=f=>g->h::i..j...k??l?.m",
    "/* comment */ // another\n/// doc\n#![allow(x)]",
    "    leading\n        deeper\n\tmixed \t tab\n",
    "printf(\"%5.2f\\t%s\\n\", 1.0, \"it's\");",
    "```python\nprint('hi')\n```\n\n- item 1\n  - item 2\n\n| a | b |\n|---|---|\n",
    "user@example.com, +49 (0)30 123456-7; 12:34:56.789Z",
]

# Written as plain text: the spelling of special tokens of several families.
SPECIAL = {
    "smollm2": ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<file_sep>",
                "<jupyter_start>", "<empty_output>"],
    "gemma3": ["<bos>", "<eos>", "<pad>", "<unk>", "<start_of_turn>", "<end_of_turn>", "<mask>",
               "<unused0>", "<unused98>", "<start_of_image>", "[multimodal]", "<0x0A>", "<table>",
               "</h1>", "<2mass>"],
    "qwen3": ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<think>",
              "</think>", "<|fim_prefix|>", "<|vision_start|>", "<tool_response>", "<|object_ref_end|>"],
}


def sentence(rng, language=None):
    language = language or rng.choice(list(WORDS))
    words = [rng.choice(WORDS[language]) for _ in range(rng.randint(1, 9))]
    glue = "" if language in ("zh", "ja", "th", "km") and rng.random() < 0.7 else " "
    return glue.join(words) + rng.choice(["", ".", "!", "?", "…", "...", ",", ":", ";", "。", "؟"])


def number(rng):
    kind = rng.randrange(9)
    value = rng.randrange(10 ** rng.randint(1, 12))
    if kind == 0:
        return f"{value:,}"
    if kind == 1:
        return f"{value / 1000:.3f}"
    if kind == 2:
        return "".join(chr(0x660 + int(d)) for d in str(value))
    if kind == 3:
        return "".join(chr(0xFF10 + int(d)) for d in str(value))
    if kind == 4:
        return rng.choice(["½", "²", "x³", "Ⅷ", "①", "㊿", "१२३", "๔๕", "1½", "10⁻⁹", "¼ cup"])
    if kind == 5:
        return f"{value % 24:02d}:{value % 60:02d}"
    if kind == 6:
        return f"{rng.choice('$€£¥')}{value}.{value % 100:02d}"
    return str(value)


def random_unicode(rng, planes):
    out = []
    while len(out) < rng.randint(1, 24):
        code = rng.randrange(*rng.choice(planes))
        if unicodedata.category(chr(code)) not in ("Cn", "Cs"):
            out.append(chr(code))
    return "".join(out)


PLANES = {
    "latin": [(0x20, 0x250)],
    "bmp": [(0x20, 0xD800), (0xE000, 0x10000)],
    "any": [(0x20, 0x80), (0x80, 0x800), (0x800, 0xD800), (0x10000, 0x20000), (0x20000, 0x2A000)],
    "marks": [(0x300, 0x370), (0x61, 0x7B), (0x20, 0x21), (0x900, 0x980), (0x591, 0x5F5)],
    "symbols": [(0x2000, 0x2C00), (0x20, 0x30), (0x1F300, 0x1FA00)],
}


def fixed_texts():
    texts = ["", " ", "a", " a", "a ", "  a  b   c    ", "\n", "Hello, world!", "I'll pay $12345 in 2 days!\n\n  ok"]
    texts += CODE + EMOJI + COMBINING + WHITESPACE + CONTROL
    texts += ["x" + w + "y" for w in WHITESPACE] + ["1" + w + "2" for w in WHITESPACE]
    texts += [c + "1" for c in WHITESPACE[:8]] + ["a" + c + "b" for c in CONTROL]
    for run in ("a", " ", "\n", "\t", "0", "-", "=", "!", "ab", "é", "石", "😀", " \n", "\r\n", ".", "1 "):
        texts += [run * n for n in (3, 7, 16, 33, 64)]
        texts += [run * 300]
    texts += [" " * n + "x" for n in range(1, 40)] + ["\t" * n + "x" for n in range(1, 9)]
    texts += ["x" + "\n" * n + "y" for n in range(1, 12)] + [" " * n + "7" for n in range(1, 12)]
    texts += [f"{n}" for n in (0, 1, 9, 10, 99, 100, 123, 1234, 12345, 123456, 1234567, 10 ** 20)]
    texts += [f"a {n} b{n} {n}c" for n in (7, 42, 365, 2024, 65536)]
    texts += ["it's IT'S it’s 'tis 'S 'RE 'll'll ''s", "don't Don'T DON'T", "'s", " 's", "''", "x'\u017f"]
    return texts


def generated_texts(rng, count):
    makers = [
        lambda: sentence(rng),
        lambda: " ".join(sentence(rng) for _ in range(rng.randint(2, 5))),
        lambda: sentence(rng, rng.choice(["he", "ar", "fa"])) + rng.choice([" ", "\u200f", ""]) + number(rng),
        lambda: sentence(rng, rng.choice(["zh", "ja", "ko", "th"])) + rng.choice(["abc", "123", " x"]),
        lambda: number(rng) + rng.choice(["", " ", "  ", "\t"]) + number(rng),
        lambda: " " * rng.randint(0, 6) + sentence(rng, "en") + " " * rng.randint(0, 6) + number(rng),
        lambda: rng.choice(EMOJI) + rng.choice(["", " ", "x"]) + rng.choice(EMOJI) + sentence(rng),
        lambda: rng.choice(COMBINING) + sentence(rng) + rng.choice(COMBINING),
        lambda: rng.choice(WHITESPACE) + sentence(rng) + rng.choice(WHITESPACE) + rng.choice(WHITESPACE),
        lambda: rng.choice(CODE)[rng.randint(0, 8):] + rng.choice(CODE)[:rng.randint(3, 40)],
        lambda: sentence(rng) + rng.choice(CONTROL) + sentence(rng),
        lambda: random_unicode(rng, PLANES["latin"]),
        lambda: random_unicode(rng, PLANES["bmp"]),
        lambda: random_unicode(rng, PLANES["any"]),
        lambda: random_unicode(rng, PLANES["marks"]),
        lambda: random_unicode(rng, PLANES["symbols"]),
        lambda: "".join(rng.choice(" \n\t\ra1.'é石") for _ in range(rng.randint(2, 30))),
        lambda: "".join(rng.choice("abcXYZ019 .,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`\n") for _ in range(rng.randint(2, 60))),
    ]
    return [makers[i % len(makers)]() for i in range(count)]


def special_texts(rng, family):
    tokens = SPECIAL[family]
    texts = []
    for token in tokens:
        texts += [token, " " + token, token + " ", "a" + token + "b", "a " + token + " b", token * 2,
                  token + "\n" + token, token[:-1], token[1:], token.upper(), "1" + token + "2",
                  token + " 3", "\n" + token + "\n", token + "  x"]
    texts.append(f"{tokens[0]}user\nHi there{tokens[1]}\n{tokens[0]}assistant\n")
    for _ in range(30):
        parts = [rng.choice([rng.choice(tokens), sentence(rng), number(rng), rng.choice(WHITESPACE)])
                 for _ in range(rng.randint(2, 6))]
        texts.append("".join(parts))
    return texts


def u2581_texts(rng):
    texts = ["▁", "▁▁", " ▁", "▁ ", "a▁b", "▁a", "a▁", "▁▁▁a", " ▁ a", "▁the", "the▁river", "▁1", "x▁\n▁", "▁" * 17]
    return texts + [sentence(rng, "en").replace(" ", "▁") for _ in range(6)] + [
        sentence(rng).replace(" ", " ▁", 1) for _ in range(6)]


def unique(texts):
    return list(dict.fromkeys(texts))


def all_texts(seed, count):
    """Plain texts: the fixed list, then generated ones until there are `count`."""
    rng = random.Random(seed)
    texts = unique(fixed_texts())
    while len(texts) < count:
        texts = unique(texts + generated_texts(rng, count - len(texts)))
    return texts
