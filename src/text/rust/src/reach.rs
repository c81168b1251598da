//! The most bytes of a text that one token can stand for, so that a text which cannot fit a context is refused unread.
//!
//! A bound exists only where every byte of a text ends in some token. There is none (0) where text may vanish: a
//! pre-tokenizer that removes, a model that skips what it does not know or fuses it into one token, an added token
//! that swallows the blanks beside it, and every part that is not listed here.

use serde_json::Value;
use tokenizers::models::bpe::BPE;
use tokenizers::{Model, ModelWrapper, Tokenizer};

use crate::byte_letters;

pub const LONGEST_CHARACTER: usize = 4;
// Composition makes at most 3 decomposed characters one of 2 bytes or 4 one of 3, and each of them was written with at
// most 4 bytes.
const NFC: usize = 6;

/// What tokens of a tokenizer.json may stand for.
pub struct Reach {
    pub letters: bool, // the model sees byte letters: its tokens stand for one byte a letter, before the factor
    pub factor: usize, // bytes of a text that a byte of a token may stand for
}

/// Nothing: there is no bound.
pub fn of_json(tokenizer: &Tokenizer) -> Option<Reach> {
    let parts = [
        serde_json::to_value(tokenizer.get_normalizer()).ok()?,
        serde_json::to_value(tokenizer.get_pre_tokenizer()).ok()?,
        serde_json::to_value(tokenizer.get_post_processor()).ok()?,
    ];
    let ModelWrapper::BPE(model) = tokenizer.get_model() else { return None };
    let letters = has_type(&parts[0], "ByteLevel") || has_type(&parts[1], "ByteLevel");
    let factor = normalizer_factor(&parts[0])? * model_factor(model, letters)?;
    let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    let swallows = added.values().any(|token| token.lstrip || token.rstrip);
    (keeps_text(&parts[1]) && keeps_sequence(&parts[2]) && !swallows)
        .then_some(Reach { letters, factor })
}

/// Whether a model of byte letters knows all of them; without one, its byte would vanish.
pub fn has_all_letters(model: &BPE) -> bool {
    let letters = (0..0x144u32).filter_map(char::from_u32);
    letters
        .filter(|letter| byte_letters::byte_of(*letter).is_some())
        .all(|letter| model.token_to_id(letter.encode_utf8(&mut [0; 4])).is_some())
}

fn type_of(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or("")
}

fn members<'a>(part: &'a Value, name: &str) -> &'a [Value] {
    part.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has_type(part: &Value, name: &str) -> bool {
    let nested = members(part, "normalizers").iter().chain(members(part, "pretokenizers"));
    type_of(part) == name || nested.into_iter().any(|inner| has_type(inner, name))
}

/// How many times its own bytes a normalised text may have had before.
fn normalizer_factor(part: &Value) -> Option<usize> {
    match type_of(part) {
        _ if part.is_null() => Some(1),
        "Sequence" => members(part, "normalizers")
            .iter()
            .try_fold(1, |factor, inner| Some(factor * normalizer_factor(inner)?)),
        "ByteLevel" | "Prepend" => Some(1),
        "NFC" => Some(NFC),
        "Replace" => {
            let pattern = part.get("pattern")?.get("String")?.as_str()?;
            let content = part.get("content")?.as_str()?;
            (pattern.len() <= content.len()).then_some(1)
        }
        _ => None,
    }
}

fn keeps_text(pre_tokenizer: &Value) -> bool {
    match type_of(pre_tokenizer) {
        _ if pre_tokenizer.is_null() => true,
        "Sequence" => members(pre_tokenizer, "pretokenizers").iter().all(keeps_text),
        "ByteLevel" | "Metaspace" | "Digits" => true,
        "Split" | "Punctuation" => {
            pre_tokenizer.get("behavior").is_some_and(|behavior| behavior != "Removed")
        }
        _ => false,
    }
}

/// Whether the tokens of the text are among those of the result.
fn keeps_sequence(processor: &Value) -> bool {
    match type_of(processor) {
        _ if processor.is_null() => true,
        "Sequence" => members(processor, "processors").iter().all(keeps_sequence),
        "ByteLevel" | "BertProcessing" | "RobertaProcessing" => true,
        "TemplateProcessing" => members(processor, "single").iter().any(|piece| {
            piece.get("Sequence").and_then(|sequence| sequence.get("id")) == Some(&"A".into())
        }),
        _ => false,
    }
}

/// How many bytes a byte of a token's spelling may stand for.
fn model_factor(model: &BPE, letters: bool) -> Option<usize> {
    if model.continuing_subword_prefix.is_some() || model.end_of_word_suffix.is_some() {
        return None;
    }
    let known = |token: &String| model.token_to_id(token).is_some();
    if letters {
        return has_all_letters(model).then_some(1);
    }
    if model.byte_fallback && (0..=255u8).all(|byte| known(&format!("<0x{byte:02X}>"))) {
        return Some(1);
    }
    // An unknown token stands for one character, and may be merged with its neighbours.
    let one_each = !model.fuse_unk && model.unk_token.as_ref().is_some_and(known);
    one_each.then_some(LONGEST_CHARACTER)
}
