//! Errors with the codes of spec/protocol.md, section 7.

use prost::Message;
use std::fmt;

/// The kind of an error: a stable code of spec/protocol.md, section 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// RLX1002: the run was cancelled.
    Cancelled,
    /// RLX1003: a step produced a NaN in a run with check_nan.
    FoundNaN,
    /// RLX3001: a value that the op does not allow, such as an index out of range, or sizes that the program does not
    /// allow.
    BadInput,
    /// RLX5111: a kernel panicked.
    Panicked,
    /// RLX5115: the request violates the protocol.
    Refused,
    /// RLX6001: there is no such device.
    Unavailable,
    /// RLX6002: the device failed.
    Device,
    /// RLX6003: the program needs a level of the processor that this machine lacks.
    Level,
    /// RLX6004: the device is lost.
    DeviceLost,
    /// RLX7001: an op, element type, size or precision that the backend does not support.
    Unsupported,
    /// RLX8001: there is not enough memory.
    OutOfMemory,
    /// RLX9001: a bug in the backend.
    Bug,
}

impl Code {
    /// The code as text, such as `RLX3001`.
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The code and the gRPC status for generic tools.
    fn row(self) -> (&'static str, tonic::Code) {
        match self {
            Code::Cancelled => ("RLX1002", tonic::Code::Cancelled),
            Code::FoundNaN => ("RLX1003", tonic::Code::Internal),
            Code::BadInput => ("RLX3001", tonic::Code::InvalidArgument),
            Code::Panicked => ("RLX5111", tonic::Code::Internal),
            Code::Refused => ("RLX5115", tonic::Code::FailedPrecondition),
            Code::Unavailable => ("RLX6001", tonic::Code::Internal),
            Code::Device => ("RLX6002", tonic::Code::Internal),
            Code::Level => ("RLX6003", tonic::Code::Internal),
            Code::DeviceLost => ("RLX6004", tonic::Code::Internal),
            Code::Unsupported => ("RLX7001", tonic::Code::Unimplemented),
            Code::OutOfMemory => ("RLX8001", tonic::Code::ResourceExhausted),
            Code::Bug => ("RLX9001", tonic::Code::Internal),
        }
    }
}

/// An error for the user. The message is in lower case and says what was found and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: Code,
    subject: String,
    message: String,
    hint: String,
    step: usize, // from 1; 0: none
    op: String,
    result: usize,
}

impl Error {
    /// An error with a message that says what was found and what is allowed.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let (subject, hint, op) = Default::default();
        Error { code, subject, message: message.into(), hint, step: 0, op, result: 0 }
    }

    /// A value that the op does not allow, such as an index out of range.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Error::new(Code::BadInput, message)
    }

    /// The device failed.
    pub fn device(message: impl Into<String>) -> Self {
        Error::new(Code::Device, message)
    }

    /// An op, element type, size or precision that the backend does not support.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(Code::Unsupported, message)
    }

    /// There is not enough memory.
    pub fn out_of_memory(message: impl Into<String>) -> Self {
        Error::new(Code::OutOfMemory, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Error::new(Code::Refused, message)
    }

    pub(crate) fn bug(message: impl Into<String>) -> Self {
        Error::new(Code::Bug, message)
    }

    /// Sets what the error is about. The text then begins with it.
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }

    /// Sets a hint how to fix it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Sets where in the step of a loop it occurred. A cancelled run has no such place.
    pub(crate) fn within(mut self, place: impl fmt::Display) -> Self {
        if self.code != Code::Cancelled {
            self.message = format!("{place}: {}", self.message);
        }
        self
    }

    /// The kind of the error.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Sets the step, counted from 1, its op, and the index of the result that the error is about.
    pub(crate) fn at(mut self, step: usize, op: &str, result: usize) -> Self {
        (self.step, self.op, self.result) = (step, op.into(), result);
        self
    }

    /// The step at which the run failed, counted from 1, and its op.
    #[cfg(test)]
    pub(crate) fn step(&self) -> (usize, &str) {
        (self.step, &self.op)
    }

    fn wire(&self) -> RpcStatus {
        let detail = crate::proto::rlx::Error {
            code: self.code.as_str().into(),
            subject: clip(&self.subject).into(),
            message: clip(&self.message).into(),
            hint: clip(&self.hint).into(),
            step: self.step as i32,
            op: self.op.clone(),
            result: self.result as i32,
        };
        let any = Any { type_url: "type.googleapis.com/rlx.v1.Error".into(), value: detail.encode_to_vec() };
        RpcStatus { code: self.code.row().1 as i32, message: clip(&self.message).into(), details: vec![any] }
    }

    /// The google.rpc.Status with the detail that hosts read.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        self.wire().encode_to_vec()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        write!(f, "{}", self.message)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        write!(f, " ({})", self.code.as_str())
    }
}

impl std::error::Error for Error {}

impl From<Error> for tonic::Status {
    fn from(e: Error) -> Self {
        tonic::Status::with_details(e.code.row().1, clip(&e.message), e.encoded().into())
    }
}

/// Truncates to 2 KiB, the most that hosts accept.
fn clip(s: &str) -> &str {
    let end = (0..=s.len().min(2000)).rfind(|end| s.is_char_boundary(*end));
    &s[..end.unwrap_or(0)]
}

/// google.rpc.Status.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// google.protobuf.Any.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Why a backend cannot be set up or served. Its Debug form is the text for users, so that `main` may return it.
#[non_exhaustive]
pub enum SetupError {
    /// A rule cannot be parsed. Has the op, the rule and the reason.
    Rule(String, String, String),
    /// A name, version or list of the backend violates the protocol.
    Description(String),
    /// No host started the process, or the host has another protocol version.
    NotStarted(String),
    /// A descriptor or variable from the host is invalid, or the connection failed.
    Session(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Rule(op, rule, why) => write!(f, "run {op}{rule}: {why}"),
            SetupError::Description(s) | SetupError::NotStarted(s) | SetupError::Session(s) => f.write_str(s),
        }
    }
}

impl fmt::Debug for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SetupError {}
