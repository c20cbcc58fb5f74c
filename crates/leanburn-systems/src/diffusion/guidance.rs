//! Classifier-free guidance: samples of a class, and exaggerated ones.

use burn::tensor::Tensor;
use leanburn_nn::models::DiffusionUNet3d;
use leanburn_train::Precision;

use super::noise::predict;
use super::section::DiffusionSection;
use crate::error::{Result, SystemError};

/// Rejects classes that a model does not have, and guidance to none.
pub(super) fn check_class(section: &DiffusionSection, class: Option<usize>, guidance: f64) -> Result<()> {
    let reject = |subject: &str, expected: String, found: String, remedy: &str| {
        Err(SystemError::Input { subject: subject.into(), expected, found, remedy: remedy.into() })
    };
    match (section.no_class(), class) {
        (None, Some(class)) => {
            let remedy = "leave it out, or train a model with `data.classes` and `diffusion.num_class_embeds`";
            reject("class", "none: the model knows no classes".into(), class.to_string(), remedy)
        }
        (Some(classes), Some(class)) if class >= classes => reject(
            "class",
            format!("a number below {classes}"),
            class.to_string(),
            "take one of the classes that it was trained with",
        ),
        (_, None) if guidance != 1.0 => {
            let remedy = "give a class with it, or leave it out";
            reject("guidance", "a class to be guided to".into(), "none".into(), remedy)
        }
        _ if !guidance.is_finite() => {
            reject("guidance", "a finite number".into(), guidance.to_string(), "2 to 5 are usual")
        }
        _ => Ok(()),
    }
}

/// What a network says, led to a class: `without + guidance (with - without)`.
///
/// Source: [Ho and Salimans](https://arxiv.org/abs/2207.12598), where it is written with `guidance - 1`. With guidance 1 the network is asked
/// of the class alone, with 0 of no class alone.
///
/// # Memory
///
/// It is asked of both one after the other: the peak is that of one prediction and the other's result, where a batch of both would need
/// twice the activations. On the CPU a batch is not faster.
pub(super) fn guided(
    unet: &DiffusionUNet3d,
    precision: Precision,
    question: (Tensor<5>, Tensor<1>),
    guide: Guide,
) -> Tensor<5> {
    let (input, times) = question;
    let about = |class: usize| {
        let classes = Tensor::full([input.dims()[0]], class as f32, &input.device());
        predict(unet, precision, (input.clone(), times.clone(), Some(classes)))
    };
    match guide {
        Guide::None => predict(unet, precision, (input, times, None)),
        Guide::To(class) => about(class),
        Guide::Between { none, class, guidance } => {
            let (without, with) = (about(none), about(class));
            without.clone() + (with - without) * guidance
        }
    }
}

/// Which classes a network is asked about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Guide {
    /// It knows none.
    None,
    /// One, or the one that stands for none.
    To(usize),
    /// Two.
    Between { none: usize, class: usize, guidance: f64 },
}

impl Guide {
    /// To a class, or none, that has been checked.
    pub fn of(section: &DiffusionSection, class: Option<usize>, guidance: f64) -> Self {
        match (section.no_class(), class) {
            (None, _) => Self::None,
            (Some(none), None) => Self::To(none),
            (Some(_), Some(class)) if guidance == 1.0 => Self::To(class),
            (Some(none), Some(_)) if guidance == 0.0 => Self::To(none),
            (Some(none), Some(class)) => Self::Between { none, class, guidance },
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use leanburn_nn::models::DiffusionUNet3dConfig;
    use leanburn_ops::random::{Distribution, drawn};

    use super::*;
    use crate::volume::values;

    /// Guidance 1 is the model of the class and 0 that of none, bit for bit; between and beyond it is a line.
    #[test]
    fn guidance_is_a_line_from_no_class_to_the_class() {
        let device = Device::flex();
        let config = DiffusionUNet3dConfig::new(2, 2, vec![4, 8], vec![1; 2], vec![false; 2]).with_norm_num_groups(2);
        let mut section = DiffusionSection::new(2, vec![4, 8]).with_num_class_embeds(Some(4));
        section.norm_num_groups = 2;
        let mut unet = config.with_num_class_embeds(Some(4)).init(&device);
        // a new network says zero
        unet = burn::module::Module::map(unet, &mut Shifted);
        let normal = |key| drawn(key, Distribution::STANDARD, [1, 2, 4, 4, 4], &device);
        let (x, times) = (normal(1), Tensor::from_floats([7.0], &device));
        let said = |class: Option<usize>, guidance: f64| {
            let guide = Guide::of(&section, class, guidance);
            values(guided(&unet, Precision::F32, (x.clone(), times.clone()), guide))
        };
        let of = |class: f32| {
            let classes = Some(Tensor::from_floats([class], &device));
            values(predict(&unet, Precision::F32, (x.clone(), times.clone(), classes)))
        };
        let to = |guidance: f64| said(Some(1), guidance);
        assert_eq!((said(None, 1.0), to(0.0), to(1.0)), (of(3.0), of(3.0), of(1.0)));
        assert_ne!(of(3.0), of(1.0));
        for guidance in [0.5, 3.0] {
            let line = of(3.0).into_iter().zip(of(1.0)).map(|(none, class)| none + guidance * (class - none));
            let furthest = to(f64::from(guidance)).into_iter().zip(line).map(|(one, other)| (one - other).abs());
            assert!(furthest.fold(0.0, f32::max) < 1e-6);
        }
    }

    struct Shifted;

    impl burn::module::ModuleMapper for Shifted {
        fn map_float<const D: usize>(
            &mut self,
            param: burn::module::Param<Tensor<D>>,
        ) -> burn::module::Param<Tensor<D>> {
            param.map(|tensor| tensor + 0.05)
        }
    }

    #[test]
    fn classes_that_a_model_does_not_have_are_rejected() {
        let without = DiffusionSection::new(2, vec![4, 8]);
        let with = without.clone().with_num_class_embeds(Some(4));
        let rejected = |section: &DiffusionSection, class: Option<usize>, guidance: f64| {
            check_class(section, class, guidance).unwrap_err().to_string()
        };
        assert!(check_class(&with, Some(2), 3.0).is_ok() && check_class(&without, None, 1.0).is_ok());
        assert!(rejected(&with, Some(3), 1.0).contains("a number below 3"));
        assert!(rejected(&with, None, 2.0).contains("a class to be guided to"));
        assert!(rejected(&with, Some(0), f64::NAN).contains("finite"));
        assert!(rejected(&without, Some(0), 1.0).contains("knows no classes"));
    }
}
