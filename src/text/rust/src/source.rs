//! Template source as minijinja must see it.
//!
//! Three things that Jinja2, or transformers' extension of it, accepts and minijinja does not: any line ending (all
//! become "\n"), `{% generation %}` blocks (they only mark text for training; a `with` block keeps scope, line and
//! trims alike), and `%` after a string literal (it becomes the `format` filter). Lines keep their numbers. A `%`
//! after anything but a literal is left alone and fails when it meets a string.

use crate::failure::Failure;

/// Error: a tag with more than `max_code` bytes beside its texts.
pub fn adapt(source: &str, max_code: usize) -> Result<String, Failure> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + 64);
    let mut rest = source.as_str();
    while let Some(at) = next_opening(rest) {
        let (before, tagged) = rest.split_at(at);
        out.push_str(before);
        let opening = &tagged[..2];
        let body = &tagged[2..];
        let size = match opening {
            "{#" => body.find("#}"),
            "{{" => code_size(body, "}}"),
            _ => code_size(body, "%}"),
        };
        let Some(size) = size else {
            // No end: what follows is for minijinja to refuse, if it is short enough to be looked at.
            check_size(body, source.len() - rest.len(), &source, max_code)?;
            out.push_str(tagged);
            return Ok(out);
        };
        out.push_str(opening);
        let code = &body[..size];
        if opening != "{#" {
            check_size(code, source.len() - rest.len(), &source, max_code)?;
        }
        let mut used = size + 2;
        match (opening, tag_name(code)) {
            ("{#", _) => out.push_str(code),
            ("{%", "raw") => {
                used = raw_size(body, used);
                out.push_str(code);
                out.push_str(&body[size..used]);
                rest = &body[used..];
                continue;
            }
            ("{%", "generation") => out.push_str(&code.replacen("generation", "with", 1)),
            ("{%", "endgeneration") => out.push_str(&code.replacen("endgeneration", "endwith", 1)),
            _ => rewrite_percent(code, &mut out),
        }
        out.push_str(&body[size..used]);
        rest = &body[used..];
    }
    out.push_str(rest);
    Ok(out)
}

fn check_size(code: &str, start: usize, source: &str, max_code: usize) -> Result<(), Failure> {
    let bytes = code.as_bytes();
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        if matches!(bytes[at], b'\'' | b'"') {
            at = literal_end(bytes, at).unwrap_or(bytes.len());
        } else {
            at += 1;
        }
        count += 1;
    }
    if count <= max_code {
        return Ok(());
    }
    let line = 1 + source[..start].bytes().filter(|b| *b == b'\n').count();
    Err(Failure::invalid(format!("chat template, line {line}: a tag of {count} bytes")))
}

fn next_opening(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let opens = |pair: &[u8]| pair[0] == b'{' && matches!(pair[1], b'{' | b'%' | b'#');
    bytes.windows(2).position(opens)
}

fn tag_name(code: &str) -> &str {
    let code = code.trim_start_matches(['-', '+']).trim_start();
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
    &code[..end]
}

/// Up to and with the `endraw` tag; all of the text if there is none.
fn raw_size(body: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(found) = body[at..].find("{%") {
        let tag = at + found + 2;
        let Some(end) = body[tag..].find("%}") else { break };
        if tag_name(&body[tag..tag + end]) == "endraw" {
            return tag + end + 2;
        }
        at = tag;
    }
    body.len()
}

/// Where a string literal that starts at `start` ends (after its quote).
fn literal_end(code: &[u8], start: usize) -> Option<usize> {
    let quote = code[start];
    let mut at = start + 1;
    while at < code.len() {
        match code[at] {
            b'\\' => at += 1,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The size of the code before its closing mark, which does not count inside literals and brackets.
fn code_size(code: &str, closing: &str) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while at < bytes.len() {
        if depth == 0 && bytes[at..].starts_with(closing.as_bytes()) {
            return Some(at);
        }
        match bytes[at] {
            b'\'' | b'"' => {
                at = literal_end(bytes, at)?;
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// `'text' % value` and `'text' % (a, b)` become `('text'|format(...))`.
fn rewrite_percent(code: &str, out: &mut String) {
    let bytes = code.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        if !matches!(bytes[at], b'\'' | b'"') {
            at += 1;
            continue;
        }
        let Some(end) = literal_end(bytes, at) else { break };
        let percent = skip_spaces(bytes, end);
        if bytes.get(percent) != Some(&b'%') {
            at = end;
            continue;
        }
        let operand = skip_spaces(bytes, percent + 1);
        let Some(stop) = operand_end(code, operand) else {
            at = end;
            continue;
        };
        out.push_str(&code[copied..at]);
        out.push('(');
        out.push_str(&code[at..end]);
        out.push_str("|format");
        let whole = &code[operand..stop];
        if bytes[operand] == b'(' && code_size(&whole[1..], ")") == Some(whole.len() - 2) {
            out.push_str(whole);
        } else {
            out.push('(');
            out.push_str(whole);
            out.push(')');
        }
        out.push(')');
        copied = stop;
        at = stop;
    }
    out.push_str(&code[copied..]);
}

fn skip_spaces(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at].is_ascii_whitespace() {
        at += 1;
    }
    at
}

/// The end of one operand: a name, number, literal or bracket with the attributes, items and calls behind it.
fn operand_end(code: &str, start: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut at = match bytes.get(start)? {
        b'\'' | b'"' => literal_end(bytes, start)?,
        b'(' => bracket_end(code, start, ")")?,
        b'[' => bracket_end(code, start, "]")?,
        c if c.is_ascii_alphanumeric() || *c == b'_' => word_end(bytes, start),
        _ => return None,
    };
    loop {
        match bytes.get(at) {
            Some(b'.') => at = word_end(bytes, at + 1),
            Some(b'(') => at = bracket_end(code, at, ")")?,
            Some(b'[') => at = bracket_end(code, at, "]")?,
            _ => return Some(at),
        }
    }
}

fn bracket_end(code: &str, start: usize, closing: &str) -> Option<usize> {
    code_size(&code[start + 1..], closing).map(|size| start + 1 + size + 1)
}

fn word_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
        at += 1;
    }
    at
}
