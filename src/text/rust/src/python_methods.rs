//! Methods of Python's str, dict and list that templates call.
//!
//! Most come from the crate's `pycompat`; the ones here are those it lacks or answers differently from Python.

use minijinja::value::{from_args, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

pub fn call(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => text_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq => list_method(value, method, args)?,
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn text_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            parts(text.split_once(separator), separator, [text, "", ""])
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            parts(text.rsplit_once(separator), separator, ["", "", text])
        }
        "rsplit" => rsplit(text, args)?,
        "find" => position(text, args, |text, what| text.find(what))?,
        "rfind" => position(text, args, |text, what| text.rfind(what))?,
        "index" => {
            let found = position(text, args, |text, what| text.find(what))?;
            if found == Value::from(-1) {
                return Err(Error::new(ErrorKind::InvalidOperation, "substring not found"));
            }
            found
        }
        "swapcase" => Value::from(
            text.chars()
                .flat_map(|c| -> Vec<char> {
                    if c.is_uppercase() {
                        c.to_lowercase().collect()
                    } else {
                        c.to_uppercase().collect()
                    }
                })
                .collect::<String>(),
        ),
        "casefold" => Value::from(text.to_lowercase()),
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let fill = padding(text, width, '0')?;
            let (sign, digits) = match text.as_bytes().first() {
                Some(b'+' | b'-') => text.split_at(1),
                _ => ("", text),
            };
            Value::from(format!("{sign}{fill}{digits}"))
        }
        "ljust" | "rjust" | "center" => {
            let (width, fill): (usize, Option<char>) = from_args(args)?;
            let fill = padding(text, width, fill.unwrap_or(' '))?;
            Value::from(match method {
                "ljust" => format!("{text}{fill}"),
                "rjust" => format!("{fill}{text}"),
                _ => centred(text, &fill, width),
            })
        }
        _ => return Ok(None),
    }))
}

fn list_method(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    if method != "index" {
        return Ok(None);
    }
    let (wanted,): (&Value,) = from_args(args)?;
    match value.try_iter()?.position(|item| item == *wanted) {
        Some(at) => Ok(Some(Value::from(at))),
        None => Err(Error::new(ErrorKind::InvalidOperation, "the value is not in the list")),
    }
}

fn parts(found: Option<(&str, &str)>, separator: &str, absent: [&str; 3]) -> Value {
    match found {
        Some((before, after)) => [before, separator, after].into_iter().collect(),
        None => absent.into_iter().collect(),
    }
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit): (Option<&str>, Option<i64>) = from_args(args)?;
    let limit = limit.and_then(|n| usize::try_from(n).ok());
    let mut found: Vec<&str> = Vec::new();
    match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) => match limit {
            Some(limit) => found.extend(text.rsplitn(limit.saturating_add(1), separator)),
            None => found.extend(text.rsplit(separator)),
        },
        None => {
            let mut rest = text.trim_end();
            while !rest.is_empty() && limit.is_none_or(|limit| found.len() < limit) {
                let start = rest.rfind(char::is_whitespace);
                let word = start.map_or(rest, |at| rest[at..].trim_start());
                found.push(word);
                rest = rest[..rest.len() - word.len()].trim_end();
            }
            if !rest.is_empty() {
                found.push(rest);
            }
        }
    }
    found.reverse();
    Ok(found.into_iter().collect())
}

/// Positions in Python count code points.
fn position(
    text: &str,
    args: &[Value],
    search: impl Fn(&str, &str) -> Option<usize>,
) -> Result<Value, Error> {
    let (what, start): (&str, Option<usize>) = from_args(args)?;
    let skipped = start.unwrap_or(0);
    let Some(offset) = text
        .char_indices()
        .map(|(at, _)| at)
        .chain(std::iter::once(text.len()))
        .nth(skipped)
    else {
        return Ok(Value::from(-1));
    };
    let found = search(&text[offset..], what);
    Ok(found.map_or(Value::from(-1), |at| {
        Value::from(skipped + text[offset..offset + at].chars().count())
    }))
}

const MAX_WIDTH: usize = 100_000;

fn padding(text: &str, width: usize, fill: char) -> Result<String, Error> {
    if width > MAX_WIDTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "the width is too large"));
    }
    Ok(std::iter::repeat_n(fill, width.saturating_sub(text.chars().count())).collect())
}

fn centred(text: &str, fill: &str, width: usize) -> String {
    let count = fill.chars().count();
    let left = count / 2 + (count & width & 1);
    let split = fill.char_indices().nth(left).map_or(fill.len(), |(at, _)| at);
    format!("{}{text}{}", &fill[..split], &fill[split..])
}
