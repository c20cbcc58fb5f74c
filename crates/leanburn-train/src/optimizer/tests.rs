//! Constants, and steps as PyTorch takes them.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, Tolerance};

use super::*;

#[test]
fn names_are_those_of_configurations() {
    for kind in OptimizerKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert!(OptimizerConfig::new(kind).validate().is_empty(), "{kind}");
    }
}

#[test]
fn a_constant_that_an_optimizer_has_not_is_an_error() {
    let constants = OptimizerConstants {
        momentum: Some(0.9),
        nesterov: Some(true),
        amsgrad: Some(true),
        centered: Some(true),
        alpha: Some(0.9),
        lr_decay: Some(0.1),
        beta_3: Some(0.9),
    };
    for kind in OptimizerKind::ALL {
        let config = OptimizerConfig::new(kind).with_betas([0.8, 0.8]).with_epsilon(1e-3).with_constants(constants);
        let found: Vec<_> = config.validate().into_iter().map(|error| error.key).collect();
        let all = ["betas", "epsilon", "momentum", "nesterov", "amsgrad", "centered", "alpha", "lr_decay", "beta_3"];
        let expected: Vec<_> = all.into_iter().filter(|key| !kind.constants().contains(key)).collect();
        assert_eq!(found, expected, "{kind}");
    }
    let error = &OptimizerConfig::new(OptimizerKind::Lion).with_momentum(0.9).validate()[0];
    assert_eq!(error.to_string(), "momentum: expected none, which lion has not, found 0.9");
    assert_eq!(error.help, "remove `momentum`; the constants of lion are betas, weight_decay");
}

#[test]
fn numbers_that_cannot_be_used_are_errors() {
    let keys = |config: OptimizerConfig| config.validate().into_iter().map(|error| error.key).collect::<Vec<_>>();
    let of = OptimizerConfig::new;
    assert_eq!(keys(of(OptimizerKind::Sgd).with_nesterov(true)), ["nesterov"]);
    assert_eq!(keys(of(OptimizerKind::Sgd).with_momentum(1.0)), ["momentum"]);
    assert_eq!(keys(of(OptimizerKind::Lion).with_betas([1.0, f64::NAN])), ["betas[0]", "betas[1]"]);
    let with = |kind, constants| keys(of(kind).with_constants(constants));
    let wrong = OptimizerConstants { alpha: Some(-0.1), ..OptimizerConstants::default() };
    assert_eq!(with(OptimizerKind::RmsProp, wrong), ["alpha"]);
    let wrong = OptimizerConstants { lr_decay: Some(f64::INFINITY), ..OptimizerConstants::default() };
    assert_eq!(with(OptimizerKind::AdaGrad, wrong), ["lr_decay"]);
    let wrong = OptimizerConstants { beta_3: Some(1.0), ..OptimizerConstants::default() };
    assert_eq!(with(OptimizerKind::Adan, wrong), ["beta_3"]);
}

#[derive(Module, Debug)]
struct Weights {
    weights: Param<Tensor<1>>,
}

/// ```python
/// p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
/// for _ in range(3):
///     optimizer.zero_grad()
///     (p**2 * torch.tensor([1.0, 2.0, 0.5])).sum().backward()
///     optimizer.step()
/// ```
fn three_steps(config: &OptimizerConfig, learning_rate: f64) -> Tensor<1> {
    let device = Device::flex().autodiff();
    let mut optimizer = config.init();
    let mut module = Weights { weights: Param::from_tensor(Tensor::from_floats([1.0, -2.0, 3.0], &device)) };
    for _ in 0..3 {
        let loss = module.weights.val().powi_scalar(2) * Tensor::from_floats([1.0, 2.0, 0.5], &device);
        let gradients = GradientsParams::from_grads(loss.sum().backward(), &module);
        module = optimizer.step(learning_rate, module, gradients);
    }
    module.weights.val()
}

/// The comments are PyTorch 2.15's optimizers.
#[test]
fn three_steps_are_pytorchs() {
    let of = OptimizerConfig::new;
    let constants = |change: fn(&mut OptimizerConstants)| {
        let mut constants = OptimizerConstants::default();
        change(&mut constants);
        constants
    };
    let cases = [
        // AdamW(p, lr=0.1)
        (of(OptimizerKind::AdamW), 0.1, [0.6989112, -1.6949446, 2.6917036]),
        // Adam(p, lr=0.1, betas=(0.9, 0.5), amsgrad=True)
        (of(OptimizerKind::Adam).with_betas([0.9, 0.5]).with_amsgrad(true), 0.1, [0.6954722, -1.6974449, 2.6983097]),
        // AdamW(p, lr=0.1, betas=(0.9, 0.5), amsgrad=True)
        (of(OptimizerKind::AdamW).with_betas([0.9, 0.5]).with_amsgrad(true), 0.1, [0.6928123, -1.6917005, 2.6895683]),
        // RMSprop(p, lr=0.01, alpha=0.9, centered=True)
        (
            of(OptimizerKind::RmsProp)
                .with_constants(constants(|constants| constants.alpha = Some(0.9)))
                .with_centered(true),
            0.01,
            [0.9197006, -1.9191804, 2.9190111],
        ),
        // SGD(p, lr=0.1)
        (of(OptimizerKind::Sgd), 0.1, [0.512, -0.432, 2.187]),
        // SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1)
        (of(OptimizerKind::Sgd).with_momentum(0.9).with_weight_decay(0.1), 0.1, [0.024319, 1.124282, 1.3189472]),
        // SGD(p, lr=0.1, momentum=0.9, nesterov=True)
        (of(OptimizerKind::Sgd).with_momentum(0.9).with_nesterov(true), 0.1, [-0.108352, 0.8665919, 0.981963]),
        // RMSprop(p, lr=0.1)
        (of(OptimizerKind::RmsProp), 0.1, [0.0, -0.3096873, 1.0689949]),
        // RMSprop(p, lr=0.01, alpha=0.9, momentum=0.9)
        (
            of(OptimizerKind::RmsProp).with_constants(constants(|constants| {
                (constants.alpha, constants.momentum) = (Some(0.9), Some(0.9));
            })),
            0.01,
            [0.8530196, -1.852247, 2.8519959],
        ),
        // Adagrad(p, lr=0.1, lr_decay=0.1)
        (
            of(OptimizerKind::AdaGrad).with_constants(constants(|constants| constants.lr_decay = Some(0.1))),
            0.1,
            [0.7950814, -1.7911909, 2.7899628],
        ),
        // Adafactor(p, lr=0.1)
        (of(OptimizerKind::Adafactor), 0.1, [0.4695984, -1.435554, 2.4257944]),
    ];
    for (config, learning_rate, expected) in cases {
        let expected = Tensor::<1>::from_floats(expected, &Device::flex()).into_data();
        println!("{}", config.kind);
        three_steps(&config, learning_rate).into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
    }
}
