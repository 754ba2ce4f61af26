//! A backend of RLX in Rust: write kernels, call [`serve`].
//!
//! ```no_run
//! use rlx_backend::{Backend, Device, DeviceType, SetupError, serve};
//!
//! fn main() -> Result<(), SetupError> {
//!     let mut backend = Backend::new("mine", "1.0").device(Device::new("0", "My device", DeviceType::Npu));
//!     backend.kernel("neg", "(f32)", |_attrs, [x], [mut out]| {
//!         for (y, x) in out.slice::<f32>()?.iter_mut().zip(x.slice::<f32>()?) {
//!             *y = -x;
//!         }
//!         Ok(())
//!     })?;
//!     serve(backend)
//! }
//! ```
//!
//! `rlxrun plugins test ./rlx-backend-mine` runs the conformance suite on it. This crate implements spec/protocol.md.
//! spec/ops.md defines the ops, and spec/target.md the language of the rules.

mod backend;
mod dims;
mod error;
mod grpc;
mod memory;
mod msgpack;
mod program;
mod rules;
mod run;
mod serve;
mod service;
mod steps;
mod tls;
mod view;

/// The protocol's messages and services. tests/generated.rs makes these files.
#[allow(missing_docs, clippy::all)]
mod proto {
    #[rustfmt::skip]
    pub mod plugin;
    #[rustfmt::skip]
    #[path = "rlx.v1.rs"]
    pub mod rlx;
}

pub use backend::{Backend, Device, DeviceType};
pub use error::{Code, Error, SetupError};
pub use program::{Attr, Attrs};
pub use serve::serve;
pub use view::{DType, Element, View, ViewMut};
