//! A configuration written in code is trained; the loss falls, and the folder has all that is needed to do it again.

use leanburn::prelude::*;
use leanburn::systems::metrics::Phase;

use super::{Curve, STEPS, Told, alone, config, folder};

#[test]
fn a_configuration_is_trained() -> Told {
    let _alone = alone();
    let mut curve = Curve::default();
    let outcome = Session::new(config())?.in_folder(folder("train")).with_observer(&mut curve).run()?;

    assert_eq!((outcome.steps, curve.0.len() as u64), (STEPS, STEPS));
    let [first, .., last] = curve.0[..] else { panic!("too few steps") };
    assert!(last < first, "the loss falls: {:?}", curve.0);

    let evaluated = outcome.records.iter().filter(|record| record.phase == Phase::Validation);
    let evaluated: Vec<(u64, f64)> = evaluated.map(|record| (record.step, record.values["l1"])).collect();
    let [(0, before), (STEPS, after)] = evaluated[..] else { panic!("{evaluated:?}") };
    assert!(after < before, "on what is held out too: {evaluated:?}");
    assert!(outcome.folder.weights().is_file());

    let again = SystemConfig::load(&outcome.folder.config(), &[])?;
    let mut repeated = Curve::default();
    Session::new(again)?.in_folder(folder("train_again")).with_observer(&mut repeated).run()?;
    assert_eq!(repeated.0, curve.0, "the same configuration and seed, bit for bit");
    Ok(())
}
