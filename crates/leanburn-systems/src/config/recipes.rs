//! Configurations that come with the command.

/// A configuration to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Its name, that of its file without `.yaml`.
    pub name: &'static str,
    /// What it is for, in a line.
    pub about: &'static str,
    /// The YAML, with comments.
    pub text: &'static str,
}

/// All recipes, smallest memory first.
pub fn recipes() -> &'static [Recipe] {
    &[
        Recipe {
            name: "mni152-autoencoder",
            about: "a small autoencoder on one public brain scan: minutes on a CPU",
            text: include_str!("../../../../configs/mni152-autoencoder.yaml"),
        },
        Recipe {
            name: "convlstm-advection",
            about: "a forecaster of fields that a flow carries along: minutes on a CPU",
            text: include_str!("../../../../configs/convlstm-advection.yaml"),
        },
        Recipe {
            name: "vqvae",
            about: "a discrete autoencoder and its codebook on synthetic scans: minutes on a CPU",
            text: include_str!("../../../../configs/vqvae.yaml"),
        },
        Recipe {
            name: "radar-vae",
            about: "a small autoencoder of synthetic radar scenes, gradients accumulated: minutes on a CPU",
            text: include_str!("../../../../configs/radar-vae.yaml"),
        },
        Recipe {
            name: "autoencoder-24gb",
            about: "256x256x64 volumes on a 24 GB card: every memory saver on",
            text: include_str!("../../../../configs/autoencoder-24gb.yaml"),
        },
        Recipe {
            name: "autoencoder-32gb",
            about: "256x256x64 volumes on a 32 GB card: wider, with a perceptual loss",
            text: include_str!("../../../../configs/autoencoder-32gb.yaml"),
        },
        Recipe {
            name: "autoencoder-40gb",
            about: "256x256x64 volumes on a card of 40 GB or more: the best quality",
            text: include_str!("../../../../configs/autoencoder-40gb.yaml"),
        },
    ]
}
