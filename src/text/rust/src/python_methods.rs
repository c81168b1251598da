//! What templates may call on Python's values, and the filters and tests of Jinja2 that minijinja answers differently.

use minijinja::value::{from_args, Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use crate::python;
use crate::python_text;

pub fn install(environment: &mut Environment) {
    environment.set_unknown_method_callback(call);
    environment.remove_global("debug"); // minijinja's own
    environment.add_filter("string", python::to_str_value);
    environment.add_filter("int", to_int);
    environment.add_filter("float", to_float);
    environment.add_filter("title", title);
    environment.add_filter("wordcount", word_count);
    environment.add_test("sequence", is_sequence);
    environment
        .add_test("iterable", |value: &Value| value.is_undefined() || value.try_iter().is_ok());
    environment.add_test("number", |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
    });
    environment.add_test("divisibleby", |value: i64, by: i64| {
        value.checked_rem(by).map(|rest| rest == 0).ok_or_else(|| invalid("division by zero"))
    });
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    // A macro may read its surplus arguments. They are refused when given, so there are never any.
    environment.add_global("varargs", Vec::<Value>::new());
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn call(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => python_text::call(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq | ValueKind::Iterable => list_method(value, method, args)?,
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// A sum or a slice of lists is lazy here and a list in Python, so both kinds have a list's methods.
fn list_method(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "index" => {
            let (wanted,): (&Value,) = from_args(args)?;
            match value.try_iter()?.position(|item| item == *wanted) {
                Some(at) => Ok(Some(Value::from(at))),
                None => Err(invalid("the value is not in the list")),
            }
        }
        "count" => {
            let (wanted,): (&Value,) = from_args(args)?;
            let count = value.try_iter()?.filter(|item| item == wanted).count();
            Ok(Some(Value::from(count)))
        }
        "copy" => {
            let () = from_args(args)?;
            Ok(Some(value.clone()))
        }
        _ => Ok(None),
    }
}

/// Whatever has a length and items: also texts and dicts.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::String | ValueKind::Seq | ValueKind::Map => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

/// `int(value, default=0, base=10)`: what does not convert gives the default.
fn to_int(
    value: &Value,
    default: Option<Value>,
    base: Option<u32>,
    named: Kwargs,
) -> Result<Value, Error> {
    let default = match default {
        Some(default) => default,
        None => named.get::<Option<Value>>("default")?.unwrap_or(Value::from(0)),
    };
    let base = base.or(named.get("base")?).unwrap_or(10);
    named.assert_all_used()?;
    if !(2..=36).contains(&base) {
        return Err(invalid("a base outside 2 to 36"));
    }
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.clone(),
        ValueKind::Number => truncated(f64::try_from(value.clone())?).unwrap_or(default),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim_matches(python_text::is_space);
            let digits = text.replace('_', "");
            match i128::from_str_radix(digits.strip_prefix('+').unwrap_or(&digits), base) {
                Ok(number) => Value::from(number),
                Err(_) => parse_float(text).and_then(truncated).unwrap_or(default),
            }
        }
        _ => default,
    })
}

fn truncated(number: f64) -> Option<Value> {
    // Beyond this an i128 would saturate.
    (number.abs() < 1e38).then(|| Value::from(number as i128))
}

fn parse_float(text: &str) -> Option<f64> {
    text.trim_matches(python_text::is_space).parse().ok()
}

/// `float(value, default=0.0)`.
fn to_float(value: &Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = match default {
        Some(default) => default,
        None => named.get::<Option<Value>>("default")?.unwrap_or(Value::from(0.0)),
    };
    named.assert_all_used()?;
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => Value::from(f64::try_from(value.clone())?),
        ValueKind::String => {
            parse_float(value.as_str().unwrap_or_default()).map_or(default, Value::from)
        }
        _ => default,
    })
}

/// Unlike str.title, the filter starts words only after spaces, hyphens and opening brackets.
fn title(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    let mut starts = true;
    for c in python::to_str(value)?.chars() {
        if starts {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        starts = python_text::is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    }
    Ok(out)
}

fn word_count(value: &Value) -> Result<usize, Error> {
    let text = python::to_str(value)?;
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    Ok(words.filter(|word| !word.is_empty()).count())
}
