//! The operations: public function, what is saved for backward, and the computations it is made of.
//!
//! An operation takes autodiff off its inputs ([`operation::apply`]), runs its computations on plain tensors
//! ([`engine::run`](crate::engine::run)), and says what it saves for backward and how its gradients are computed
//! ([`operation::Operation`]).

pub(crate) mod attention3d;
pub(crate) mod bev_pool;
pub(crate) mod check;
pub(crate) mod conv3d;
pub(crate) mod conv_transpose3d;
pub(crate) mod dropout;
pub(crate) mod gather_planes;
pub(crate) mod geglu;
mod given_gradient;
pub(crate) mod layer_norm3d;
pub(crate) mod max_pool3d;
pub(crate) mod norm_act;
mod operation;
pub(crate) mod rank_sum;
pub(crate) mod resample3d;
pub(crate) mod spectral_conv;
pub(crate) mod upsample_conv3d;
pub(crate) mod window_attention3d;

pub(crate) use given_gradient::given_gradient;
