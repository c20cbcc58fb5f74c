//! The planner of a device by its name.

use leanburn_common::Bytes;
use leanburn_plan::catalogue::Device as Card;
use leanburn_train::planning::Planner;

use crate::device::{device, gpu, half_precision, is_cpu};
use crate::error::Result;

/// The planner for the device that a configuration names, or in its place for a card of the catalogue; within `size`, or all that
/// the device has. A card that is here is asked for its name and memory.
///
/// # Errors
///
/// [`SystemError::Device`](crate::SystemError::Device) for a name that is unknown.
///
/// # Example
///
/// ```
/// use leanburn_common::Bytes;
/// use leanburn_systems::planning::planner_of;
///
/// let planner = planner_of("cpu", None, Some(Bytes::gib(4)))?;
/// assert_eq!((planner.name(), planner.budget()), ("the CPU", Some(Bytes::gib(4))));
/// # Ok::<(), leanburn_systems::SystemError>(())
/// ```
pub fn planner_of(device_name: &str, card: Option<&Card>, size: Option<Bytes>) -> Result<Planner> {
    let planner = match card {
        Some(card) => Planner::of_card(card),
        None if is_cpu(device_name)? => Planner::cpu(),
        None => planner_of_card(device_name),
    };
    let planner = planner.with_half_precision(half_precision(device_name));
    Ok(match size {
        Some(size) => planner.within(size),
        None => planner,
    })
}

/// The planner of a card by the name of its device: what it says of itself if it is here and this build can use it.
fn planner_of_card(device_name: &str) -> Planner {
    let here = device(device_name).ok().and_then(|device| Some((gpu(&device)?, device)));
    let Some((gpu, device)) = here else {
        let doubt = format!("device.name is {device_name}, a graphics card that was not named");
        let planner = Planner::unlisted(device_name, None, None).doubted(doubt);
        return planner.named(device_name, format!("a graphics card ({device_name})"));
    };
    let planner = Planner::on(&device);
    if planner.warning().is_none() {
        return planner; // the catalogue has it
    }
    let doubt = format!("device.name is {device_name}, {}, which the catalogue does not have", gpu.name);
    planner.named(device_name, format!("{} ({device_name})", gpu.name)).doubted(doubt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leanburn_train::Precision;

    #[test]
    fn a_name_an_unknown_card_and_a_named_card_each_have_a_planner() {
        let cpu = planner_of("flex", None, None).unwrap();
        assert_eq!((cpu.key(), cpu.budget(), cpu.warning()), ("flex", None, None));
        let unknown = planner_of("rocm", None, None).unwrap();
        assert_eq!((unknown.key(), unknown.name()), ("rocm", "a graphics card (rocm)"));
        let warning = |planner: Planner| planner.warning().unwrap();
        let doubt = "device.name is rocm, a graphics card that was not named: ";
        assert!(warning(unknown).starts_with(&format!("{doubt}its memory is not known")));
        let sized = planner_of("rocm", None, Some(Bytes::gib(8))).unwrap();
        assert!(!warning(sized).contains("its memory is not known"));
        let card = Card::find("t4").unwrap();
        let named = planner_of("flex", Some(card), Some(Bytes::gib(8))).unwrap();
        assert_eq!((named.key(), named.budget(), named.warning()), ("t4", Some(Bytes::gib(8)), None));
        assert_eq!((named.half_precision(), named.context()), (Some(Precision::F16), card.context_bytes));
        assert!(planner_of("vulcan", None, None).is_err());
    }
}
