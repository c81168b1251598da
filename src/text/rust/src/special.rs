//! Cuts tokens that stand outside the merges (control and user-defined ones) out of a text.
//!
//! At each place the longest token wins, from left to right. llama.cpp instead takes the longest token of the whole
//! text first; the two differ only where two such tokens overlap without one containing the other, and no vocabulary
//! seen so far has such a pair apart from runs of one character, where both give the same cut.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::failure::Failure;

pub enum Piece<'a> {
    Text(&'a str),
    Token(u32),
}

pub struct Cutter {
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
}

impl Cutter {
    pub fn new(tokens: Vec<(&str, u32)>) -> Result<Self, Failure> {
        let automaton = if tokens.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(tokens.iter().map(|(text, _)| text));
            Some(built.map_err(|error| Failure::corrupt(format!("special tokens: {error}")))?)
        };
        Ok(Self { automaton, ids: tokens.iter().map(|(_, id)| *id).collect() })
    }

    /// Calls `each` for the pieces of a text in order; text pieces are never empty.
    pub fn cut<'a>(
        &self,
        text: &'a str,
        mut each: impl FnMut(Piece<'a>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rest = 0;
        if let Some(automaton) = &self.automaton {
            for found in automaton.find_iter(text) {
                if found.start() > rest {
                    each(Piece::Text(&text[rest..found.start()]))?;
                }
                each(Piece::Token(self.ids[found.pattern().as_usize()]))?;
                rest = found.end();
            }
        }
        if rest < text.len() {
            each(Piece::Text(&text[rest..]))?;
        }
        Ok(())
    }
}
