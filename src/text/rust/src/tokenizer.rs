//! A tokenizer of either origin behind one face: a tokenizer.json or a GGUF vocabulary.

use std::panic::{catch_unwind, AssertUnwindSafe};

use serde::Deserialize;
use tokenizers::{AddedVocabulary, Encoding, Model, OffsetType, PostProcessor, PreTokenizer};

use crate::failure::{panic_text, Failure};
use crate::reach;
use crate::table::{self, Decoding, Table};
use crate::vocabulary::{Vocabulary, VocabularyTokenizer};

pub enum Tokenizer {
    Json(Box<JsonTokenizer>),
    Vocabulary(Box<VocabularyTokenizer>),
}

pub struct JsonTokenizer {
    inner: tokenizers::Tokenizer,
    // The same added tokens, with special ones left as text: the crate keeps that choice as state of a tokenizer,
    // and ours is shared between threads.
    plain: AddedVocabulary,
    decoding: Decoding,
}

impl Tokenizer {
    pub fn from_json(json: &[u8]) -> Result<Self, Failure> {
        let mut inner = blame_file(|| tokenizers::Tokenizer::from_bytes(json))?;
        check_added_ids(json, &inner)?;
        // A stored truncation or padding belongs to training; a prompt is neither cut nor filled.
        inner
            .with_truncation(None)
            .map_err(|error| Failure::internal(format!("tokenizer.json: {error}")))?;
        inner.with_padding(None);
        let mut plain = inner.get_added_vocabulary().clone();
        plain.set_encode_special_tokens(true);
        let decoding = Decoding::of(inner.get_decoder())?;
        if let Some(processor) = inner.get_post_processor() {
            // One that names tokens it does not have would fail at every text.
            blame_file(|| processor.process(Encoding::default(), None, true))?;
        }
        Ok(Self::Json(Box::new(JsonTokenizer { inner, plain, decoding })))
    }

    pub fn from_vocabulary(vocabulary: &Vocabulary) -> Result<Self, Failure> {
        Ok(Self::Vocabulary(Box::new(VocabularyTokenizer::new(vocabulary)?)))
    }

    pub fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, Failure> {
        match self {
            Self::Json(tokenizer) => {
                blame_file(|| tokenizer.encode(text, add_special, parse_special))
            }
            Self::Vocabulary(tokenizer) => tokenizer.encode(text, parse_special),
        }
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            Self::Json(tokenizer) => tokenizer.inner.token_to_id(token),
            Self::Vocabulary(tokenizer) => tokenizer.token_to_id(token),
        }
    }

    pub fn table(&self) -> Result<Table, Failure> {
        match self {
            Self::Json(tokenizer) => tokenizer.table(),
            Self::Vocabulary(tokenizer) => tokenizer.table(),
        }
    }
}

/// Runs code of the crate on a file's behalf. It panics at some files that it cannot read or use, and that is a fault
/// of the file as any other.
fn blame_file<T>(body: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_err(|error| Failure::corrupt(format!("tokenizer.json: {error}"))),
        Err(payload) => {
            Err(Failure::corrupt(format!("tokenizer.json: {}", panic_text(payload.as_ref()))))
        }
    }
}

impl JsonTokenizer {
    fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> tokenizers::Result<Vec<u32>> {
        let added = if parse_special { self.inner.get_added_vocabulary() } else { &self.plain };
        let mut fragments = added.extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut fragments)?;
        }
        let model = self.inner.get_model();
        fragments.tokenize(|fragment| model.tokenize(fragment.get()))?;
        let encoding = fragments.into_encoding(None, 0, OffsetType::None)?;
        let encoding = match self.inner.get_post_processor() {
            Some(processor) if add_special => processor.process(encoding, None, true)?,
            _ => encoding,
        };
        Ok(encoding.get_ids().to_vec())
    }

    fn table(&self) -> Result<Table, Failure> {
        let vocabulary = self.inner.get_vocab(true);
        let ids = vocabulary.values().max().map_or(0, |id| *id as usize + 1);
        // Ids are array indices from here on, so a file must not name one far beyond its tokens.
        if ids > 2 * vocabulary.len() + 65536 {
            return Err(Failure::corrupt(format!(
                "tokenizer.json: id {} in a vocabulary of {} tokens",
                ids - 1,
                vocabulary.len()
            )));
        }
        let added = self.inner.get_added_vocabulary();
        let mut table = Table::new(ids, self.decoding.strip());
        let reach = reach::of_json(&self.inner);
        let letters =
            reach.as_ref().is_some_and(|reach| reach.letters) && self.decoding == Decoding::Letters;
        let mut longest = reach::LONGEST_CHARACTER;
        for id in 0..ids as u32 {
            let mut flags = 0;
            if let Some(token) = self.inner.id_to_token(id) {
                let begin = table.bytes.len();
                flags = table::PRESENT | self.decoding.append(&token, &mut table.bytes);
                // A model's letters stand for a byte each; any other token stands for its spelling at most.
                let of_model = !added.get_added_tokens_decoder().contains_key(&id);
                longest = longest.max(if letters && of_model {
                    table.bytes.len() - begin
                } else {
                    token.len()
                });
                if added.is_special_token(&token) {
                    flags |= table::SPECIAL;
                }
            }
            table.close(flags)?;
        }
        table.most_text = reach.map_or(0, |reach| reach.factor * longest);
        Ok(table)
    }
}

#[derive(Deserialize)]
struct StatedAdded {
    #[serde(default)]
    added_tokens: Vec<StatedToken>,
}

#[derive(Deserialize)]
struct StatedToken {
    id: u32,
    content: String,
}

/// The crate numbers added tokens anew where the file's ids have gaps, and only logs that. Such ids would be wrong.
fn check_added_ids(json: &[u8], tokenizer: &tokenizers::Tokenizer) -> Result<(), Failure> {
    let stated: StatedAdded = serde_json::from_slice(json)
        .map_err(|error| Failure::corrupt(format!("tokenizer.json: {error}")))?;
    for token in stated.added_tokens {
        let id = tokenizer.token_to_id(&token.content);
        if id != Some(token.id) {
            return Err(Failure::corrupt(format!(
                "tokenizer.json: the added token {:?} states id {}, which does not follow the vocabulary",
                token.content, token.id
            )));
        }
    }
    Ok(())
}
