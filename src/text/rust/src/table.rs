//! What every id decodes to, as one run of bytes with offsets: the whole of decoding, computed once.
//!
//! This holds for decoders that map each token by itself (byte letters; U+2581 to space with byte fallback) plus a
//! rule for the very start of the text. A tokenizer.json whose decoder is of another kind is refused by name.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;

use crate::byte_letters;
use crate::failure::Failure;

pub const PRESENT: u8 = 1;
pub const SPECIAL: u8 = 2;
pub const BYTE: u8 = 4;

#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strip {
    None = 0,
    OneSpace = 1,
    TokenSpaces = 2,
}

pub struct Table {
    pub bytes: Vec<u8>,
    pub offsets: Vec<u32>,
    pub flags: Vec<u8>,
    pub strip: Strip,
    pub most_text: usize, // bytes of text that one token can stand for, see reach.rs; 0: no bound
}

impl Table {
    pub fn new(ids: usize, strip: Strip) -> Self {
        let mut offsets = Vec::with_capacity(ids + 1);
        offsets.push(0);
        Self { bytes: Vec::new(), offsets, flags: Vec::with_capacity(ids), strip, most_text: 0 }
    }

    /// Ends the token whose bytes were appended to `bytes` since the last call.
    pub fn close(&mut self, flags: u8) -> Result<(), Failure> {
        let end = u32::try_from(self.bytes.len())
            .map_err(|_| Failure::corrupt("the vocabulary's text exceeds 4 GiB"))?;
        self.offsets.push(end);
        self.flags.push(flags);
        Ok(())
    }
}

/// The byte of a byte-fallback token, "<0x0A>".
pub fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|d| d.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

pub fn append_spaced(token: &str, space: &str, bytes: &mut Vec<u8>) {
    for (i, part) in token.split(space).enumerate() {
        if i > 0 {
            bytes.push(b' ');
        }
        bytes.extend_from_slice(part.as_bytes());
    }
}

/// How a tokenizer.json turns one token into bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoding {
    Letters,
    Spaced { space: String, byte_fallback: bool, strip: Strip },
}

impl Decoding {
    pub fn of(decoder: Option<&DecoderWrapper>) -> Result<Self, Failure> {
        match decoder {
            // Without one the reference puts spaces between tokens, which no language model wants.
            None => Err(Failure::unsupported("tokenizer.json: a tokenizer without a decoder")),
            Some(DecoderWrapper::ByteLevel(_)) => Ok(Self::Letters),
            Some(DecoderWrapper::Metaspace(metaspace)) => Ok(Self::Spaced {
                space: metaspace.get_replacement().to_string(),
                byte_fallback: false,
                strip: match metaspace.get_prepend_scheme() {
                    PrependScheme::Never => Strip::None,
                    _ => Strip::TokenSpaces,
                },
            }),
            Some(DecoderWrapper::Sequence(sequence)) => Self::of_sequence(sequence.get_decoders()),
            Some(other) => Err(refused(other)),
        }
    }

    fn of_sequence(decoders: &[DecoderWrapper]) -> Result<Self, Failure> {
        if let [only] = decoders {
            return Self::of(Some(only));
        }
        let (mut space, mut byte_fallback, mut strip) = (None, false, Strip::None);
        for decoder in decoders {
            match decoder {
                DecoderWrapper::Replace(replace) if space.is_none() && !byte_fallback => {
                    space = Some(replaced_by_space(replace).ok_or_else(|| refused(decoder))?);
                }
                DecoderWrapper::ByteFallback(_) => byte_fallback = true,
                DecoderWrapper::Fuse(_) => {}
                DecoderWrapper::Strip(s) if s.content == ' ' && s.start == 1 && s.stop == 0 => {
                    strip = Strip::OneSpace;
                }
                DecoderWrapper::Strip(s) if s.start == 0 && s.stop == 0 => {}
                other => return Err(refused(other)),
            }
        }
        let space = space.ok_or_else(|| {
            Failure::unsupported("tokenizer.json: a decoder sequence without a replaced space")
        })?;
        Ok(Self::Spaced { space, byte_fallback, strip })
    }

    pub fn strip(&self) -> Strip {
        match self {
            Self::Spaced { strip, .. } => *strip,
            Self::Letters => Strip::None,
        }
    }

    /// Appends the bytes of a token; returns the flags this adds.
    pub fn append(&self, token: &str, bytes: &mut Vec<u8>) -> u8 {
        match self {
            Self::Letters => byte_letters::append_bytes(token, bytes),
            Self::Spaced { space, byte_fallback, .. } => {
                if let Some(byte) = fallback_byte(token).filter(|_| *byte_fallback) {
                    bytes.push(byte);
                    return BYTE;
                }
                append_spaced(token, space, bytes);
            }
        }
        0
    }
}

/// The text that a Replace decoder turns into a space, if that is what it does.
fn replaced_by_space(replace: &tokenizers::normalizers::Replace) -> Option<String> {
    if replace.content != " " {
        return None;
    }
    // The pattern is private; its serialised form is public.
    let json = serde_json::to_value(replace).ok()?;
    let pattern = json.get("pattern")?.get("String")?.as_str()?;
    (!pattern.is_empty()).then(|| pattern.to_string())
}

fn refused(decoder: &DecoderWrapper) -> Failure {
    let name = serde_json::to_value(decoder)
        .ok()
        .and_then(|json| json.get("type").and_then(|t| t.as_str()).map(str::to_string))
        .unwrap_or_else(|| "of an unknown type".to_string());
    Failure::unsupported(format!("tokenizer.json: decoder {name} is not supported"))
}
