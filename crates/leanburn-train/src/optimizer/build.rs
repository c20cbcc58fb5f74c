//! Burn's optimizer of a configuration.

use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    AdaGradConfig, AdafactorConfig, AdamConfig, AdamWConfig, AdanConfig, DynOptimizer, LambConfig, LionConfig,
    ModuleOptimizer, RmsPropConfig, SgdConfig,
};

use super::config::OptimizerConfig;
use super::kind::OptimizerKind;
use super::mover::{Moved, Mover};

/// Runs the expression with `$optimizer` standing for Burn's optimizer of the configuration.
macro_rules! with_optimizer {
    ($config:expr, $optimizer:ident => $expression:expr) => {
        with_optimizer!(@each $config, $optimizer => $expression, [
            Adam: adam, AdamW: adamw, Sgd: sgd, RmsProp: rmsprop, AdaGrad: adagrad, Adafactor: adafactor, Adan: adan,
            Lamb: lamb, Lion: lion
        ])
    };
    (@each $config:expr, $optimizer:ident => $expression:expr, [$($kind:ident: $burns:ident),*]) => {
        match $config.kind {
            $(OptimizerKind::$kind => {
                let $optimizer = $config.$burns().build();
                $expression
            })*
        }
    };
}

impl OptimizerConfig {
    /// The optimizer, without states yet.
    pub fn init(&self) -> ModuleOptimizer {
        with_optimizer!(self, optimizer => ModuleOptimizer::from(optimizer))
    }

    /// An optimizer without states that moves the states of this one.
    pub(crate) fn mover(&self, moved: &Moved, puts: bool) -> ModuleOptimizer {
        with_optimizer!(self, optimizer => ModuleOptimizer::from(Mover::of(&optimizer, moved, puts)))
    }

    /// The optimizer of a single parameter, without the module around it.
    pub(crate) fn build(&self) -> Box<dyn DynOptimizer> {
        with_optimizer!(self, optimizer => Box::new(optimizer))
    }

    fn single_betas(&self) -> [f32; 2] {
        self.betas.map(|beta| beta as f32)
    }

    /// Weight decay that is added to the gradient.
    fn decay(&self) -> Option<WeightDecayConfig> {
        (self.weight_decay > 0.0).then(|| WeightDecayConfig::new(self.weight_decay as f32))
    }

    fn adam(&self) -> AdamConfig {
        let [beta_1, beta_2] = self.single_betas();
        let config = AdamConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(self.epsilon as f32);
        config.with_weight_decay(self.decay()).with_amsgrad(self.constants.amsgrad())
    }

    fn adamw(&self) -> AdamWConfig {
        let [beta_1, beta_2] = self.single_betas();
        let config = AdamWConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(self.epsilon as f32);
        config.with_weight_decay(self.weight_decay as f32).with_amsgrad(self.constants.amsgrad())
    }

    fn sgd(&self) -> SgdConfig {
        let (momentum, nesterov) = (self.constants.momentum(), self.constants.nesterov());
        let momentum = (momentum > 0.0)
            .then(|| MomentumConfig::new().with_momentum(momentum).with_dampening(0.0).with_nesterov(nesterov));
        SgdConfig::new().with_weight_decay(self.decay()).with_momentum(momentum)
    }

    fn rmsprop(&self) -> RmsPropConfig {
        let config = RmsPropConfig::new().with_alpha(self.constants.alpha() as f32).with_epsilon(self.epsilon as f32);
        let config = config.with_momentum(self.constants.momentum() as f32).with_centered(self.constants.centered());
        config.with_weight_decay(self.decay())
    }

    fn adagrad(&self) -> AdaGradConfig {
        let config = AdaGradConfig::new().with_lr_decay(self.constants.lr_decay()).with_epsilon(self.epsilon as f32);
        config.with_weight_decay(self.decay())
    }

    fn adafactor(&self) -> AdafactorConfig {
        AdafactorConfig::new().with_weight_decay(self.weight_decay as f32)
    }

    fn adan(&self) -> AdanConfig {
        let [beta_1, beta_2] = self.single_betas();
        let config = AdanConfig::new().with_beta_1(beta_1).with_beta_2(beta_2);
        let config = config.with_beta_3(self.constants.beta_3() as f32).with_epsilon(self.epsilon as f32);
        config.with_weight_decay(self.weight_decay as f32)
    }

    fn lamb(&self) -> LambConfig {
        let [beta_1, beta_2] = self.single_betas();
        let config = LambConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(self.epsilon as f32);
        config.with_weight_decay(self.weight_decay as f32)
    }

    fn lion(&self) -> LionConfig {
        let [beta_1, beta_2] = self.single_betas();
        LionConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_weight_decay(self.weight_decay as f32)
    }
}
