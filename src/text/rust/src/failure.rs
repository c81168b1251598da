//! The one error type: a status code of `ashlar_text.h` and a message.

use std::any::Any;

#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    InvalidArgument = 1,
    Corrupt = 2,
    Unsupported = 3,
    ResourceExhausted = 4,
    Internal = 5,
}

#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { status: Status::InvalidArgument, message: message.into() }
    }

    pub fn corrupt(message: impl Into<String>) -> Self {
        Self { status: Status::Corrupt, message: message.into() }
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { status: Status::Unsupported, message: message.into() }
    }

    pub fn exhausted(message: impl Into<String>) -> Self {
        Self { status: Status::ResourceExhausted, message: message.into() }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self { status: Status::Internal, message: message.into() }
    }
}

/// What a panic said.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
