//! Charts that several systems have.

use crate::evaluation::{Curves, L1};

/// The loss between reconstruction and input, in training and in validation.
pub(crate) const RECONSTRUCTION: Curves = Curves {
    title: "Reconstruction",
    y_label: "loss",
    log_y: true,
    train: &[("training", "reconstruction")],
    validation: &["reconstruction", L1],
};

/// How well occupied voxels are met.
pub(crate) const OCCUPANCY: Curves =
    Curves { title: "Occupancy", y_label: "intersection over union", log_y: false, train: &[], validation: &["iou"] };

/// How far occupied voxels are from each other.
pub(crate) const DISTANCE: Curves =
    Curves { title: "Distance", y_label: "voxels", log_y: false, train: &[], validation: &["chamfer_voxels"] };

/// How much of a codebook is used.
pub(crate) const CODEBOOK: Curves =
    Curves { title: "Codebook", y_label: "share of codes used", log_y: false, train: &[], validation: &["codes_used"] };

/// How far the latent is from the codebook.
pub(crate) const COMMITMENT: Curves = loss("Commitment", "loss", &[("training", "commitment")]);

/// The perceptual loss.
pub(crate) const PERCEPTUAL: Curves = loss("Perceptual", "loss", &[("training", "perceptual")]);

/// How far the latent's distribution is from a normal one.
pub(crate) const DIVERGENCE: Curves = loss("Kullback-Leibler divergence", "nats", &[("training", "kl")]);

/// A part of the training loss that no validation metric goes with, on a logarithmic scale.
const fn loss(title: &'static str, y_label: &'static str, train: &'static [(&'static str, &'static str)]) -> Curves {
    Curves { title, y_label, log_y: true, train, validation: &[] }
}
