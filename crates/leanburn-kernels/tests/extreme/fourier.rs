//! Fourier transforms, their transposes, and products of spectra.

use leanburn_kernels::fourier::{Mixing, Part, Transform};

use super::{Draw, MOST, MOST_WORKSPACE, Outcome, expect_finite, unwritten, volume};

pub fn transform(draw: &mut Draw) -> Outcome {
    let (mut items, mut size) = (draw.usual(3), draw.three(12));
    let modes = draw.three(4);
    let sizes = [&mut items].into_iter().chain(&mut size);
    draw.disturb(&mut sizes.collect::<Vec<_>>());
    let least = if draw.below(5) == 0 { -2 } else { 0 };
    let frequencies = [-2, -3, least].map(|first| (first..).take(modes[(-first) as usize % 3]).collect::<Vec<i32>>());
    let Ok(transform) = Transform::to_amplitudes(size, &frequencies) else { return Outcome::Rejected };
    let (voxels, kept) = (volume(&[items, volume(&size)]), volume(&[2, items, volume(&transform.modes())]));
    if voxels.max(kept) > MOST || transform.flops() > 1 << 24 {
        return Outcome::Large;
    }
    if transform.to_spectra_workspace(items).max(transform.add_volumes_workspace(items)) > MOST_WORKSPACE {
        return Outcome::Large;
    }
    let (x, activation) = (draw.values(voxels), draw.activation());
    let mut spectra = unwritten(draw.len(kept));
    transform.to_spectra(&x, activation, &mut spectra);
    expect_finite(&spectra, kept, "spectra");
    let mut y = draw.values(voxels);
    transform.add_volumes(&spectra, &mut y);
    expect_finite(&y, voxels, "volumes");
    Outcome::Computed
}

pub fn mixing(draw: &mut Draw) -> Outcome {
    let mut sizes = [draw.usual(3), draw.usual(12), draw.usual(12), draw.usual(300)];
    draw.disturb(&mut sizes.iter_mut().collect::<Vec<_>>());
    let Ok(mixing) = Mixing::new(sizes) else { return Outcome::Rejected };
    let lens = [Part::Input, Part::Output, Part::Weight].map(|part| mixing.len(part));
    if lens.into_iter().any(|len| len > MOST) || mixing.flops() > 1 << 24 {
        return Outcome::Large;
    }
    let [input, output, weight] = lens.map(|len| draw.values(len));
    for (part, operands, len) in [
        (Part::Output, [&input, &weight], lens[1]),
        (Part::Input, [&output, &weight], lens[0]),
        (Part::Weight, [&input, &output], lens[2]),
    ] {
        let mut result = unwritten(draw.len(len));
        mixing.compute(part, operands.map(|values| &values[..]), &mut result);
        expect_finite(&result, len, "mixed spectra");
    }
    Outcome::Computed
}
