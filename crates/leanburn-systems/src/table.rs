//! The systems that there are, one line each.

use serde::{Serialize, Serializer};

use crate::any_system::AnySystem;
use crate::autoencoder::AutoencoderSection;
use crate::bev::BevSection;
use crate::diffusion::DiffusionSection;
use crate::forecaster::ForecasterSection;
use crate::operator::OperatorSection;
use crate::recipe::Recipe;
use crate::segmentation::SegmentationSection;
use crate::shared::Source;
use crate::super_resolution::SuperResolutionSection;
use crate::system::{FlatKey, ModelChange, NamedSize, System, TrainedOn};
use crate::vae3d::Vae3dSection;
use crate::vq_vae::VqVaeSection;
use crate::yaml::Section;

/// Makes the enum of the sections and everything that depends on which systems there are.
macro_rules! systems {
    ($($(#[$doc:meta])* $name:ident($section:ty),)+) => {
        /// The system that is trained; in YAML a section of its own name.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a configuration has one")]
        #[non_exhaustive]
        pub enum SystemSection {
            $($(#[$doc])* $name($section),)+
        }

        /// What is known of each system without a configuration of it.
        pub(crate) const SYSTEMS: &[Entry] = &[$(Entry {
            name: <$section as System>::NAME,
            source: <$section as System>::SOURCE,
            flat_keys: <$section as System>::FLAT_KEYS,
            recipes: <$section as System>::RECIPES,
            guide: <$section as System>::GUIDE,
            read: |section, on| SystemSection::$name(<$section as System>::read(section, on)),
        },)+];

        /// The names of the sections.
        pub(crate) const NAMES: &[&str] = &[$(<$section as System>::NAME,)+];

        impl SystemSection {
            pub(crate) fn any(&self) -> &dyn AnySystem {
                match self {
                    $(Self::$name(section) => section,)+
                }
            }

            /// The changes of the model that save memory, each alone.
            pub(crate) fn smaller(&self) -> Vec<ModelChange<Self>> {
                match self {
                    $(Self::$name(section) => section.smaller().into_iter().map(ModelChange::into).collect(),)+
                }
            }

            /// The sizes of the model that have names.
            pub(crate) fn sizes(&self) -> Vec<NamedSize<Self>> {
                match self {
                    $(Self::$name(section) => section.sizes().into_iter().map(NamedSize::into).collect(),)+
                }
            }

            pub(crate) fn any_mut(&mut self) -> &mut dyn AnySystem {
                match self {
                    $(Self::$name(section) => section,)+
                }
            }
        }

        impl Serialize for SystemSection {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$name(section) => {
                        serializer.serialize_newtype_variant("SystemSection", 0, <$section as System>::NAME, section)
                    })+
                }
            }
        }

        $(impl From<$section> for SystemSection {
            fn from(section: $section) -> Self {
                Self::$name(section)
            }
        })+
    };
}

systems! {
    /// MONAI's KL autoencoder.
    Autoencoder(AutoencoderSection),
    /// The voxel autoencoder.
    Vae3d(Vae3dSection),
    /// The discrete autoencoder.
    VqVae(VqVaeSection),
    /// A forecaster of fields.
    Forecaster(ForecasterSection),
    /// A neural operator.
    Operator(OperatorSection),
    /// A network that refines fields.
    SuperResolution(SuperResolutionSection),
    /// A U-Net that segments volumes.
    Segmentation(SegmentationSection),
    /// A diffusion model of latents.
    Diffusion(DiffusionSection),
    /// Lift, Splat, Shoot: maps from the images of cameras.
    Bev(BevSection),
}

/// Reads a system's section.
type ReadSystem = fn(&mut Section<'_>, &TrainedOn<'_>) -> SystemSection;

/// What is known of a system without a configuration of it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The name of its section.
    pub name: &'static str,
    /// What it is trained on.
    pub source: Source,
    /// Keys that a guide writes at the top of its file.
    pub flat_keys: &'static [FlatKey],
    /// Configurations to start from.
    pub recipes: &'static [Recipe],
    /// The configuration of a guide whose sizes are worth a table.
    pub guide: Option<&'static str>,
    /// Reads its section.
    pub read: ReadSystem,
}

/// The recipes of all systems, of each the one with the smallest memory first.
pub fn recipes() -> Vec<Recipe> {
    SYSTEMS.iter().flat_map(|entry| entry.recipes).copied().collect()
}

/// Configurations of guides whose systems have sizes with names, each as the system's name and YAML.
pub fn guides() -> Vec<(&'static str, &'static str)> {
    SYSTEMS.iter().filter_map(|entry| Some((entry.name, entry.guide?))).collect()
}
