//! SentencePiece-style BPE over a vocabulary with scores.
//!
//! A text starts as its characters; again and again the adjacent pair whose concatenation is the token of the highest
//! score is merged, the leftmost on ties; a character that is no token becomes its byte tokens. This is the merge list
//! of all in-vocabulary splits ordered by the merged token's score, without the list: for 262,144 tokens that would
//! hold over half a million pairs and take most of a second to build. Every split of a token has the token's own
//! score, so ties need no rank either.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ahash::RandomState;
use hashbrown::HashTable;

use crate::failure::Failure;

pub struct ScoreBpe {
    text: String,   // all tokens, one after the other
    ends: Vec<u32>, // where token i ends in `text`
    scores: Vec<f32>,
    table: HashTable<u32>, // id by text
    hasher: RandomState,
    bytes: [Option<u32>; 256],
    unknown_id: Option<u32>,
}

struct Symbol {
    start: usize,
    size: usize, // 0: merged into its left neighbour
    previous: usize,
    next: usize,
}

const NONE: usize = usize::MAX;

struct Pair {
    score: f32,
    left: usize,
    right: usize,
    size: usize, // of both together when the pair was found; a stale pair differs
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl ScoreBpe {
    /// The tokens must be distinct; `vocabulary.rs` has refused what they may not be.
    pub fn new(tokens: &[&str], scores: &[f32], unknown_id: Option<u32>) -> Result<Self, Failure> {
        let mut model = Self {
            text: String::with_capacity(tokens.iter().map(|t| t.len()).sum()),
            ends: Vec::with_capacity(tokens.len()),
            // Adding zero turns -0.0 into 0.0, which total_cmp would tell apart.
            scores: scores.iter().map(|score| score + 0.0).collect(),
            table: HashTable::with_capacity(tokens.len()),
            hasher: RandomState::with_seeds(1, 2, 3, 4),
            bytes: [None; 256],
            unknown_id,
        };
        for (id, token) in tokens.iter().enumerate() {
            model.text.push_str(token);
            let end = u32::try_from(model.text.len())
                .map_err(|_| Failure::corrupt("the vocabulary's text exceeds 4 GiB"))?;
            model.ends.push(end);
            model.insert(id as u32, token)?;
        }
        for byte in 0..=255u8 {
            model.bytes[byte as usize] =
                model.id_of(&format!("<0x{byte:02X}>")).or_else(|| match byte {
                    0..=127 => model.id_of((byte as char).encode_utf8(&mut [0; 4])),
                    _ => None,
                });
            if model.bytes[byte as usize].is_none() && unknown_id.is_none() {
                return Err(Failure::corrupt(format!(
                    "the vocabulary has neither a token for byte 0x{byte:02X} nor an unknown token"
                )));
            }
        }
        Ok(model)
    }

    fn insert(&mut self, id: u32, token: &str) -> Result<(), Failure> {
        let Self { text, ends, table, hasher, .. } = self;
        let slot = table.entry(
            hasher.hash_one(token),
            |other| token_text(text, ends, *other) == token,
            |other| hasher.hash_one(token_text(text, ends, *other)),
        );
        match slot {
            hashbrown::hash_table::Entry::Occupied(first) => {
                Err(Failure::corrupt(format!("tokens {} and {id} are both {token:?}", first.get())))
            }
            hashbrown::hash_table::Entry::Vacant(slot) => {
                slot.insert(id);
                Ok(())
            }
        }
    }

    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.table
            .find(self.hasher.hash_one(token), |id| {
                token_text(&self.text, &self.ends, *id) == token
            })
            .copied()
    }

    pub fn text_of(&self, id: u32) -> &str {
        token_text(&self.text, &self.ends, id)
    }

    pub fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut symbols = characters(text);
        let mut pairs = BinaryHeap::new();
        for right in 1..symbols.len() {
            self.offer(text, &symbols, right - 1, right, &mut pairs);
        }
        while let Some(pair) = pairs.pop() {
            let (left, right) = (&symbols[pair.left], &symbols[pair.right]);
            if left.size == 0 || right.size == 0 || left.size + right.size != pair.size {
                continue;
            }
            let next = right.next;
            symbols[pair.left].size = pair.size;
            symbols[pair.left].next = next;
            symbols[pair.right].size = 0;
            if next != NONE {
                symbols[next].previous = pair.left;
                self.offer(text, &symbols, pair.left, next, &mut pairs);
            }
            let previous = symbols[pair.left].previous;
            if previous != NONE {
                self.offer(text, &symbols, previous, pair.left, &mut pairs);
            }
        }
        for symbol in symbols.iter().filter(|symbol| symbol.size != 0) {
            self.emit(&text[symbol.start..symbol.start + symbol.size], out);
        }
    }

    fn offer(
        &self,
        text: &str,
        symbols: &[Symbol],
        left: usize,
        right: usize,
        pairs: &mut BinaryHeap<Pair>,
    ) {
        let start = symbols[left].start;
        let size = symbols[left].size + symbols[right].size;
        if let Some(id) = self.id_of(&text[start..start + size]) {
            pairs.push(Pair { score: self.scores[id as usize], left, right, size });
        }
    }

    fn emit(&self, piece: &str, out: &mut Vec<u32>) {
        if let Some(id) = self.id_of(piece) {
            out.push(id);
            return;
        }
        let bytes: Option<Vec<u32>> = piece.bytes().map(|byte| self.bytes[byte as usize]).collect();
        match bytes {
            Some(ids) => out.extend(ids),
            None => out.extend(self.unknown_id),
        }
    }
}

fn token_text<'a>(text: &'a str, ends: &[u32], id: u32) -> &'a str {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &text[start..ends[id] as usize]
}

fn characters(text: &str) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = text
        .char_indices()
        .enumerate()
        .map(|(i, (start, c))| Symbol {
            start,
            size: c.len_utf8(),
            previous: i.wrapping_sub(1),
            next: i + 1,
        })
        .collect();
    if let Some(last) = symbols.last_mut() {
        last.next = NONE;
    }
    symbols
}
