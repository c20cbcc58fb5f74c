//! How a kernel is launched, in builds that have kernels and in builds that have none.

/// Launches an operation of the kernels; tensors go in and come out as Burn's dispatch has them.
macro_rules! launch {
    ($operation:ident($($argument:expr),* $(,)?)) => {{
        #[cfg(feature = "cube")]
        {
            let output =
                <burn::backend::Dispatch as $crate::cube::kernels::CubeOps>::$operation($($argument),*);
            $crate::probe::sample();
            output
        }
        #[cfg(not(feature = "cube"))]
        {
            $(let _ = $argument;)*
            $crate::cube::launch::nowhere()
        }
    }};
}
pub(super) use launch;

/// What is launched in a build that has no CubeCL device.
#[cfg(not(feature = "cube"))]
pub(super) fn nowhere<T>() -> T {
    unreachable!("there is no CubeCL device in this build")
}
