//! Pooling in a bird's-eye view and its gradients.

use leanburn_kernels::bev_pool::{BevCells, bev_pool, bev_pool_backward, bev_pool_backward_workspace};

use super::{Draw, MOST, MOST_WORKSPACE, Outcome, expect_finite, unwritten, volume};

pub fn pool(draw: &mut Draw) -> Outcome {
    let [mut items, mut bins, mut pixels] = draw.three(6);
    let ([mut depth, mut rows, mut columns], mut channels) = (draw.three(5), draw.usual(20));
    draw.disturb(&mut [&mut items, &mut bins, &mut pixels, &mut depth, &mut rows, &mut columns, &mut channels]);
    let (points, count) = (volume(&[items, bins, pixels]), volume(&[depth, rows, columns]));
    let all = volume(&[items, count]);
    // what is listed takes memory where it is accepted
    if points > MOST || (all > MOST && all < u32::MAX as usize) {
        return Outcome::Large;
    }
    let beyond = usize::from(draw.below(30) == 0);
    let mut cell = |_| match draw.below(6) {
        0 => BevCells::OUTSIDE,
        _ => draw.below(count.clamp(1, MOST) + beyond) as u32,
    };
    let places: Vec<u32> = (0..points).map(&mut cell).collect();
    let places = places[..draw.len(points).min(points)].to_vec();
    let cells = BevCells::new(bins, pixels, [depth, rows, columns], places);
    let [features, depth, pooled] = [pixels, bins * pixels, count].map(|each| volume(&[items, each]));
    let [features, pooled] = [features, pooled].map(|each| volume(&[each, channels]));
    if features.max(pooled) > MOST || bev_pool_backward_workspace(&cells, channels) > MOST_WORKSPACE {
        return Outcome::Large;
    }
    let [features, depth] = [features, depth].map(|length| draw.values(length));
    let mut output = unwritten(draw.len(pooled));
    bev_pool(&cells, &features, &depth, &mut output);
    expect_finite(&output, pooled, "what is pooled");
    let gradient = draw.values(pooled);
    let mut gradients = [&features, &depth].map(|values| unwritten(draw.len(values.len())));
    let [of_features, of_depth] = &mut gradients;
    bev_pool_backward(&cells, [&features, &depth], &gradient, [Some(of_features), Some(of_depth)]);
    expect_finite(&gradients[0], features.len(), "the gradient of the features");
    expect_finite(&gradients[1], depth.len(), "the gradient of the depth");
    Outcome::Computed
}
