//! Values as Python prints them: `str()` for template output, `json.dumps` for `tojson`.
//!
//! Templates are written against Jinja2, so the bytes of a prompt depend on Python's choices: single quotes in a
//! printed list, "1e+20" for a float, ", " between JSON items. Values from JSON have no tuples and no NaN from input.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Where json.dumps puts what; `indent` None is the one-line form.
pub struct JsonStyle {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

// Deeper values would exhaust the stack; Python has a similar limit.
const MAX_DEPTH: usize = 500;

/// str(value)
pub fn to_str(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) => out.push_str(text),
        None => write_repr(value, &mut out, 0)?,
    }
    Ok(out)
}

/// The `string` filter.
pub fn to_str_value(value: &Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => to_str(value).map(Value::from),
    }
}

fn write_repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Number => write_number(value, out, ["inf", "-inf", "nan"]),
        // A lazy sequence prints like the list it stands for.
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_repr(&item, out, depth + 1)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_repr(&key, out, depth + 1)?;
                out.push_str(": ");
                write_repr(&value.get_item(&key)?, out, depth + 1)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push(quote);
}

/// Close to str.isprintable: everything but separators other than the space, controls and the usual format marks.
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
            | '\u{f0000}'..='\u{10ffff}'))
}

/// `special` is how infinity, minus infinity and not-a-number are written.
fn write_number(value: &Value, out: &mut String, special: [&str; 3]) {
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => {
            if number.is_nan() {
                out.push_str(special[2]);
            } else if number.is_infinite() {
                out.push_str(special[usize::from(number < 0.0)]);
            } else {
                out.push_str(&float_repr(number));
            }
        }
        _ => out.push_str(&value.to_string()),
    }
}

/// repr of a finite float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16.
pub fn float_repr(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// json.dumps(value)
pub fn to_json(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut out = String::new();
    write_json(value, style, &mut out, 0)?;
    Ok(out)
}

fn write_json(
    value: &Value,
    style: &JsonStyle,
    out: &mut String,
    depth: usize,
) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(value, out, ["Infinity", "-Infinity", "NaN"]),
        ValueKind::String => write_json_text(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut count = 0;
            for item in value.try_iter()? {
                separate(style, out, depth, count);
                write_json(&item, style, out, depth + 1)?;
                count += 1;
            }
            finish(style, out, depth, count);
            out.push(']');
        }
        ValueKind::Map => write_json_map(value, style, out, depth)?,
        other => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("a value of type {other} has no JSON form"),
            ));
        }
    }
    Ok(())
}

fn write_json_map(
    value: &Value,
    style: &JsonStyle,
    out: &mut String,
    depth: usize,
) -> Result<(), Error> {
    let mut keys: Vec<Value> = value.try_iter()?.collect();
    if style.sort_keys {
        keys.sort();
    }
    out.push('{');
    for (count, key) in keys.iter().enumerate() {
        separate(style, out, depth, count);
        match key.kind() {
            ValueKind::String => write_json_text(key.as_str().unwrap_or_default(), style, out),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                out.push('"');
                write_json(key, style, out, depth + 1)?;
                out.push('"');
            }
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("a key of type {other} has no JSON form"),
                ));
            }
        }
        out.push_str(&style.key_separator);
        write_json(&value.get_item(key)?, style, out, depth + 1)?;
    }
    finish(style, out, depth, keys.len());
    out.push('}');
    Ok(())
}

fn separate(style: &JsonStyle, out: &mut String, depth: usize, count: usize) {
    if count > 0 {
        out.push_str(&style.item_separator);
    }
    new_line(style, out, depth + 1);
}

fn finish(style: &JsonStyle, out: &mut String, depth: usize, count: usize) {
    if count > 0 {
        new_line(style, out, depth);
    }
}

fn new_line(style: &JsonStyle, out: &mut String, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..depth {
            out.push_str(indent);
        }
    }
}

fn write_json_text(text: &str, style: &JsonStyle, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (style.ensure_ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply"))
}
