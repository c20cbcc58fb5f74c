//! The march along the depth: every node is made as far as it is asked for, and lets go of the planes that nothing asks for any more.
//!
//! What is asked for twice, because kernels overlap, is kept in between: no plane is computed twice in a pass.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use burn::tensor::{DType, Device, Tensor};

use super::chain::{Chain, Need, Node};
use super::passes::{Pass, Task};
use super::settings::StreamSettings;
use super::slab::{self, ParameterGradients, Progress};
use super::slabs::Slabs;
use crate::operations::norm_act::{ChannelStatistics, Normalization};
use crate::probe;
use crate::share::{AS_FORWARD, VolumeRanks, exchange_planes, volume_ranks};

/// A segment while it runs: the planes that are there, and what is known of each stage.
#[derive(Debug)]
pub(super) struct March<'a> {
    chain: &'a Chain,
    /// Slabs of the deepest volume.
    steps: usize,
    stored: BTreeMap<Node, Slabs>,
    /// The tasks of the pass, each with the planes that are left.
    tasks: Vec<(Task, Range<usize>)>,
    /// The plane up to which the pass asks for each node.
    ends: BTreeMap<Node, usize>,
    /// What stays whole when the pass is over.
    keeps: BTreeSet<Node>,
    /// Of what the first planes are there, or stay when the pass is over.
    cached: Option<Node>,
    cached_percent: usize,
    progress: Vec<Progress>,
    /// The processes that have the rest of the volume.
    ranks: Option<Rc<dyn VolumeRanks>>,
    device: Device,
    dtype: DType,
}

impl<'a> March<'a> {
    /// Of this process's share of the inputs, with the norms that are known.
    pub(super) fn new(
        chain: &'a Chain,
        inputs: Vec<Tensor<5>>,
        settings: StreamSettings,
        norms: Vec<Option<Normalization>>,
    ) -> Self {
        let (device, dtype) = (inputs[0].device(), inputs[0].dtype());
        let given = chain.inputs().map(Node::Value).zip(inputs);
        let given = given.map(|(node, x)| (node, Slabs::given(chain.planes_of(node, chain.share()).start, x)));
        Self {
            chain,
            steps: chain.deepest().div_ceil(settings.slab_planes.max(1)),
            stored: given.collect(),
            tasks: Vec::new(),
            ends: BTreeMap::new(),
            keeps: BTreeSet::new(),
            cached: None,
            cached_percent: usize::from(settings.cached_percent),
            ranks: (chain.share().size() > 1).then(|| volume_ranks().expect(AS_FORWARD)),
            progress: norms.into_iter().map(Progress::with_normalization).collect(),
            device,
            dtype,
        }
    }

    /// With the gradient of the share of the last volume.
    pub(super) fn with_gradient(mut self, gradient: Tensor<5>) -> Self {
        let node = Node::Gradient(self.chain.last());
        let planes = self.chain.planes_of(node, self.chain.share());
        self.stored.insert(node, Slabs::given(planes.start, gradient));
        self
    }

    /// Runs the passes one after the other.
    pub(super) fn run(mut self, passes: &[Pass]) -> Self {
        for pass in passes {
            self.pass(pass);
        }
        self
    }

    /// The share of a node that is there; `None` where it is not.
    pub(super) fn take(&mut self, node: Node) -> Option<Tensor<5>> {
        self.stored.remove(&node).map(Slabs::into_one)
    }

    /// Of each stage the norm with the statistics of its volume, and those of the batch where they are over it.
    pub(super) fn into_norms(self) -> (Vec<Option<Normalization>>, Vec<Option<ChannelStatistics>>) {
        self.progress.into_iter().map(|progress| (progress.normalization, progress.of_batch)).unzip()
    }

    /// The gradients of each stage's parameters.
    pub(super) fn into_gradients(self) -> Vec<ParameterGradients> {
        self.progress.into_iter().zip(self.chain.stages()).map(|(progress, stage)| progress.gradients(stage)).collect()
    }

    fn pass(&mut self, pass: &Pass) {
        self.begin(pass);
        let all: Vec<Range<usize>> = self.tasks.iter().map(|(_, planes)| planes.clone()).collect();
        for step in 1..=self.steps {
            for (index, all) in all.iter().enumerate() {
                let (task, left) = self.tasks[index].clone();
                let end = all.start + (all.len() * step).div_ceil(self.steps);
                let planes = left.start..task.aligned(self.chain, end.max(1)).min(all.end);
                if !planes.is_empty() {
                    self.perform(task, planes.clone());
                    self.tasks[index].1.start = planes.end;
                    self.release();
                    probe::sample();
                }
            }
        }
        self.finish(pass);
    }

    /// Takes the planes beyond this process's share that the pass asks for from the processes that have them.
    fn begin(&mut self, pass: &Pass) {
        let (chain, share) = (self.chain, self.chain.share());
        let there: BTreeSet<Node> = self.stored.keys().copied().filter(|node| self.cached != Some(*node)).collect();
        let cached = self.cached.map(|node| (node, self.stored.get(&node).map_or(0, Slabs::end)));
        let reach = pass.reach(chain, share, &there, cached);
        if let Some(ranks) = &self.ranks {
            let of_neighbours =
                share.neighbours().map(|share| share.map(|share| (share, pass.reach(chain, share, &there, None))));
            for (node, slabs) in &mut self.stored {
                let own = chain.planes_of(*node, share);
                let lacks = beyond(&own, reach.get(node));
                let [before, behind] = of_neighbours.each_ref().map(|neighbour| {
                    neighbour.as_ref().map(|(share, reach)| beyond(&chain.planes_of(*node, *share), reach.get(node)))
                });
                let given = [before.map(|[_, lacks]| lacks), behind.map(|[lacks, _]| lacks)].map(|planes| {
                    let planes = planes.filter(|planes| !planes.is_empty())?;
                    assert!(
                        own.start <= planes.start && planes.end <= own.end,
                        "stream: another process needs planes {planes:?} of {own:?}: a share of the volume is too small, use fewer \
                         processes"
                    );
                    Some(slabs.read(planes))
                });
                let (dims, options) = (chain.dims(node.volume()), (&self.device, self.dtype));
                let [before, behind] =
                    exchange_planes(&**ranks, dims, options, given, lacks.map(|planes| planes.len()));
                before.into_iter().for_each(|planes| slabs.push_front(planes));
                behind.into_iter().for_each(|planes| slabs.push(planes));
            }
        }
        self.ends = reach.iter().map(|(node, planes)| (*node, planes.end)).collect();
        for (node, planes) in reach {
            self.stored.entry(node).or_insert_with(|| Slabs::starting_at(planes.start));
        }
        self.cached = self.cached.or(pass.caches);
        if let Some(slabs) = self.cached.and_then(|node| self.stored.get_mut(&node)) {
            let depth = self.cached.map_or(0, |node| chain.depth(node.volume()));
            slabs.cache(if pass.caches.is_some() { (self.cached_percent * depth).div_ceil(100) } else { 0 });
        }
        self.tasks = pass.tasks.iter().map(|task| (*task, task.planes(chain, share))).collect();
        self.keeps.clone_from(&pass.keeps);
    }

    /// What was added up is complete; of what was made this process's share stays, if it is to stay.
    fn finish(&mut self, pass: &Pass) {
        let (chain, ranks) = (self.chain, self.ranks.as_deref());
        for task in &pass.tasks {
            match *task {
                Task::Moments(stage) => self.progress[stage].finish_moments(chain.stage(stage), ranks),
                Task::Sums(stage) => self.progress[stage].finish_sums(chain, stage, ranks),
                Task::Weights(_) | Task::Make(_) => {}
            }
        }
        self.cached = pass.caches;
        self.stored.retain(|node, _| pass.keeps.contains(node) || pass.caches == Some(*node));
        for (node, slabs) in &mut self.stored {
            match pass.caches == Some(*node) {
                true => slabs.trim_to_cache(),
                false => slabs.trim(&chain.planes_of(*node, chain.share())),
            }
        }
    }

    fn perform(&mut self, task: Task, planes: Range<usize>) {
        if let Task::Make(node) = task {
            return self.advance(node, planes.end);
        }
        let mut read = self.read_all(task.needs(self.chain, &planes)).into_iter();
        let x = read.next().flatten().expect("a task reads planes of a volume");
        let gradient = read.next().flatten();
        match task {
            Task::Moments(stage) => {
                self.progress[stage].add_moments(self.chain.stage(stage), &x);
            }
            Task::Sums(stage) => {
                let gradient = self.convolved_gradient(stage, &planes, gradient);
                self.progress[stage].add_sums(self.chain.stage(stage), &x, gradient);
            }
            Task::Weights(stage) => {
                let gradient = gradient.expect("the gradient of planes that are not none");
                self.progress[stage].add_weights(self.chain, stage, &planes, &x, &gradient);
            }
            Task::Make(_) => {}
        }
    }

    /// Planes of a node, made as far as needed; `None` for none.
    fn read(&mut self, (node, planes): Need) -> Option<Tensor<5>> {
        if planes.is_empty() {
            return None;
        }
        self.advance(node, planes.end);
        self.stored.get(&node).map(|slabs| slabs.read(planes))
    }

    fn read_all(&mut self, needs: Vec<Need>) -> Vec<Option<Tensor<5>>> {
        needs.into_iter().map(|need| self.read(need)).collect()
    }

    /// Makes a node up to a plane.
    fn advance(&mut self, node: Node, end: usize) {
        let made = self.stored.entry(node).or_default().end();
        if made < end {
            let planes = made..self.chain.aligned(node, end);
            let slab = match node {
                Node::Value(volume) => self.value(volume, &planes),
                Node::Gradient(volume) => self.gradient(volume, &planes),
            };
            self.stored.entry(node).or_default().push(slab);
            self.release();
        }
    }

    fn value(&mut self, volume: usize, planes: &Range<usize>) -> Tensor<5> {
        let mut read = self.read_all(self.chain.needs(Node::Value(volume), planes)).into_iter();
        let x = read.next().flatten().expect("a kernel sees planes of its input");
        let stage = self.chain.maker(volume).expect("the inputs are there");
        slab::value(self.chain, &self.progress[stage], stage, planes, &x, read.next().flatten())
    }

    fn gradient(&mut self, volume: usize, planes: &Range<usize>) -> Tensor<5> {
        let mut sum = None;
        let chain = self.chain;
        // One after the other, so that one contribution is there at a time.
        for stage in chain.readers(volume) {
            let seen = self.read((Node::Gradient(chain.made_by(stage)), chain.reach(stage).outputs(planes)));
            let convolved = self.convolved_gradient(stage, planes, seen);
            let x = match chain.stage(stage).changes_input() {
                true => self.read((Node::Value(volume), planes.clone())),
                false => None,
            };
            slab::add(&mut sum, slab::input_gradient(chain, &self.progress[stage], stage, x, convolved));
        }
        for stage in chain.adders(volume) {
            let added = self.read((Node::Gradient(chain.made_by(stage)), planes.clone()));
            slab::add(&mut sum, added.expect("planes that are not none"));
        }
        sum.expect("every volume is read by a stage behind it")
    }

    fn convolved_gradient(&self, stage: usize, planes: &Range<usize>, gradient: Option<Tensor<5>>) -> Tensor<5> {
        match gradient {
            Some(gradient) => slab::convolved_gradient(self.chain, stage, planes, gradient),
            None => {
                let [batch_size, channels, _, height, width] = self.chain.dims(self.chain.stage(stage).of);
                Tensor::zeros([batch_size, channels, planes.len(), height, width], (&self.device, self.dtype))
            }
        }
    }

    /// Lets go of all planes that neither the rest of this pass asks for nor the passes behind it.
    ///
    /// What is being made is safe: a task is not done before it is over, and what it asks for follows from its first plane.
    fn release(&mut self) {
        let needed = self.needed();
        for (node, slabs) in self.stored.iter_mut().filter(|(node, _)| !self.keeps.contains(node)) {
            slabs.drop_below(needed.get(node).copied().unwrap_or(usize::MAX));
        }
    }

    /// The first plane of each node that the rest of the pass asks for.
    fn needed(&self) -> BTreeMap<Node, usize> {
        let mut needed = BTreeMap::new();
        let ask = |needed: &mut BTreeMap<Node, usize>, needs: Vec<Need>| {
            for (node, planes) in needs {
                let first = needed.entry(node).or_insert(planes.start);
                *first = planes.start.min(*first);
            }
        };
        for (task, left) in self.tasks.iter().filter(|(_, left)| !left.is_empty()) {
            ask(&mut needed, task.needs(self.chain, &(left.start..left.start + 1)));
        }
        for node in self.chain.nodes() {
            let made = self.stored.get(&node).map_or(0, Slabs::end);
            if needed.contains_key(&node) && self.ends.get(&node).is_some_and(|end| made < *end) {
                ask(&mut needed, self.chain.needs(node, &(made..made + 1)));
            }
        }
        needed
    }
}

/// The planes in front of a share and behind it that are asked for.
fn beyond(own: &Range<usize>, asked: Option<&Range<usize>>) -> [Range<usize>; 2] {
    let asked = asked.unwrap_or(own);
    [asked.start.min(own.start)..own.start, own.end..asked.end.max(own.end)]
}
