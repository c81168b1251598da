//! Python's str methods where the crate's `pycompat` lacks them or answers differently.

use minijinja::value::{from_args, Value};
use minijinja::{Error, ErrorKind};

/// The method's result, or nothing if it is not one of these.
pub fn call(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (set,): (Option<&str>,) = from_args(args)?;
            strip(text, set, method)
        }
        "split" => split(text, args)?,
        "rsplit" => rsplit(text, args)?,
        "splitlines" => {
            let (keep_ends,): (Option<bool>,) = from_args(args)?;
            split_lines(text, keep_ends.unwrap_or(false))
        }
        "title" => {
            let () = from_args(args)?;
            Value::from(title(text))
        }
        "islower" => Value::from(is_cased(text, char::is_lowercase, char::is_uppercase)),
        "isupper" => Value::from(is_cased(text, char::is_uppercase, char::is_lowercase)),
        "isspace" => Value::from(all(text, is_space)),
        "isdigit" | "isnumeric" | "isdecimal" => Value::from(all(text, char::is_numeric)),
        "isalnum" => Value::from(all(text, char::is_alphanumeric)),
        "isalpha" => Value::from(all(text, char::is_alphabetic)),
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
        "find" => position(text, args, |text, what| text.find(what))?,
        "rfind" => position(text, args, |text, what| text.rfind(what))?,
        "index" => match position(text, args, |text, what| text.find(what))? {
            found if found == Value::from(-1) => return Err(invalid("substring not found")),
            found => found,
        },
        "count" => {
            let (what,): (&str,) = from_args(args)?;
            Value::from(match what {
                "" => text.chars().count() + 1,
                what => text.matches(what).count(),
            })
        }
        "swapcase" => Value::from(swap_case(text)),
        "casefold" => Value::from(text.to_lowercase()),
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let fill = padding(text, width, '0')?;
            let sign = usize::from(text.starts_with(['+', '-']));
            Value::from(format!("{}{fill}{}", &text[..sign], &text[sign..]))
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

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// str.isspace: also the four separators that Unicode does not call white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn all(text: &str, test: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(test)
}

fn is_cased(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}

fn strip(text: &str, set: Option<&str>, method: &str) -> Value {
    let strips = |c: char| set.map_or_else(|| is_space(c), |set| set.contains(c));
    Value::from(match method {
        "strip" => text.trim_matches(strips),
        "lstrip" => text.trim_start_matches(strips),
        _ => text.trim_end_matches(strips),
    })
}

fn split(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit): (Option<&str>, Option<i64>) = from_args(args)?;
    let limit = limit.and_then(|n| usize::try_from(n).ok());
    let mut found: Vec<&str> = Vec::new();
    match separator {
        Some("") => return Err(invalid("empty separator")),
        Some(separator) => match limit {
            Some(limit) => found.extend(text.splitn(limit.saturating_add(1), separator)),
            None => found.extend(text.split(separator)),
        },
        None => {
            let mut rest = text.trim_start_matches(is_space);
            while !rest.is_empty() && limit.is_none_or(|limit| found.len() < limit) {
                let end = rest.find(is_space).unwrap_or(rest.len());
                found.push(&rest[..end]);
                rest = rest[end..].trim_start_matches(is_space);
            }
            if !rest.is_empty() {
                found.push(rest);
            }
        }
    }
    Ok(found.into_iter().collect())
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit): (Option<&str>, Option<i64>) = from_args(args)?;
    let limit = limit.and_then(|n| usize::try_from(n).ok());
    let mut found: Vec<&str> = Vec::new();
    match separator {
        Some("") => return Err(invalid("empty separator")),
        Some(separator) => match limit {
            Some(limit) => found.extend(text.rsplitn(limit.saturating_add(1), separator)),
            None => found.extend(text.rsplit(separator)),
        },
        None => {
            let mut rest = text.trim_end_matches(is_space);
            while !rest.is_empty() && limit.is_none_or(|limit| found.len() < limit) {
                let start = rest.rfind(is_space);
                let word = start.map_or(rest, |at| rest[at..].trim_start_matches(is_space));
                found.push(word);
                rest = rest[..rest.len() - word.len()].trim_end_matches(is_space);
            }
            if !rest.is_empty() {
                found.push(rest);
            }
        }
    }
    found.reverse();
    Ok(found.into_iter().collect())
}

fn split_lines(text: &str, keep_ends: bool) -> Value {
    let ends = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut found: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        let size = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        found.push(&rest[..if keep_ends { at + size } else { at }]);
        rest = &rest[at + size..];
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found.into_iter().collect()
}

/// str.title: a letter after anything that has no case is upper case.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_cased = false;
    for c in text.chars() {
        match (after_cased, c) {
            (true, c) => out.extend(c.to_lowercase()),
            // The title case of these letters is neither of their other cases.
            (false, 'Ǆ' | 'ǅ' | 'ǆ') => out.push('ǅ'),
            (false, 'Ǉ' | 'ǈ' | 'ǉ') => out.push('ǈ'),
            (false, 'Ǌ' | 'ǋ' | 'ǌ') => out.push('ǋ'),
            (false, 'Ǳ' | 'ǲ' | 'ǳ') => out.push('ǲ'),
            (false, 'ß') => out.push_str("Ss"),
            (false, c) => out.extend(c.to_uppercase()),
        }
        after_cased = c.is_lowercase() || c.is_uppercase() || matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ');
    }
    out
}

fn swap_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
    }
    out
}

fn parts(found: Option<(&str, &str)>, separator: &str, absent: [&str; 3]) -> Value {
    match found {
        Some((before, after)) => [before, separator, after].into_iter().collect(),
        None => absent.into_iter().collect(),
    }
}

/// Positions in Python count code points.
fn position(
    text: &str,
    args: &[Value],
    search: impl Fn(&str, &str) -> Option<usize>,
) -> Result<Value, Error> {
    let (what, start): (&str, Option<usize>) = from_args(args)?;
    let skipped = start.unwrap_or(0);
    let mut starts = text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    let Some(offset) = starts.nth(skipped) else {
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
        return Err(invalid("the width is too large"));
    }
    Ok(std::iter::repeat_n(fill, width.saturating_sub(text.chars().count())).collect())
}

fn centred(text: &str, fill: &str, width: usize) -> String {
    let count = fill.chars().count();
    let left = count / 2 + (count & width & 1);
    let split = fill.char_indices().nth(left).map_or(fill.len(), |(at, _)| at);
    format!("{}{text}{}", &fill[..split], &fill[split..])
}
