//! Files of [DiffSR](https://github.com/lizhihao2022/DiffSR): its sections, moved to those here.

use crate::yaml::{Entry, Node, Place, Value};

/// Keys that have a place here as they are.
const MOVED: [(&str, &str, &[&str]); 14] = [
    ("model", "name", &["operator", "model"]),
    ("model", "layers", &["operator", "widths"]),
    ("model", "in_dim", &["operator", "in_channels"]),
    ("data", "data_path", &["sequence", "data_path"]),
    ("data", "data_key", &["sequence", "data_key"]),
    ("data", "shape", &["sequence", "shape"]),
    ("data", "sample_factor", &["sequence", "sample_factor"]),
    ("data", "train_batchsize", &["operator", "training", "batch_size"]),
    ("optimize", "lr", &["operator", "training", "learning_rate"]),
    ("optimize", "weight_decay", &["operator", "training", "weight_decay"]),
    ("train", "random_seed", &["seed"]),
    ("train", "epochs", &["operator", "training", "max_epochs"]),
    ("schedule", "step_size", &["operator", "training", "lr_step_epochs"]),
    ("schedule", "gamma", &["operator", "training", "lr_gamma"]),
];

/// Keys that change no result here: where it computes and what it writes are the command's, and the network that is refined by
/// `sample_factor` has the other properties by its name.
const WITHOUT_MEANING: [(&str, &[&str]); 4] = [
    ("model", &["width", "act", "pos_dim", "out_dim", "upsample_factor"]),
    ("data", &["eval_batchsize", "valid_ratio", "test_ratio", "subset_ratio"]),
    (
        "train",
        &[
            "cuda",
            "device",
            "device_ids",
            "distribute",
            "distribute_mode",
            "eval_freq",
            "patience",
            "saving_best",
            "saving_ckpt",
            "ckpt_freq",
            "ckpt_max",
            "load_ckpt",
        ],
    ),
    ("log", &["verbose", "log", "log_dir", "wandb", "wandb_project"]),
];

/// The sections of such a file.
const SECTIONS: [&str; 6] = ["model", "data", "train", "optimize", "schedule", "log"];

/// Moves the keys of a file whose `model.name` and `data` say that it is DiffSR's, each with its place, so that errors still point at
/// it. What has another form here is rewritten, what has no meaning is dropped, and the rest stays, to be reported as unknown.
pub(super) fn settle(root: &mut Node) {
    if is_theirs(root) {
        rewrite_model(root);
        rewrite_data(root);
        rewrite_optimizer(root);
        rewrite_schedule(root);
        MOVED.iter().for_each(|(section, key, path)| relocate(root, section, key, path));
        for key in WITHOUT_MEANING.iter().flat_map(|(section, keys)| keys.iter().map(move |key| (section, key))) {
            take(root, &[key.0], key.1);
        }
    }
    for system in ["operator", "super_resolution"] {
        drop_falls(root, &[system, "training"]);
    }
    if let Value::Section(entries) = &mut root.value {
        let is_empty = |entry: &Entry| matches!(&entry.node.value, Value::Section(keys) if keys.is_empty());
        entries.retain(|entry| !(SECTIONS.contains(&entry.key.as_str()) && is_empty(entry)));
    }
}

/// Whether `model.name` and `data` say that a file is DiffSR's.
fn is_theirs(root: &Node) -> bool {
    let data = at(root, &["data"]);
    let has_their_data =
        data.is_some_and(|data| ["data_path", "train_batchsize"].iter().any(|key| at(data, &[key]).is_some()));
    has_their_data && at(root, &["model", "name"]).is_some()
}

/// What of such a file is left out though it changes what is learned, for people.
pub(super) fn notes(root: &Node) -> Vec<String> {
    let of = |path: &[&str], note: &str| at(root, path).filter(|_| is_theirs(root)).map(|_| note.to_owned());
    let patience = "`train.patience` is left out: it counts evaluations, one in `train.eval_freq` epochs. For early stopping set \
                    `best_metric` and `early_stopping_patience`, which counts validations, one in `val_interval` steps";
    let test = "`data.test_ratio` is left out: all that is not trained on is validated on";
    [of(&["train", "patience"], patience), of(&["data", "test_ratio"], test)].into_iter().flatten().collect()
}

/// `modes1` and `modes2` become pairs, `fc_dim` the channels behind the last layer.
fn rewrite_model(root: &mut Node) {
    let layers = at(root, &["model", "layers"]).map(|layers| list(layers).to_vec()).unwrap_or_default();
    if let (Some(mut first), Some(second)) = (take(root, &["model"], "modes1"), take(root, &["model"], "modes2")) {
        let pair = |(one, other): (&Node, &Node)| Node {
            place: one.place.clone(),
            value: Value::List(vec![one.clone(), other.clone()]),
        };
        let pairs = list(&first.node).iter().zip(list(&second.node)).map(pair);
        first.node.value = Value::List(pairs.collect());
        put(root, &["operator", "modes"], first);
    }
    if layers.is_empty() {
        relocate(root, "model", "width", &["operator", "widths"]);
    }
    if let (Some(mut entry), Some(last)) = (take(root, &["model"], "fc_dim"), layers.last()) {
        entry.node.value = Value::List(vec![entry.node.clone(), last.clone()]);
        put(root, &["operator", "projection_channels"], entry);
    }
}

/// The axes and the array of the data sets that are known by name; how the data is normalized, and the share that is trained on.
fn rewrite_data(root: &mut Node) {
    if let Some(name) = take(root, &["data"], "name") {
        let known: &[_] = match text(&name.node).to_lowercase().as_str() {
            "navierstokes2d" => &[("axes", "thwn"), ("data_key", "u")],
            "ocean" => &[("axes", "thwc")],
            _ => &[],
        };
        for (key, value) in known {
            put(root, &["sequence", key], with(&name, Value::Text((*value).into())));
        }
    }
    if let Some(entry) = take(root, &["data"], "normalize").filter(is_false) {
        put(root, &["sequence", "normalize"], with(&entry, Value::Text("none".into())));
        take(root, &["data"], "normalizer_type");
    }
    if let Some(entry) = take(root, &["data"], "normalizer_type") {
        match text(&entry.node) {
            "PGN" => put(root, &["sequence", "pointwise"], with(&entry, Value::Boolean(true))),
            "GN" => {}
            _ => put(root, &["data", "normalizer_type"], entry),
        }
    }
    if let Some(entry) = take(root, &["data"], "train_ratio") {
        let value = match entry.node.value {
            Value::Number(share) => Value::Number(1.0 - share),
            Value::Integer(share) => Value::Integer(1 - share),
            ref other => other.clone(),
        };
        put(root, &["sequence", "val_fraction"], with(&entry, value));
    }
    if let Some(entry) = take(root, &["data"], "subset").filter(|entry| !is_false(entry)) {
        put(root, &["data", "subset"], entry);
    }
}

fn is_false(entry: &Entry) -> bool {
    matches!(entry.node.value, Value::Boolean(false))
}

/// Names of optimizers are lower case here.
fn rewrite_optimizer(root: &mut Node) {
    if let Some(entry) = take(root, &["optimize"], "optimizer") {
        let name = text(&entry.node).to_lowercase();
        put(root, &["operator", "training", "optimizer"], with(&entry, Value::Text(name)));
    }
}

/// `StepLR` has another name here. Others stay, and it is said which there are.
fn rewrite_schedule(root: &mut Node) {
    if let Some(entry) = take(root, &["schedule"], "scheduler") {
        let name = if text(&entry.node) == "StepLR" { Value::Text("step".into()) } else { entry.node.value.clone() };
        put(root, &["operator", "training", "lr_schedule"], with(&entry, name));
    }
}

/// Drops the falls of the file where an override names a schedule that has none.
fn drop_falls(root: &mut Node, training: &[&str]) {
    let Some(Node { value: Value::Section(keys), .. }) = at(root, training) else { return };
    let is_override = |entry: &&Entry| matches!(entry.place, Place::Override(_));
    let named = keys.iter().rfind(|entry| entry.key == "lr_schedule").filter(is_override);
    if named.is_some_and(|entry| text(&entry.node) != "step") {
        for key in ["lr_step_size", "lr_step_epochs", "lr_gamma"] {
            take(root, training, key);
        }
    }
}

fn relocate(root: &mut Node, section: &str, key: &str, path: &[&str]) {
    if let Some(entry) = take(root, &[section], key) {
        put(root, path, entry);
    }
}

/// What stands at a path.
pub(super) fn at<'a>(node: &'a Node, path: &[&str]) -> Option<&'a Node> {
    path.iter().try_fold(node, |node, key| match &node.value {
        Value::Section(entries) => entries.iter().rfind(|entry| entry.key == *key).map(|entry| &entry.node),
        _ => None,
    })
}

/// Takes a key out of a section.
pub(super) fn take(node: &mut Node, path: &[&str], key: &str) -> Option<Entry> {
    let Value::Section(entries) = &mut node.value else { return None };
    let Some((section, below)) = path.split_first() else {
        let place = entries.iter().rposition(|entry| entry.key == key)?;
        return Some(entries.remove(place));
    };
    take(&mut entries.iter_mut().rfind(|entry| entry.key == *section)?.node, below, key)
}

/// Puts an entry at a path, under its last name, unless something stands there.
pub(super) fn put(node: &mut Node, path: &[&str], mut entry: Entry) {
    if matches!(node.value, Value::Null) {
        node.value = Value::Section(Vec::new());
    }
    let (Value::Section(entries), [key, below @ ..]) = (&mut node.value, path) else { return };
    let there = entries.iter().position(|there| there.key == *key);
    match (there, below) {
        (Some(_), []) => {}
        (Some(there), below) => put(&mut entries[there].node, below, entry),
        (None, []) => {
            entry.key = (*key).into();
            entries.push(entry);
        }
        (None, below) => {
            let mut node = Node { place: entry.place.clone(), value: Value::Null };
            let place = entry.place.clone();
            put(&mut node, below, entry);
            entries.push(Entry { key: (*key).into(), place, node });
        }
    }
}

/// The same entry with another value.
pub(super) fn with(entry: &Entry, value: Value) -> Entry {
    Entry { node: Node { place: entry.node.place.clone(), value }, ..entry.clone() }
}

pub(super) fn list(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => &[],
    }
}

pub(super) fn text(node: &Node) -> &str {
    match &node.value {
        Value::Text(text) => text,
        _ => "",
    }
}
