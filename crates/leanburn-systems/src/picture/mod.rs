//! Pictures for people: volumes and fields beside what a model makes of them, as pixels.

mod canvas;
mod classes;
mod comparison;
mod error;
mod fields;
mod planes;
mod png;
mod scene;
mod seen;
mod side_by_side;

pub use classes::classes;
pub use comparison::comparison;
pub use error::PictureError;
pub use fields::fields;
pub use png::encode_png;
pub use scene::scene;
pub use seen::seen;
pub use side_by_side::side_by_side;

pub(crate) use canvas::range_of;
