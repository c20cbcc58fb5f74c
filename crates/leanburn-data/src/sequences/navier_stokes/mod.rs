//! Vorticity of two-dimensional periodic flows, computed from the Navier-Stokes equations, so that every resolution has the same truth.

mod config;
mod flow;
mod solver;

pub use config::NavierStokesConfig;
pub use flow::NavierStokes;
