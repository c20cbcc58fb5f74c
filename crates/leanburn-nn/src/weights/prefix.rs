//! Where a model lies inside a larger checkpoint.

use std::collections::{BTreeMap, HashSet};

/// The prefixes (`""`, `"state_dict."`, `"state_dict.autoencoder."`) under which the most of `names` are found.
///
/// Several are returned if they hold equally many; none if no name is found anywhere.
pub(super) fn prefixes<'a>(keys: impl Iterator<Item = &'a str>, names: &HashSet<String>) -> Vec<String> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for key in keys {
        let starts = [0].into_iter().chain(key.match_indices('.').map(|(dot, _)| dot + 1));
        for start in starts.filter(|&start| names.contains(&key[start..])) {
            *found.entry(&key[..start]).or_default() += 1;
        }
    }
    let most = found.values().copied().max().unwrap_or(0);
    found.into_iter().filter(|(_, count)| *count == most).map(|(prefix, _)| prefix.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(keys: &[&str]) -> Vec<String> {
        prefixes(keys.iter().copied(), &["a.w", "b.w"].map(String::from).into())
    }

    #[test]
    fn the_prefix_that_holds_the_most_names_is_found() {
        assert_eq!(find(&["a.w", "b.w", "other.a.w"]), [""]);
        assert_eq!(find(&["epoch", "state_dict.net.a.w", "state_dict.net.b.w", "x.b.w"]), ["state_dict.net."]);
        assert_eq!(find(&["net.a.w", "ema.a.w"]), ["ema.", "net."]);
        assert!(find(&["net.c.w", ".", ""]).is_empty());
    }
}
