//! The extern "C" functions. Each only turns pointers into slices, calls safe code and hands the result out.
//!
//! `guard` catches panics, so none crosses into C++. The structs mirror `ashlar_text.h` field by field; what each
//! function promises is written there.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::failure::{panic_text, Failure, Status};
use crate::pre_tokenizer::Splitter;
use crate::table::Strip;
use crate::template::{ChatTemplate, Input, Time};
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct RawVocabulary {
    tokens: *const Bytes,
    token_count: usize,
    types: *const i32,
    scores: *const f32,
    merges: *const Bytes,
    merge_count: usize,
    model: Bytes,
    pre: Bytes,
    unknown_id: i32,
    ignore_merges: bool,
    add_space_prefix: bool,
}

#[repr(C)]
pub struct RawInput {
    messages: Bytes,
    tools: Bytes,
    bos_token: Bytes,
    eos_token: Bytes,
    variables: Bytes,
    add_generation_prompt: bool,
    now: *const Time,
    output_limit: usize,
}

unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 || data.is_null() {
        &[]
    } else {
        unsafe { std::slice::from_raw_parts(data, count) }
    }
}

impl Bytes {
    unsafe fn get<'a>(self) -> &'a [u8] {
        unsafe { slice(self.data, self.size) }
    }

    unsafe fn text<'a>(self, what: &str) -> Result<&'a str, Failure> {
        std::str::from_utf8(unsafe { self.get() }).map_err(|error| {
            Failure::invalid(format!("{what} is not valid UTF-8 at byte {}", error.valid_up_to()))
        })
    }

    unsafe fn optional_text<'a>(self, what: &str) -> Result<Option<&'a str>, Failure> {
        if self.data.is_null() {
            return Ok(None);
        }
        unsafe { self.text(what) }.map(Some)
    }
}

unsafe fn put(buffer: *mut Buffer, mut bytes: Vec<u8>) {
    let target = unsafe { &mut *buffer };
    target.data = bytes.as_mut_ptr();
    target.size = bytes.len();
    target.capacity = bytes.capacity();
    std::mem::forget(bytes);
}

/// Runs `body`; a failure or a panic becomes a status and a message in `error`.
unsafe fn guard(error: *mut Buffer, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    static SILENCE: Once = Once::new();
    // The message of a panic reaches the caller; a second copy on stderr would only tear a terminal's output.
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            Failure::internal(format!("the text library stopped: {}", panic_text(payload.as_ref())))
        }
    };
    unsafe { put(error, failure.message.into_bytes()) };
    failure.status
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_buffer_free(buffer: *mut Buffer) {
    let target = unsafe { &mut *buffer };
    if target.capacity != 0 {
        drop(unsafe { Vec::from_raw_parts(target.data, target.size, target.capacity) });
    }
    *target = Buffer { data: std::ptr::null_mut(), size: 0, capacity: 0 };
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_tokenizer_from_json(
    json: Bytes,
    out: *mut *mut Tokenizer,
    error: *mut Buffer,
) -> Status {
    unsafe {
        guard(error, || {
            let tokenizer = Tokenizer::from_json(json.get())?;
            *out = Box::into_raw(Box::new(tokenizer));
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_tokenizer_from_vocabulary(
    raw: *const RawVocabulary,
    out: *mut *mut Tokenizer,
    error: *mut Buffer,
) -> Status {
    unsafe {
        guard(error, || {
            let raw = &*raw;
            let tokens: Vec<&[u8]> =
                slice(raw.tokens, raw.token_count).iter().map(|b| b.get()).collect();
            let merges: Vec<&[u8]> =
                slice(raw.merges, raw.merge_count).iter().map(|b| b.get()).collect();
            let types = if raw.types.is_null() { 0 } else { raw.token_count };
            let scores = if raw.scores.is_null() { 0 } else { raw.token_count };
            let tokenizer = Tokenizer::from_vocabulary(&Vocabulary {
                tokens: &tokens,
                types: slice(raw.types, types),
                scores: slice(raw.scores, scores),
                merges: &merges,
                model: raw.model.text("the vocabulary's model name")?,
                pre: raw.pre.text("the pre-tokenizer's name")?,
                unknown_id: u32::try_from(raw.unknown_id).ok(),
                ignore_merges: raw.ignore_merges,
                add_space_prefix: raw.add_space_prefix,
            })?;
            *out = Box::into_raw(Box::new(tokenizer));
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Bytes,
    add_special: bool,
    parse_special: bool,
    ids: *mut Buffer,
    error: *mut Buffer,
) -> Status {
    unsafe {
        guard(error, || {
            let found = (*tokenizer).encode(text.text("the text")?, add_special, parse_special)?;
            put(ids, found.iter().flat_map(|id| id.to_ne_bytes()).collect());
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_tokenizer_token_to_id(
    tokenizer: *const Tokenizer,
    token: Bytes,
) -> i32 {
    let found = catch_unwind(AssertUnwindSafe(|| unsafe {
        let token = std::str::from_utf8(token.get()).ok()?;
        (*tokenizer).token_to_id(token).and_then(|id| i32::try_from(id).ok())
    }));
    found.ok().flatten().unwrap_or(-1)
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_tokenizer_table(
    tokenizer: *const Tokenizer,
    bytes: *mut Buffer,
    offsets: *mut Buffer,
    flags: *mut Buffer,
    strip: *mut Strip,
    most_text: *mut u64,
    error: *mut Buffer,
) -> Status {
    unsafe {
        guard(error, || {
            let table = (*tokenizer).table()?;
            put(bytes, table.bytes);
            put(offsets, table.offsets.iter().flat_map(|o| o.to_ne_bytes()).collect());
            put(flags, table.flags);
            *strip = table.strip;
            *most_text = table.most_text as u64;
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_pre_tokenize(
    name: Bytes,
    text: Bytes,
    ends: *mut Buffer,
    error: *mut Buffer,
) -> Status {
    unsafe {
        guard(error, || {
            let splitter = Splitter::new(name.text("the pre-tokenizer's name")?)?;
            let found = splitter.fragment_ends(text.text("the text")?)?;
            put(ends, found.iter().flat_map(|end| end.to_ne_bytes()).collect());
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_template_compile(
    source: Bytes,
    step_limit: u64,
    out: *mut *mut ChatTemplate,
    error: *mut Buffer,
) -> Status {
    unsafe {
        guard(error, || {
            let compiled = ChatTemplate::compile(source.text("the chat template")?, step_limit)?;
            *out = Box::into_raw(Box::new(compiled));
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_template_free(compiled: *mut ChatTemplate) {
    if !compiled.is_null() {
        drop(unsafe { Box::from_raw(compiled) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn ashlar_template_render(
    compiled: *const ChatTemplate,
    input: *const RawInput,
    text: *mut Buffer,
    error: *mut Buffer,
) -> Status {
    unsafe {
        guard(error, || {
            let raw = &*input;
            let rendered = (*compiled).render(&Input {
                messages: raw.messages.text("the messages")?,
                tools: raw.tools.text("the tools")?,
                bos_token: raw.bos_token.optional_text("the BOS token")?,
                eos_token: raw.eos_token.optional_text("the EOS token")?,
                variables: raw.variables.text("the template variables")?,
                add_generation_prompt: raw.add_generation_prompt,
                now: raw.now.as_ref().copied(),
                output_limit: raw.output_limit,
            })?;
            put(text, rendered);
            Ok(())
        })
    }
}
