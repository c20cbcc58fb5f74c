//! The steps of a task of the weight gradient whose planes are transformed along the depth, see [`KernelTransform`].

use std::ops::Range;

use pulp::Arch;

use crate::Stored;
use crate::conv::packing::fill::FillPlane;
use crate::conv::packing::planes::{Source, Window};
use crate::conv::transforms::depth_transform::{KernelTransform, Mix, MixPlanes, PRODUCTS};
use crate::conv::weight_gradient::dot_products::PlanePair;
use crate::conv::weight_gradient::plan::March;
use crate::conv::weight_gradient::task::WeightTask;

impl WeightTask<'_> {
    /// Packs and transforms the planes of this step, `[group][product][channel][..]`.
    pub(super) fn pack_transformed<E: Stored>(
        &mut self,
        transform: &KernelTransform,
        [input, gradient]: [&Source<'_, E>; 2],
        window: &Window,
        step: &March,
    ) {
        let group = &transform.group;
        let [slot_len, plane_len] = self.plane_lens(window);
        let [of_input, of_gradient] = [0, 1].map(|of| self.first[of]..self.first[of] + self.channels[of]);
        let gradient_window = &self.plan.gradient_window(step.row, window);
        let (before, column_len) = (self.plan.shape.padding[0][0], self.plan.column_len());
        let scratch = &mut self.scratch;
        let planes = scratch.planes.chunks_exact_mut(PRODUCTS * slot_len);
        let groups = planes.zip(scratch.gradient.chunks_exact_mut(PRODUCTS * plane_len));
        for (first, (planes, columns)) in step.depths.clone().step_by(*group).zip(groups) {
            let depths =
                std::array::from_fn(|plane| (first + plane).checked_sub(before).filter(|depth| *depth < input.size[0]));
            let (item, channels, room) = (step.item, of_input.clone(), &mut scratch.room);
            let carried = Carried {
                count: self.plan.carried(),
                known: scratch.carried_to == Some(first),
                planes: &mut scratch.carried,
            };
            Planes { source: input, window, item, channels, depths, mix: Mix::Inputs, room }.pack(
                self.arch,
                carried,
                window.channel_len(),
                planes,
            );
            scratch.carried_to = Some(first + group);
            let last = step.depths.end.min(first + group);
            let depths = std::array::from_fn(|plane| Some(first + plane).filter(|depth| *depth < last));
            let (channels, room) = (of_gradient.clone(), &mut scratch.room);
            Planes {
                source: gradient,
                window: gradient_window,
                item,
                channels,
                depths,
                mix: Mix::Gradients(*group),
                room,
            }
            .pack(self.arch, Carried::default(), column_len, columns);
        }
    }

    /// Adds the dot products of this step's transformed planes to the sums.
    pub(super) fn add_transformed(&mut self, transform: &KernelTransform, window: &Window, step: &March) {
        let [slot_len, plane_len] = self.plane_lens(window);
        let groups = step.depths.len().div_ceil(transform.group);
        for product in 0..PRODUCTS {
            let planes = (0..groups).map(|group| group * PRODUCTS + product);
            let planes: Vec<_> =
                planes.map(|plane| PlanePair { input: plane * slot_len, gradient: plane * plane_len }).collect();
            self.add_planes(window, &planes, product);
        }
    }
}

/// The planes of a group, of the input or of the gradient.
struct Planes<'a, 'b, E> {
    source: &'a Source<'b, E>,
    /// What of each plane.
    window: &'a Window,
    /// Item of the batch.
    item: usize,
    /// Channels, numbered over all groups of them.
    channels: Range<usize>,
    /// The planes; zeros where there is none.
    depths: [Option<usize>; PRODUCTS],
    /// How they are transformed.
    mix: Mix<'static>,
    /// Room for a row.
    room: &'a mut Vec<f32>,
}

/// Packed planes at the end of a group that are the next one's first.
#[derive(Default)]
struct Carried<'a> {
    count: usize,
    /// Whether there are those of the group before.
    known: bool,
    /// `[channel][plane][..]`.
    planes: &'a mut [f32],
}

impl<E: Stored> Planes<'_, '_, E> {
    /// Packs and transforms them, `[product][channel][..]`, channel by channel, while its planes are close.
    fn pack(self, arch: Arch, carried: Carried<'_>, channel_len: usize, target: &mut [f32]) {
        let Self { source, window, item, channels, depths, mix, room } = self;
        let stride = target.len() / PRODUCTS;
        let last_channel = channels.end.saturating_sub(1);
        for (index, channel) in channels.enumerate() {
            let target = &mut target[index * channel_len..];
            let shared = &mut carried.planes[index * carried.count * channel_len..][..carried.count * channel_len];
            let known = if carried.known { carried.count } else { 0 };
            for (target, shared) in target.chunks_mut(stride).zip(shared.chunks_exact(channel_len)).take(known) {
                target[..channel_len].copy_from_slice(shared);
            }
            let read = if let Mix::Gradients(planes) = mix { planes } else { PRODUCTS };
            for (depth, target) in depths.into_iter().zip(target.chunks_mut(stride)).take(read).skip(known) {
                let (channels, target) = (channel..channel + 1, &mut target[..channel_len]);
                match depth {
                    Some(depth) => arch.dispatch(FillPlane { source, window, item, channels, depth, room, target }),
                    None => target.fill(0.0),
                }
            }
            let last = target.chunks(stride).skip(PRODUCTS - carried.count);
            for (target, shared) in last.zip(shared.chunks_exact_mut(channel_len)) {
                shared.copy_from_slice(&target[..channel_len]);
            }
            if channel < last_channel {
                for depth in depths.iter().take(read).skip(known).flatten() {
                    source.prefetch_window(window, [item, channel + 1, *depth]);
                }
            }
            arch.dispatch(MixPlanes::by(mix, target, stride, channel_len));
        }
    }
}
