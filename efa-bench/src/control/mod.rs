//! The control connection: TCP beside the fabric, over which the two sides agree on what they run.
//!
//! Fabrics do not tell when a peer dies, TCP does. Every wait here has a deadline and looks at [`Stop`]
//! within 50 ms; the end of the connection means that the peer died. A listener drops strangers with
//! one line each and goes on listening.
//!
//! Nothing on this connection is encrypted or authenticated: it is for hosts that trust each other, as
//! the fabric beside it is.

mod channel;
mod connect;
mod error;
mod frame;
mod listen;
mod message;
mod stop;
mod wait;

pub use channel::Control;
pub use connect::{Target, connect, loopback_note};
pub use error::ControlError;
pub use frame::{FRAME_LIMIT, FrameDecoder, FrameTooLong, encode};
pub use listen::Listener;
pub use message::{Accept, Counts, Hello, Message, Mismatch, PROTOCOL, Refusal};
pub use stop::Stop;
