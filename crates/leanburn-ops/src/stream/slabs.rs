//! A volume in pieces along its depth, made and let go of one by one.

use std::collections::VecDeque;
use std::ops::Range;

use burn::tensor::Tensor;
use leanburn_kernels::planes::{self, Piece};

use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::recording::{Call, Recorder, held_until_here};

/// Pieces of a volume one behind the other. Those at the front may be gone already, but for what is cached.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    cache: Cache,
    pieces: VecDeque<Tensor<5>>,
    /// First plane of the first piece.
    start: usize,
    /// Plane behind the last piece.
    end: usize,
    /// Whether it was given in one piece, which others may hold too.
    is_given: bool,
}

/// The first pieces of a volume, which stay when the others are let go of.
#[derive(Debug, Default)]
struct Cache {
    pieces: VecDeque<Tensor<5>>,
    /// First plane of the first piece.
    start: usize,
    /// Plane behind the last piece.
    end: usize,
    /// Pieces that begin before this plane stay.
    planes: usize,
}

impl Slabs {
    /// Planes in one piece, the first of which is plane `start`.
    pub(super) fn given(start: usize, planes: Tensor<5>) -> Self {
        let end = start + planes_of(&planes);
        Self { cache: Cache::default(), pieces: VecDeque::from([planes]), start, end, is_given: true }
    }

    /// No pieces yet; the first one begins at this plane.
    pub(super) fn starting_at(plane: usize) -> Self {
        Self { cache: Cache::default(), pieces: VecDeque::new(), start: plane, end: plane, is_given: false }
    }

    /// Plane behind the last piece.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Appends a piece.
    pub(super) fn push(&mut self, piece: Tensor<5>) {
        self.end += planes_of(&piece);
        self.pieces.push_back(piece);
    }

    /// Puts a piece in front.
    pub(super) fn push_front(&mut self, piece: Tensor<5>) {
        self.start -= planes_of(&piece);
        self.pieces.push_front(piece);
    }

    /// Lets go of the planes outside of these, which are there.
    pub(super) fn trim(&mut self, planes: &Range<usize>) {
        while let Some(piece) = self.pieces.front()
            && self.start < planes.start
        {
            let (whole, outside) = (planes_of(piece), planes.start - self.start);
            let rest = (whole > outside).then(|| run(Gather { pieces: &[(piece, outside..whole)] }));
            self.drop_front();
            rest.into_iter().for_each(|rest| self.push_front(rest));
        }
        while let Some(piece) = self.pieces.back()
            && self.end > planes.end
        {
            let (whole, outside) = (planes_of(piece), self.end - planes.end);
            let rest = (whole > outside).then(|| run(Gather { pieces: &[(piece, 0..whole - outside)] }));
            self.end -= whole.min(outside);
            held_until_here(self.pieces.pop_back().map(Tensor::into_dispatch).into_iter().collect());
            self.pieces.extend(rest);
        }
    }

    /// From here on the pieces that begin before this plane stay in a cache; before plane 0 begins none.
    pub(super) fn cache(&mut self, planes: usize) {
        self.cache.planes = planes;
    }

    /// Lets go of all that is not to be cached.
    pub(super) fn trim_to_cache(&mut self) {
        while !self.pieces.is_empty() {
            self.drop_front();
        }
        (self.start, self.end) = (self.cache.end, self.cache.end);
    }

    /// The planes: a piece itself where they are one, else a copy.
    ///
    /// # Panics
    ///
    /// Panics if they are not there, or none.
    pub(super) fn read(&self, planes: Range<usize>) -> Tensor<5> {
        let mut taken = Vec::new();
        let mut next = planes.start;
        for (first, pieces) in [(self.cache.start, &self.cache.pieces), (self.start, &self.pieces)] {
            let mut first = first;
            for piece in pieces {
                let whole = first..first + planes_of(piece);
                // The last planes of a cached piece may be in both.
                if whole.contains(&next) && next < planes.end {
                    let part = next..whole.end.min(planes.end);
                    next = part.end;
                    taken.push((piece, part.start - whole.start..part.end - whole.start));
                }
                first = whole.end;
            }
        }
        assert!(next == planes.end, "{planes:?} of {}..{}", self.start, self.end);
        match taken.as_slice() {
            [(piece, part)] if part.len() == planes_of(piece) => (*piece).clone(),
            _ => run(Gather { pieces: &taken }),
        }
    }

    /// Lets go of the pieces before a plane. Of the piece that it is in a few last planes stay, if they are few.
    pub(super) fn drop_below(&mut self, plane: usize) {
        self.cache.drop_below(plane);
        while let Some(piece) = self.pieces.front()
            && self.start + planes_of(piece) <= plane
        {
            self.drop_front();
        }
        let tail = self.pieces.front().map_or(0, |piece| (self.start + planes_of(piece)).saturating_sub(plane));
        if let Some(piece) = self.pieces.front()
            && !self.is_given
            && (1..=planes_of(piece) / 2).contains(&tail)
        {
            let planes = planes_of(piece);
            let kept = run(Gather { pieces: &[(piece, planes - tail..planes)] });
            self.drop_front();
            self.start -= tail;
            self.pieces.push_front(kept);
        }
    }

    /// Lets go of the first piece, or leaves it to the cache.
    fn drop_front(&mut self) {
        let Some(piece) = self.pieces.pop_front() else { return };
        let first = self.start;
        self.start += planes_of(&piece);
        if let Some(piece) = self.cache.taken(first, piece) {
            held_until_here(vec![piece.into_dispatch()]);
        }
    }

    /// All that is there, in one piece.
    pub(super) fn into_one(self) -> Tensor<5> {
        self.read(self.start..self.end)
    }
}

/// A run holds the pieces until here; a recording would let go of them when they are read for the last time.
impl Drop for Slabs {
    fn drop(&mut self) {
        let all = self.cache.pieces.drain(..).chain(self.pieces.drain(..));
        held_until_here(all.map(Tensor::into_dispatch).collect());
    }
}

impl Cache {
    /// Takes a piece that begins at plane `first`, if it is the next one to be cached; else gives it back.
    fn taken(&mut self, first: usize, piece: Tensor<5>) -> Option<Tensor<5>> {
        if first != self.end || first >= self.planes {
            return Some(piece);
        }
        self.end += planes_of(&piece);
        self.pieces.push_back(piece);
        None
    }

    /// Lets go of the pieces before a plane, if nothing is to be cached any more.
    fn drop_below(&mut self, plane: usize) {
        while let Some(piece) = self.pieces.front()
            && self.planes == 0
            && self.start + planes_of(piece) <= plane
        {
            self.start += planes_of(piece);
            held_until_here(self.pieces.pop_front().map(Tensor::into_dispatch).into_iter().collect());
        }
    }
}

fn planes_of(piece: &Tensor<5>) -> usize {
    piece.dims()[2]
}

/// The given planes of the pieces in one volume.
struct Gather<'a> {
    pieces: &'a [(&'a Tensor<5>, Range<usize>)],
}

impl Gather<'_> {
    fn first(&self) -> &Tensor<5> {
        self.pieces.first().expect("planes that are not none").0
    }

    fn dims(&self) -> [usize; 5] {
        let [batch_size, channels, _, height, width] = self.first().dims();
        [batch_size, channels, self.pieces.iter().map(|(_, planes)| planes.len()).sum(), height, width]
    }
}

impl Computation for Gather<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.first())
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let pieces = self.pieces.iter().map(|(piece, _)| *piece);
        let call = pieces.fold(Call::new(recorder, "gather_planes"), Call::reads);
        call.record_one(self.dims(), self.first().dtype())
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let dims @ [batch_size, channels, _, height, width] = self.dims();
        let tensors: Vec<CpuTensor> = self.pieces.iter().map(|(piece, _)| CpuTensor::of((*piece).clone())).collect();
        let pieces = tensors.iter().zip(self.pieces).map(|(tensor, (piece, taken))| Piece {
            values: tensor.values::<E>(),
            planes: planes_of(piece),
            taken: taken.clone(),
        });
        let values = planes::gather(batch_size * channels, height * width, &pieces.collect::<Vec<_>>());
        CpuTensor::from_vec(values, dims).into_tensor()
    }

    fn composed(self) -> Tensor<5> {
        let taken =
            |(piece, planes): &(&Tensor<5>, Range<usize>)| (*piece).clone().narrow(2, planes.start, planes.len());
        Tensor::cat(self.pieces.iter().map(taken).collect(), 2)
    }
}
