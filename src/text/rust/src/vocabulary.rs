//! Tokenizers from GGUF vocabularies: checks what the file states, then builds the model directly.
//!
//! Two kinds: "gpt2" (byte-level BPE: the crate's BPE model behind a named pre-tokenizer) and "llama" (SentencePiece
//! BPE with scores). Tokens of type 4 are cut out of every text before the model sees it, those of types 2 and 3 only
//! when special parsing is on. As in llama.cpp, which wrote these files' rules, that happens on the raw text: a token
//! stored with spaces matches spaces. For Gemma this equals matching after the normaliser, except that a literal
//! U+2581 in the text is never taken for a space there.

use ahash::{AHashMap, AHashSet};
use tokenizers::models::bpe::BPE;
use tokenizers::{Model, OffsetReferential, OffsetType};

use crate::byte_letters;
use crate::failure::Failure;
use crate::pre_tokenizer::Splitter;
use crate::reach;
use crate::score_bpe::ScoreBpe;
use crate::special::{Cutter, Piece};
use crate::table::{self, Strip, Table};

/// As the file states it; see `AshlarVocabulary` in `ashlar_text.h`.
pub struct Vocabulary<'a> {
    pub tokens: &'a [&'a [u8]],
    pub types: &'a [i32],
    pub scores: &'a [f32],
    pub merges: &'a [&'a [u8]],
    pub model: &'a str,
    pub pre: &'a str,
    pub unknown_id: Option<u32>,
    pub ignore_merges: bool,
    pub add_space_prefix: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

enum Merger {
    Letters { splitter: Splitter, model: Box<BPE> },
    Scores { model: Box<ScoreBpe>, add_space_prefix: bool },
}

pub struct VocabularyTokenizer {
    merger: Merger,
    always: Cutter,       // user-defined tokens
    with_special: Cutter, // and control and unknown tokens
    kinds: Vec<Kind>,
}

impl VocabularyTokenizer {
    pub fn new(vocabulary: &Vocabulary) -> Result<Self, Failure> {
        let tokens = texts(vocabulary.tokens, "token")?;
        if tokens.is_empty() {
            return Err(Failure::corrupt("the vocabulary has no tokens"));
        }
        if tokens.len() > i32::MAX as usize {
            return Err(Failure::corrupt(format!("a vocabulary of {} tokens", tokens.len())));
        }
        let kinds = kinds(&tokens, vocabulary.types)?;
        let select = |wanted: &[Kind]| -> Vec<(&str, u32)> {
            let all = tokens.iter().zip(&kinds).enumerate();
            all.filter(|(_, (text, kind))| wanted.contains(kind) && !text.is_empty())
                .map(|(id, (text, _))| (*text, id as u32))
                .collect()
        };
        let always = Cutter::new(select(&[Kind::UserDefined]))?;
        let with_special = Cutter::new(select(&[Kind::UserDefined, Kind::Control, Kind::Unknown]))?;
        let merger = match vocabulary.model {
            "gpt2" => Merger::Letters {
                splitter: Splitter::new(vocabulary.pre)?,
                model: Box::new(letters_model(vocabulary, &tokens)?),
            },
            "llama" => Merger::Scores {
                model: Box::new(scores_model(vocabulary, &tokens)?),
                add_space_prefix: vocabulary.add_space_prefix,
            },
            other => {
                return Err(Failure::unsupported(format!("vocabulary model \"{other}\"")));
            }
        };
        Ok(Self { merger, always, with_special, kinds })
    }

    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>, Failure> {
        let mut ids = Vec::new();
        let mut after_special = true;
        let cutter = if parse_special { &self.with_special } else { &self.always };
        cutter.cut(text, |piece| {
            match piece {
                Piece::Token(id) => ids.push(id),
                Piece::Text(text) => self.merge(text, after_special, &mut ids)?,
            }
            after_special = matches!(piece, Piece::Token(_));
            Ok(())
        })?;
        Ok(ids)
    }

    fn merge(&self, text: &str, after_special: bool, ids: &mut Vec<u32>) -> Result<(), Failure> {
        match &self.merger {
            Merger::Letters { splitter, model } => {
                let fragments = splitter.split_into_letters(text)?;
                let parts = fragments.get_splits(OffsetReferential::Original, OffsetType::None);
                for (letters, _, _) in parts {
                    let found = model
                        .tokenize(letters)
                        .map_err(|error| Failure::internal(format!("BPE: {error}")))?;
                    ids.extend(found.iter().map(|token| token.id));
                }
            }
            Merger::Scores { model, add_space_prefix } => {
                let mut marked = String::with_capacity(text.len() + text.len() / 4 + 3);
                if *add_space_prefix && after_special {
                    marked.push('\u{2581}');
                }
                for c in text.chars() {
                    marked.push(if c == ' ' { '\u{2581}' } else { c });
                }
                model.encode(&marked, ids);
            }
        }
        Ok(())
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        match &self.merger {
            Merger::Letters { model, .. } => model.token_to_id(token),
            Merger::Scores { model, .. } => model.id_of(token),
        }
    }

    pub fn table(&self) -> Result<Table, Failure> {
        let strip = match &self.merger {
            Merger::Scores { add_space_prefix: true, .. } => Strip::OneSpace,
            _ => Strip::None,
        };
        let mut out = Table::new(self.kinds.len(), strip);
        let mut longest = reach::LONGEST_CHARACTER;
        for (id, kind) in self.kinds.iter().enumerate() {
            let text = match &self.merger {
                Merger::Letters { model, .. } => model.id_to_token(id as u32).unwrap_or_default(),
                Merger::Scores { model, .. } => model.text_of(id as u32).to_string(),
            };
            let mut flags = table::PRESENT;
            let begin = out.bytes.len();
            match (kind, &self.merger) {
                (Kind::Unused, _) => {}
                (Kind::Unknown | Kind::Control, _) => {
                    flags |= table::SPECIAL;
                    out.bytes.extend_from_slice(text.as_bytes());
                }
                (Kind::UserDefined, _) => out.bytes.extend_from_slice(text.as_bytes()),
                (Kind::Byte, _) => match table::fallback_byte(&text) {
                    Some(byte) => {
                        flags |= table::BYTE;
                        out.bytes.push(byte);
                    }
                    None => out.bytes.extend_from_slice(text.as_bytes()),
                },
                (Kind::Normal, Merger::Letters { .. }) => {
                    byte_letters::append_bytes(&text, &mut out.bytes);
                }
                (Kind::Normal, Merger::Scores { .. }) => {
                    table::append_spaced(&text, "\u{2581}", &mut out.bytes);
                }
            }
            // A model's letters stand for a byte each; any other token stands for its spelling at most.
            let letters = matches!((kind, &self.merger), (Kind::Normal, Merger::Letters { .. }));
            longest = longest.max(if letters { out.bytes.len() - begin } else { text.len() });
            out.close(flags)?;
        }
        out.most_text = match &self.merger {
            Merger::Letters { model, .. } if !reach::has_all_letters(model) => 0,
            _ => longest,
        };
        Ok(out)
    }
}

fn texts<'a>(raw: &[&'a [u8]], what: &str) -> Result<Vec<&'a str>, Failure> {
    let convert = |(i, bytes): (usize, &&'a [u8])| {
        std::str::from_utf8(bytes)
            .map_err(|_| Failure::corrupt(format!("{what} {i} is not valid UTF-8")))
    };
    raw.iter().enumerate().map(convert).collect()
}

fn kinds(tokens: &[&str], types: &[i32]) -> Result<Vec<Kind>, Failure> {
    if types.is_empty() {
        return Ok(vec![Kind::Normal; tokens.len()]);
    }
    let convert = |(id, number): (usize, &i32)| {
        Ok(match number {
            0 | 1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            other => {
                return Err(Failure::corrupt(format!("token {id} has the unknown type {other}")));
            }
        })
    };
    types.iter().enumerate().map(convert).collect()
}

fn letters_model(vocabulary: &Vocabulary, tokens: &[&str]) -> Result<BPE, Failure> {
    let mut ids = AHashMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if let Some(first) = ids.insert((*token).to_string(), id as u32) {
            return Err(Failure::corrupt(format!("tokens {first} and {id} are both {token:?}")));
        }
    }
    let merges = texts(vocabulary.merges, "merge")?;
    if merges.is_empty() {
        return Err(Failure::corrupt("a byte-level vocabulary without merges"));
    }
    let mut pairs = Vec::with_capacity(merges.len());
    let mut seen = AHashSet::with_capacity(merges.len());
    for (rank, merge) in merges.iter().enumerate() {
        // A token may itself start with a space, so the separator is the first one after position 0.
        let Some(at) = merge.bytes().skip(1).position(|b| b == b' ').map(|at| at + 1) else {
            return Err(Failure::corrupt(format!("merge {rank} ({merge:?}) has no two parts")));
        };
        let (left, right) = (&merge[..at], &merge[at + 1..]);
        if right.is_empty() {
            return Err(Failure::corrupt(format!("merge {rank} ({merge:?}) has no two parts")));
        }
        // The best rank of a pair counts; the model would keep the last.
        if seen.insert(*merge) {
            pairs.push((left.to_string(), right.to_string()));
        }
    }
    BPE::builder()
        .vocab_and_merges(ids, pairs)
        .ignore_merges(vocabulary.ignore_merges)
        .build()
        .map_err(|error| Failure::corrupt(format!("BPE: {error}")))
}

fn scores_model(vocabulary: &Vocabulary, tokens: &[&str]) -> Result<ScoreBpe, Failure> {
    if vocabulary.scores.len() != tokens.len() {
        return Err(Failure::corrupt(format!(
            "{} scores for {} tokens",
            vocabulary.scores.len(),
            tokens.len()
        )));
    }
    if let Some(id) = vocabulary.scores.iter().position(|score| score.is_nan()) {
        return Err(Failure::corrupt(format!("the score of token {id} is not a number")));
    }
    let unknown = vocabulary.unknown_id.filter(|id| (*id as usize) < tokens.len());
    ScoreBpe::new(tokens, vocabulary.scores, unknown)
}
