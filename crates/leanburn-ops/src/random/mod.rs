//! Random numbers: those of our operations and layers, and those of Burn's in segments.
//!
//! # Ours
//!
//! [`normal`], [`uniform`], [`dropout`](crate::dropout) and the initial weights of `leanburn-nn` are functions of a key and a position
//! ([`leanburn_kernels::random`]). The key is the next number of the stream that is described below, so that it depends on the seed, the
//! segment and the place in it. They are the same on every device, and nothing that another thread draws can change them.
//!
//! What rounds saved tensors ([`Storage::Int8`](crate::Storage)) takes keys of the same stream, counted by themselves.
//!
//! # Burn's random layers
//!
//! A backend has one generator for the whole process that can be seeded but not read. To draw the same numbers when a
//! recomputed segment runs a second time, both runs seed that generator with the segment's seed. Where does that come from?
//!
//! - After [`seed`], from a stream of this thread: a counter under a key. Every segment, kept or recomputed, starts with the next
//!   seed of the stream, so that both residencies draw the same. A segment inside a segment draws from the outer one's stream,
//!   which starts over when the outer one runs again. The trainer calls [`seed`] before each forward pass, and lets go of the stream
//!   behind it ([`scoped`]).
//! - Else from the generator itself, which `Device::seed` has seeded: a recomputed segment draws its seed from it and leaves it
//!   where a number of its own puts it. A kept segment, or one without gradients, leaves it alone.
//!
//! While a recomputed segment runs, no other recomputed segment and no [`seed`] of another thread touches the generator, and no key is drawn
//! from it. Another thread that draws from it with Burn's own functions would change what the segment draws; the second run is held
//! against the first, and panics where it computes something else.

mod stream;
mod values;

pub use leanburn_kernels::random::Distribution;
pub use stream::{derive, next_key, scoped, seed};
pub(crate) use stream::{kept, recomputed, rounding_key};
pub use values::{drawn, normal, uniform};
