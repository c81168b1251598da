//! The 256-letter alphabet of byte-level vocabularies: each byte is written as one printable character.
//!
//! Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68, in order, are U+0100 and up.

fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, 33..=126 | 161..=172 | 174..=255)
}

/// The byte a letter stands for, or nothing for any other character.
pub fn byte_of(letter: char) -> Option<u8> {
    let code = letter as u32;
    if let Ok(byte) = u8::try_from(code) {
        return stands_for_itself(byte).then_some(byte);
    }
    // U+0100 + n is the n-th byte that does not stand for itself: 0-32, 127-160, 173.
    match code.checked_sub(0x100)? {
        n @ 0..=32 => Some(n as u8),
        n @ 33..=66 => Some((n - 33 + 127) as u8),
        67 => Some(173),
        _ => None,
    }
}

/// The bytes a token stands for; a token with a character outside the alphabet stands for its own UTF-8.
pub fn append_bytes(token: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for letter in token.chars() {
        match byte_of(letter) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                out.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}
