//! A run that was stopped goes on as if it had not been.

use leanburn::prelude::*;

use super::{Curve, STEPS, Told, alone, config, folder};

#[test]
fn a_stopped_run_goes_on_bit_for_bit() -> Told {
    let _alone = alone();
    let (whole, stopped) = (folder("resume/whole"), folder("resume/stopped"));
    let (mut all, mut first, mut rest) = (Curve::default(), Curve::default(), Curve::default());
    let expected = Session::new(config())?.in_folder(whole).with_observer(&mut all).run()?;
    let session = || Ok::<_, SystemError>(Session::new(config())?.in_folder(&stopped));
    session()?.stop_after(4).with_observer(&mut first).run()?;

    let not_asked = session()?.run().unwrap_err();
    assert!(not_asked.to_string().contains("there is a run in it already"), "{not_asked}");
    let other = Session::new(config().with_seed(1))?.in_folder(&stopped).resume(true).run().unwrap_err();
    assert!(matches!(other, SystemError::RunFolder { .. }), "{other}");

    let outcome = session()?.resume(true).with_observer(&mut rest).run()?;
    assert_eq!((outcome.steps, first.0.len(), rest.0.len()), (STEPS, 4, 2));
    assert_eq!([first.0, rest.0].concat(), all.0, "bit for bit");
    let weights = |outcome: &Outcome| std::fs::read(outcome.folder.weights());
    assert!(weights(&outcome)? == weights(&expected)?, "the weights too");
    Ok(())
}
