//! `with_` methods of sections, so that a configuration is written in one expression.

/// One method `with_key(value)` for each named field.
macro_rules! with_methods {
    ($type:ty { $($method:ident => $($field:ident).+: $value:ty,)* }) => {
        impl $type {
            $(
                #[doc = concat!("The same with another `", stringify!($($field).+), "`.")]
                #[must_use]
                pub fn $method(mut self, value: $value) -> Self {
                    self.$($field).+ = value;
                    self
                }
            )*
        }
    };
}

pub(crate) use with_methods;
