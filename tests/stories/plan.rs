//! What a step will need is known before anything runs: on this processor, on a card that is not here, with a saver or without.

use leanburn::prelude::*;

use super::{Told, config};

fn recomputed(mut config: SystemConfig) -> SystemConfig {
    config.training_mut().recompute = Recompute::all();
    config
}

/// Of files that are not there.
fn on_scans_of(extent: [usize; 3]) -> SystemConfig {
    let data = DataConfig { voxel_size: Some(extent), paths: vec!["scans".into()], ..DataConfig::default() };
    config().with_data(data)
}

#[test]
fn a_step_is_planned_without_running_it() -> Told {
    let planner = Planner::cpu();
    let plan = config().plan(&planner)?;
    assert_eq!((plan.budget, plan.fits()), (None, None), "there is no budget until one is given");

    let [exact, short] = [plan.needed, plan.needed - Bytes(1)].map(|budget| planner.clone().within(budget));
    assert_eq!(config().plan(&exact)?.fits(), Some(true));
    let over = config().plan(&short)?;
    assert_eq!(over.fits(), Some(false));
    assert!(over.to_string().starts_with("does not fit: needs "), "{over}");

    let lean = recomputed(config()).plan(&planner)?;
    assert!(lean.peak() < plan.peak() && lean.seconds > plan.seconds, "{lean}; {plan}");
    Ok(())
}

#[test]
fn the_size_of_the_volumes_costs_a_plan_nothing() -> Told {
    let card = Planner::card("rtx-4090")?;
    assert_eq!(config().plan(&card)?.fits(), Some(true));
    let large = on_scans_of([512; 3]);
    assert_eq!(large.plan(&card)?.fits(), Some(false));
    assert!(large.plan(&card)?.needed > Bytes::gib(24));
    assert!(recomputed(large.clone()).plan(&card)?.needed < large.plan(&card)?.needed);

    let unknown = Planner::card("rtx-4091").unwrap_err().to_string();
    assert!(unknown.contains("rtx-4090"), "{unknown}");
    Ok(())
}
