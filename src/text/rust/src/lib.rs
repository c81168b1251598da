//! Tokenizers and chat templates behind the C interface of `ashlar_text.h`.
//!
//! This crate is glue: `tokenizers` encodes, `minijinja` renders, and what lies between them and the reference
//! behaviour (GGUF vocabularies, Python's formatting) is here. It decides nothing about models, keeps no global state
//! besides the silenced panic hook, and prints nothing.

mod abi;
mod byte_letters;
mod confined;
mod failure;
mod pre_tokenizer;
mod python;
mod python_methods;
mod python_text;
mod reach;
mod score_bpe;
mod source;
mod special;
mod table;
mod template;
mod tokenizer;
mod vocabulary;
