//! The steps of a task of the weight gradient whose planes are transformed along the depth, see [`KernelTransform`].

use crate::Stored;
use crate::conv::packing::planes::{Source, Window};
use crate::conv::transforms::depth_transform::{Carried, KernelTransform, Mix, PRODUCTS, PackGroup};
use crate::conv::weight_gradient::dot_products::{PlanePair, tiles};
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
            let is_known = scratch.carried_to == Some(first);
            let carried = Carried { count: self.plan.carried(), known: is_known, planes: &mut scratch.carried };
            let of_input = PackGroup {
                source: input,
                window,
                item: step.item,
                channels: of_input.clone(),
                depths,
                mix: Mix::Inputs,
                room: &mut scratch.room,
                carried,
                target: planes,
                strides: [slot_len, window.channel_len()],
                ahead: if is_known { input.channels_ahead() } else { 0 },
            };
            of_input.run(self.arch);
            scratch.carried_to = Some(first + group);
            let last = step.depths.end.min(first + group);
            let depths = std::array::from_fn(|plane| Some(first + plane).filter(|depth| *depth < last));
            let of_gradient = PackGroup {
                source: gradient,
                window: gradient_window,
                item: step.item,
                channels: of_gradient.clone(),
                depths,
                mix: Mix::Gradients(*group),
                room: &mut scratch.room,
                carried: Carried::default(),
                target: columns,
                strides: [plane_len, column_len],
                ahead: if is_known { gradient.channels_ahead() } else { 0 },
            };
            of_gradient.run(self.arch);
        }
    }

    /// Plans to ask for the planes of the next step, while the dot products of this one are computed.
    pub(super) fn look_ahead<E: Stored>(
        &mut self,
        transform: &KernelTransform,
        [input, gradient]: [&Source<'_, E>; 2],
        window: &Window,
        next: &March,
    ) {
        let [of_input, of_gradient] = [0, 1].map(|of| self.first[of]..self.first[of] + self.channels[of]);
        let (before, first) = (self.plan.shape.padding[0][0], next.depths.start + self.plan.carried());
        let read = first..first + next.depths.len().next_multiple_of(transform.group);
        let read = read.filter_map(|depth| depth.checked_sub(before)).filter(|depth| *depth < input.size[0]);
        let of_input = read.map(|depth| input.part(window, next.item, of_input.clone(), depth));
        let gradient_window = self.plan.gradient_window(next.row, window);
        let of_gradient =
            next.depths.clone().map(|depth| gradient.part(&gradient_window, next.item, of_gradient.clone(), depth));
        self.scratch.ahead.plan(of_input.chain(of_gradient), PRODUCTS * tiles(self.rows.len(), self.channels[1]));
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
