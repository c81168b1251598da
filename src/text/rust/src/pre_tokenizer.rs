//! Pre-tokenizers of GGUF byte-level vocabularies, by the names that files use.
//!
//! A name stands for a fixed list of regular expressions: each cuts the fragments of the one before it, matches and
//! the text between them alike. Afterwards bytes become letters. A name that is not in the table is refused, because
//! a wrong split gives plausible and wrong ids.

use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
};

use crate::failure::Failure;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const EACH_NUMBER: &str = r"\p{N}";
// Both cases are written out: a case-insensitive group would also fold the long s (U+017F).
const QWEN2: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const PUNCTUATION: &str = r"[\p{P}\$\+<=>\^~\|]+";
const NUMBERS: &str = r"\p{N}+";
const THREE_DIGITS: &str = r"[0-9][0-9][0-9]";

/// The passes of a name, or nothing if the name is not known.
fn passes(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "gpt-2" | "phi-2" | "jina-es" | "jina-de" | "jina-v2-es" | "jina-v2-de" | "mpt"
        | "olmo" | "jais" | "gigachat" => &[GPT2],
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" => {
            &[EACH_NUMBER, GPT2]
        }
        "qwen2" | "deepseek-r1-qwen" | "megrez" | "stablelm2" | "hunyuan" => &[QWEN2],
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
        | "lfm2" | "smaug-bpe" | "dbrx" | "glm4" => &[LLAMA3],
        "default" => &[PUNCTUATION, GPT2, NUMBERS, THREE_DIGITS],
        _ => return None,
    })
}

pub struct Splitter {
    passes: Vec<Split>,
    letters: ByteLevel,
}

impl Splitter {
    pub fn new(name: &str) -> Result<Self, Failure> {
        let patterns = passes(if name.is_empty() { "default" } else { name }).ok_or_else(|| {
            Failure::unsupported(format!("pre-tokenizer \"{name}\" is not known"))
        })?;
        let passes = patterns
            .iter()
            .map(|pattern| {
                let pattern = SplitPattern::Regex((*pattern).to_string());
                Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            })
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::internal(format!("pre-tokenizer \"{name}\": {error}")))?;
        Ok(Self { passes, letters: ByteLevel::new(false, false, false) })
    }

    /// Where each fragment of a text ends, in bytes.
    pub fn fragment_ends(&self, text: &str) -> Result<Vec<u32>, Failure> {
        let fragments = self.split(text)?;
        let parts = fragments.get_splits(OffsetReferential::Original, OffsetType::Byte);
        Ok(parts.iter().map(|(_, (_, end), _)| *end as u32).collect())
    }

    /// The fragments of a text, still as text.
    fn split(&self, text: &str) -> Result<PreTokenizedString, Failure> {
        let mut fragments = PreTokenizedString::from(text);
        for pass in &self.passes {
            pass.pre_tokenize(&mut fragments).map_err(failed)?;
        }
        Ok(fragments)
    }

    /// The fragments of a text, in byte letters.
    pub fn split_into_letters(&self, text: &str) -> Result<PreTokenizedString, Failure> {
        let mut fragments = self.split(text)?;
        self.letters.pre_tokenize(&mut fragments).map_err(failed)?;
        Ok(fragments)
    }
}

fn failed(error: tokenizers::Error) -> Failure {
    Failure::internal(format!("the pre-tokenizer failed: {error}"))
}
