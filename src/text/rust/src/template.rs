//! Chat templates: Jinja as transformers sets it up, run by minijinja.
//!
//! Blocks are trimmed on both sides, loops may break, `raise_exception`, `strftime_now` and Python's string and dict
//! methods exist, and output is formatted as Python would (`python.rs`). A rendering has a limit of steps, of output
//! bytes, of memory and of time (`confined.rs`). Not offered: loading other templates, HTML escaping.
//!
//! Known differences from Jinja2: a tuple is a list (it prints with brackets); `~` and `join` write the texts inside a
//! list in double quotes; `%` formats only a literal (`source.rs`); a macro refuses surplus arguments.

use std::ffi::{c_char, c_int, c_long, CString};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};
use serde_json::{Map, Value as Json};

use crate::confined::{self, Limits};
use crate::failure::{Failure, Status};
use crate::python::{self, JsonStyle};
use crate::python_methods;
use crate::source;

pub struct Input<'a> {
    pub messages: &'a str,
    pub tools: &'a str,
    pub bos_token: Option<&'a str>,
    pub eos_token: Option<&'a str>,
    pub variables: &'a str,
    pub add_generation_prompt: bool,
    pub now: Option<Time>,
    pub output_limit: usize,
}

pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
}

/// C's `struct tm`, copied: a thread that ran out of time may look at it later than the caller keeps his.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Time {
    fields: [c_int; 9],
    offset: c_long,
    zone: *const c_char, // a text that the C library keeps
}

// The zone's name lives as long as the process.
unsafe impl Send for Time {}
unsafe impl Sync for Time {}

const NAME: &str = "chat_template";

// minijinja walks expressions and values recursively, as deep as a template's size and steps allow. The stack holds the
// deepest of them; only what is touched takes memory.
const LIMITS: Limits =
    Limits { stack_bytes: 256 << 20, heap_bytes: 512 << 20, time: Duration::from_secs(30) };
const MAX_SOURCE_BYTES: usize = 1 << 20;
// Of one tag, texts not counted: a chain of operators that long nests that deep.
const MAX_TAG_BYTES: usize = 16 << 10;

impl ChatTemplate {
    pub fn compile(source: &str, step_limit: u64) -> Result<Self, Failure> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Failure::invalid(format!("a chat template of {} bytes", source.len())));
        }
        let source = source::adapt(source, MAX_TAG_BYTES)?;
        confined::run(&LIMITS, move || Self::compile_adapted(source, step_limit)).map_err(named)
    }

    fn compile_adapted(source: String, step_limit: u64) -> Result<Self, Failure> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(step_limit));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_formatter(format_value);
        python_methods::install(&mut environment);
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", raise_exception);
        environment.add_template_owned(NAME, source).map_err(describe)?;
        Ok(Self { environment: Arc::new(environment) })
    }

    pub fn render(&self, input: &Input) -> Result<Vec<u8>, Failure> {
        let context = context(input)?;
        let output_limit = input.output_limit;
        let environment = self.environment.clone();
        confined::run(&LIMITS, move || render_context(&environment, context, output_limit))
            .map_err(named)
    }
}

fn render_context(
    environment: &Environment,
    context: Value,
    output_limit: usize,
) -> Result<Vec<u8>, Failure> {
    let template = environment.get_template(NAME).map_err(describe)?;
    let mut output = Limited { bytes: Vec::new(), limit: output_limit, reached: false };
    let rendered = template.render_captured_to(context, &mut output);
    if output.reached {
        return Err(Failure::exhausted(format!("an output of more than {output_limit} bytes")));
    }
    rendered.map_err(describe)?;
    Ok(output.bytes)
}

/// Failures of the surroundings do not know that it was a template.
fn named(failure: Failure) -> Failure {
    match failure.status {
        Status::ResourceExhausted if !failure.message.starts_with("chat template") => {
            Failure::exhausted(format!("the chat template needs {}", failure.message))
        }
        _ => failure,
    }
}

/// All that a template sees. `variables` come last: they may replace any of the others.
fn context(input: &Input) -> Result<Value, Failure> {
    let mut root = Map::new();
    root.insert("messages".into(), messages(input.messages)?);
    root.insert("tools".into(), parse(input.tools, "tools", Json::Null)?);
    root.insert("documents".into(), Json::Null);
    root.insert("add_generation_prompt".into(), Json::Bool(input.add_generation_prompt));
    for (name, token) in [("bos_token", input.bos_token), ("eos_token", input.eos_token)] {
        if let Some(token) = token {
            root.insert(name.into(), token.into());
        }
    }
    match parse(input.variables, "template variables", Json::Object(Map::new()))? {
        Json::Object(variables) => root.extend(variables),
        _ => return Err(Failure::invalid("the template variables are not a JSON object")),
    }
    let now = input.now;
    let clock = Value::from_function(move |format: String| strftime(now, format));
    let mut values: Vec<(Value, Value)> = vec![("strftime_now".into(), clock)];
    values.extend(
        root.into_iter().map(|(key, value)| (Value::from(key), Value::from_serialize(value))),
    );
    Ok(values.into_iter().collect())
}

fn parse(json: &str, what: &str, absent: Json) -> Result<Json, Failure> {
    if json.is_empty() {
        return Ok(absent);
    }
    serde_json::from_str(json).map_err(|error| Failure::invalid(format!("the {what}: {error}")))
}

/// Messages as the reference hands them on: keys with null are left out, and reasoning text is found under both of
/// its common names whichever one the caller used.
fn messages(json: &str) -> Result<Json, Failure> {
    let Json::Array(mut messages) = parse(json, "messages", Json::Null)? else {
        return Err(Failure::invalid("the messages are not a JSON array"));
    };
    for (i, message) in messages.iter_mut().enumerate() {
        let Json::Object(fields) = message else {
            return Err(Failure::invalid(format!("message {i} is not a JSON object")));
        };
        fields.retain(|_, value| !value.is_null());
        let names = ["reasoning_content", "thinking", "reasoning"];
        if let Some(text) = names.iter().find_map(|name| fields.get(*name)).cloned() {
            if !fields.contains_key("thinking") {
                let rest = std::mem::take(fields);
                fields.insert("thinking".into(), text.clone());
                fields.extend(rest);
            }
            fields.insert("reasoning_content".into(), text);
        }
    }
    Ok(Json::Array(messages))
}

fn format_value(out: &mut Output, _: &State, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => out.write_str(&python::to_str(value)?),
    };
    written.map_err(Error::from)
}

fn raise_exception(message: Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, python::to_str(&message)?))
}

fn tojson(
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    separators: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let pick = |given: Option<Value>, name: &str| -> Result<Value, Error> {
        let value = match given {
            Some(value) => value,
            None => named.get::<Option<Value>>(name)?.unwrap_or(Value::from(())),
        };
        Ok(value)
    };
    let indent = json_indent(&pick(indent, "indent")?)?;
    let separators = pick(separators, "separators")?;
    let mut style = JsonStyle {
        ensure_ascii: pick(ensure_ascii, "ensure_ascii")?.is_true(),
        item_separator: if indent.is_some() { "," } else { ", " }.to_string(),
        key_separator: ": ".to_string(),
        indent,
        sort_keys: pick(None, "sort_keys")?.is_true(),
    };
    named.assert_all_used()?;
    if !separators.is_none() {
        let pair: Vec<Value> = separators.try_iter()?.collect();
        let [item, key] = &pair[..] else {
            return Err(Error::new(ErrorKind::InvalidOperation, "separators are not a pair"));
        };
        style.item_separator = python::to_str(item)?;
        style.key_separator = python::to_str(key)?;
    }
    python::to_json(value, &style).map(Value::from)
}

/// None for the one-line form; a number of spaces or the text itself otherwise.
fn json_indent(indent: &Value) -> Result<Option<String>, Error> {
    match indent.kind() {
        ValueKind::None | ValueKind::Undefined => Ok(None),
        ValueKind::String => Ok(indent.as_str().map(str::to_string)),
        ValueKind::Bool => Ok(Some(" ".repeat(usize::from(indent.is_true())))),
        _ => Ok(Some(" ".repeat(i64::try_from(indent.clone())?.clamp(0, 1000) as usize))),
    }
}

extern "C" {
    #[link_name = "strftime"]
    fn c_strftime(out: *mut c_char, max: usize, format: *const c_char, tm: *const Time) -> usize;
}

fn strftime(now: Option<Time>, format: String) -> Result<String, Error> {
    let Some(now) = now else {
        return Err(Error::new(ErrorKind::InvalidOperation, "strftime_now: no time was given"));
    };
    if format.is_empty() {
        return Ok(format);
    }
    let format = CString::new(format)
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, "strftime_now: NUL in the format"))?;
    let mut text = vec![0u8; 256 + 64 * format.as_bytes().len()];
    // Text that does not fit gives a size of 0.
    let size = unsafe { c_strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &now) };
    text.truncate(size);
    String::from_utf8(text)
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, "strftime_now: not UTF-8"))
}

/// A writer that stops at a limit.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
    reached: bool,
}

impl Write for Limited {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if data.len() > self.limit - self.bytes.len() {
            self.reached = true;
            return Err(std::io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// "chat template, line 3: message"; what raise_exception was given stands at the end unchanged.
fn describe(error: Error) -> Failure {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    let place = error.line().map_or(String::new(), |line| format!(", line {line}"));
    let mut message = format!("chat template{place}: {detail}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => Failure::exhausted(format!("{message} (too many steps)")),
        _ => Failure::invalid(message),
    }
}
