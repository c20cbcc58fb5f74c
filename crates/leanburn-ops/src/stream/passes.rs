//! The passes of a streamed segment: what is made in each, and which volumes stay for those behind it.
//!
//! A norm is a barrier: its statistics are those of the whole volume, and in backward so are the sums that its gradient needs. Between
//! two barriers everything is made in slabs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::chain::{Chain, Need, Node, StoredVolumes};
use super::planes::Reach;
use super::settings::{StreamKeep, StreamSettings};
use crate::share::Share;

/// What a pass does along the depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Adds up the moments that the norm of a stage needs.
    Moments(usize),
    /// Adds up the sums that the gradient of a stage's norm needs, and the gradient of its slope.
    Sums(usize),
    /// Adds up the gradients of a stage's weight and bias.
    Weights(usize),
    /// Makes a node whole.
    Make(Node),
}

/// One march along the depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) tasks: Vec<Task>,
    /// What is there whole when the pass is over; of everything else nothing stays.
    pub(super) keeps: BTreeSet<Node>,
    /// Of what the first planes stay, which was not there whole.
    pub(super) caches: Option<Node>,
}

/// Forward: a pass for each volume with a norm, and one for the result. What is stored gives way to what is made from it.
pub(super) fn forward(chain: &Chain, settings: StreamSettings) -> Vec<Pass> {
    let keep = settings.keep;
    let kept = match keep {
        StreamKeep::Two | StreamKeep::One => chain.worth_storing(),
        StreamKeep::None | StreamKeep::Joined => Vec::new(),
    };
    let stores_shortcuts = keep == StreamKeep::Two;
    let mut passes = Vec::new();
    for volume in 0..chain.last() {
        let mut tasks: Vec<Task> = chain.norms(volume).map(Task::Moments).collect();
        if tasks.is_empty() {
            continue;
        }
        // A shortcut is stored, so that what it is made from need not be made again; but not behind a norm, which this pass makes.
        let unnormed = chain.readers(volume).filter(|stage| !chain.stage(*stage).has_norm());
        let shortcuts = unnormed.map(|stage| chain.made_by(stage));
        let shortcuts = shortcuts.filter(|made| stores_shortcuts && chain.is_shortcut(*made));
        let stored = kept.iter().copied().filter(|kept| *kept == volume).chain(shortcuts);
        tasks.extend(stored.map(|volume| Task::Make(Node::Value(volume))));
        passes.push(tasks);
    }
    let result = Node::Value(chain.last());
    passes.push(vec![Task::Make(result)]);
    let given = chain.inputs().map(Node::Value).collect();
    let passes = with_lifetimes(chain, &given, passes, [result].into());
    with_cache(chain, &given, passes, settings)
}

/// Backward: the volumes that give way to their gradients are made again; then, from the last volume to the first, the sums of its norms
/// with the gradients of the weights that read it, and its gradient. The first pass of a block stores its middle.
///
/// `trained` says of each stage whether its weight or bias needs a gradient, `for_inputs` which inputs do.
pub(super) fn backward(chain: &Chain, settings: StreamSettings, trained: &[bool], for_inputs: &[bool]) -> Vec<Pass> {
    let StoredVolumes { give_way, mut middles } = chain.stored(settings.keep);
    let make = |volume: &usize| Task::Make(Node::Value(*volume));
    let mut passes = vec![give_way.iter().map(make).collect::<Vec<_>>()];
    let mut weights = Vec::new();
    for volume in (0..chain.last()).rev() {
        weights.extend(chain.readers(volume).filter(|stage| trained[*stage]).map(Task::Weights));
        // The gradient of a slope without a norm is no barrier.
        let is_slope = |stage: &usize| chain.stage(*stage).has_slope() && !chain.stage(*stage).has_norm();
        weights.extend(chain.readers(volume).filter(is_slope).map(Task::Sums));
        let sums: Vec<Task> = chain.norms(volume).map(Task::Sums).collect();
        if !sums.is_empty() {
            let before = give_way.iter().rfind(|result| **result <= volume);
            let of_block = middles.partition_point(|middle| before > Some(middle));
            let middles: Vec<Task> = middles.drain(of_block..).map(|middle| make(&middle)).collect();
            passes.push([sums, middles, std::mem::take(&mut weights)].concat());
        }
        let is_input = for_inputs.get(volume) == Some(&true);
        if give_way.contains(&volume) || is_input {
            let tasks = [vec![Task::Make(Node::Gradient(volume))], std::mem::take(&mut weights)].concat();
            // Nothing stands between the gradients of inputs without norms: one pass makes them all.
            let of_input_behind = |pass: &&mut Vec<Task>| {
                is_input && volume + 1 < for_inputs.len() && pass[0] == Task::Make(Node::Gradient(volume + 1))
            };
            match passes.last_mut().filter(of_input_behind) {
                Some(pass) => pass.extend(tasks),
                None => passes.push(tasks),
            }
        }
    }
    passes.push(weights);
    passes.retain(|tasks| !tasks.is_empty());
    let given = chain.inputs().map(Node::Value).chain([Node::Gradient(chain.last())]).collect();
    let passes = with_lifetimes(chain, &given, passes, chain.inputs().map(Node::Gradient).collect());
    with_cache(chain, &given, passes, settings)
}

/// The passes, each with what later ones read of what is whole.
fn with_lifetimes(chain: &Chain, given: &BTreeSet<Node>, passes: Vec<Vec<Task>>, results: BTreeSet<Node>) -> Vec<Pass> {
    let mut whole = given.clone();
    let mut read = Vec::new();
    let mut there = Vec::new();
    for tasks in &passes {
        read.push(&met(chain, tasks, &whole) & &whole);
        whole.extend(tasks.iter().filter_map(|task| match task {
            Task::Make(node) => Some(*node),
            _ => None,
        }));
        there.push(whole.clone());
    }
    let mut later = results;
    let mut behind = Vec::new();
    for read in read.into_iter().rev() {
        behind.push(later.clone());
        later.extend(read);
    }
    let keeps = there.into_iter().zip(behind.into_iter().rev()).map(|(there, later)| &there & &later);
    passes.into_iter().zip(keeps).map(|(tasks, keeps)| Pass { tasks, keeps, caches: None }).collect()
}

/// The nodes that a pass reads or makes on the way; what those are made from that are `there` it does not meet.
fn met(chain: &Chain, tasks: &[Task], there: &BTreeSet<Node>) -> BTreeSet<Node> {
    let mut met = BTreeSet::new();
    let mut open: Vec<Node> = tasks.iter().flat_map(|task| task.nodes(chain)).collect();
    while let Some(node) = open.pop() {
        if met.insert(node) && !there.contains(&node) {
            open.extend(chain.needs(node, &(0..1)).into_iter().map(|(node, _)| node));
        }
    }
    met
}

/// The passes, which cache of the volumes that are never whole the one that saves most work for its size, from where it is first made to
/// where it is last read.
fn with_cache(chain: &Chain, given: &BTreeSet<Node>, mut passes: Vec<Pass>, settings: StreamSettings) -> Vec<Pass> {
    // Planes of other processes come from whole volumes.
    if settings.cached_percent == 0 || chain.share().size() > 1 {
        return passes;
    }
    let there: Vec<&BTreeSet<Node>> = [given].into_iter().chain(passes.iter().map(|pass| &pass.keeps)).collect();
    let made = |pass: &Pass, there: &BTreeSet<Node>| &met(chain, &pass.tasks, there) - there;
    let work = |nodes: BTreeSet<Node>| nodes.into_iter().map(|node| chain.work(node)).sum::<u64>();
    let worth = |node: Node| {
        let meets = |(pass, there): &(&Pass, &BTreeSet<Node>)| made(pass, there).contains(&node);
        let meeting = passes.iter().zip(there.iter().copied()).filter(meets).skip(1);
        let saved = |(pass, there): (&Pass, &BTreeSet<Node>)| {
            let with_it = there | &BTreeSet::from([node]);
            work(made(pass, there)) - work(made(pass, &with_it))
        };
        meeting.map(saved).sum::<u64>() as f64 / chain.elements(node.volume()) as f64
    };
    let values =
        chain.nodes().filter(|node| matches!(node, Node::Value(_)) && there.iter().all(|whole| !whole.contains(node)));
    let best = values.map(|node| (node, worth(node))).filter(|(_, worth)| *worth > 0.0);
    if let Some((node, _)) = best.max_by(|(_, one), (_, other)| one.total_cmp(other)) {
        let meets = |pass: &Pass, there| made(pass, there).contains(&node);
        let meeting: Vec<bool> = passes.iter().zip(there).map(|(pass, there)| meets(pass, there)).collect();
        let ends = meeting.iter().position(|meets| *meets).zip(meeting.iter().rposition(|meets| *meets));
        let (first, last) = ends.expect("a node that saves work is met");
        passes[first..last].iter_mut().for_each(|pass| pass.caches = Some(node));
    }
    passes
}

impl Pass {
    /// What a share of the pass asks for: of what is `there` the planes that are read, of each other node those that are read or made; what
    /// is `cached` up to a plane is made behind it.
    pub(super) fn reach(
        &self,
        chain: &Chain,
        share: Share,
        there: &BTreeSet<Node>,
        cached: Option<(Node, usize)>,
    ) -> BTreeMap<Node, Range<usize>> {
        let mut asked = BTreeMap::new();
        let ask = |asked: &mut BTreeMap<Node, Range<usize>>, needs: Vec<Need>| {
            for (node, planes) in needs.into_iter().filter(|(_, planes)| !planes.is_empty()) {
                let before = asked.entry(node).or_insert(planes.clone());
                *before = before.start.min(planes.start)..before.end.max(planes.end);
            }
        };
        let tasks = self.tasks.iter().map(|task| (task, task.planes(chain, share)));
        tasks.filter(|(_, planes)| !planes.is_empty()).for_each(|(task, planes)| {
            ask(&mut asked, task.needs(chain, &planes));
        });
        for node in chain.nodes().filter(|node| !there.contains(node)) {
            if let Some(planes) = asked.get_mut(&node) {
                *planes = chain.aligned_start(node, planes.start)..chain.aligned(node, planes.end);
                let made_until = cached.filter(|(cached, _)| *cached == node).map_or(0, |(_, end)| end);
                let made = planes.start.max(made_until)..planes.end;
                if !made.is_empty() {
                    ask(&mut asked, chain.needs(node, &made));
                }
            }
        }
        asked
    }
}

impl Task {
    /// The planes along which a share of the task goes.
    pub(super) fn planes(self, chain: &Chain, share: Share) -> Range<usize> {
        let depth = self.depth(chain);
        let Range { start, end } = share.planes(depth);
        let start = if start == 0 { 0 } else { self.aligned(chain, start) };
        start.min(depth)..self.aligned(chain, end).min(depth)
    }

    /// The depth along which the task goes.
    fn depth(self, chain: &Chain) -> usize {
        match self {
            Self::Moments(stage) | Self::Sums(stage) => chain.depth(chain.stage(stage).of),
            Self::Weights(stage) => match chain.reach(stage) {
                Reach::Transposed(_) => chain.depth(chain.stage(stage).of),
                _ => chain.depth(chain.made_by(stage)),
            },
            Self::Make(Node::Value(volume) | Node::Gradient(volume)) => chain.depth(volume),
        }
    }

    /// Where a step of the task that goes up to `end` ends.
    pub(super) fn aligned(self, chain: &Chain, end: usize) -> usize {
        match self {
            Self::Weights(stage) => chain.reach(stage).aligned(end),
            Self::Moments(_) | Self::Sums(_) | Self::Make(_) => end,
        }
    }

    /// What planes of the task read.
    pub(super) fn needs(self, chain: &Chain, planes: &Range<usize>) -> Vec<Need> {
        match self {
            Self::Moments(stage) => vec![(Node::Value(chain.stage(stage).of), planes.clone())],
            Self::Sums(stage) => vec![
                (Node::Value(chain.stage(stage).of), planes.clone()),
                (Node::Gradient(chain.made_by(stage)), chain.reach(stage).outputs(planes)),
            ],
            Self::Weights(stage) => {
                let reach = chain.reach(stage);
                let (values, gradients) = match reach {
                    Reach::Transposed(_) => (planes.clone(), reach.outputs(planes)),
                    _ => (reach.inputs(planes), planes.clone()),
                };
                vec![(Node::Value(chain.stage(stage).of), values), (Node::Gradient(chain.made_by(stage)), gradients)]
            }
            Self::Make(node) => vec![(node, planes.clone())],
        }
    }

    fn nodes(self, chain: &Chain) -> Vec<Node> {
        self.needs(chain, &(0..1)).into_iter().map(|(node, _)| node).collect()
    }
}
