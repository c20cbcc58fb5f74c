//! Pooling of lifted features, and its gradients.

use leanburn_kernels::bev_pool::{
    BevCells, bev_pool, bev_pool_backward, bev_pool_backward_workspace, bev_pool_workspace,
};

use super::{Draw, MOST, MOST_WORKSPACE, Outcome, expect_finite, unwritten, volume};

pub fn pool(draw: &mut Draw) -> Outcome {
    let [mut items, mut bins, mut pixels, mut channels] = [draw.usual(3), draw.usual(5), draw.usual(20), draw.usual(5)];
    let mut grid = draw.three(4);
    let sizes = [&mut items, &mut bins, &mut pixels, &mut channels].into_iter().chain(&mut grid);
    draw.disturb(&mut sizes.collect::<Vec<_>>());
    let (points, count) = (volume(&[items, bins, pixels]).min(MOST), volume(&grid));
    let below = count.clamp(1, MOST);
    let cell = |draw: &mut Draw| match draw.below(4) {
        0 => BevCells::OUTSIDE,
        _ => (draw.below(below) + usize::from(draw.below(1000) == 0)) as u32,
    };
    let places = (0..draw.len(points)).map(|_| cell(draw)).collect();
    if volume(&[items, count]) > MOST && volume(&[bins, pixels, count]) > 0 {
        return Outcome::Large; // lists of that many cells
    }
    let cells = BevCells::new(bins, pixels, grid, places);
    let items = cells.batch_size();
    let [features, depth, output] =
        [[channels, pixels], [bins, pixels], [channels, count]].map(|[one, other]| volume(&[items, one, other]));
    if features.max(depth).max(output) > MOST {
        return Outcome::Large;
    }
    if bev_pool_workspace(&cells).max(bev_pool_backward_workspace(&cells, channels)) > MOST_WORKSPACE {
        return Outcome::Large;
    }
    let (features_of, depth_of) = (draw.values(features), draw.values(depth));
    let mut pooled = unwritten(draw.len(output));
    bev_pool(&cells, &features_of, &depth_of, &mut pooled);
    expect_finite(&pooled, output, "the pooled features");
    let gradient = draw.values(output);
    let [mut of_features, mut of_depth] = [features, depth].map(|len| unwritten(draw.len(len)));
    let gradients = [Some(&mut of_features[..]), Some(&mut of_depth[..])];
    bev_pool_backward(&cells, [&features_of, &depth_of], &gradient, gradients);
    expect_finite(&of_features, features, "the gradient of the features");
    expect_finite(&of_depth, depth, "the gradient of the depth");
    Outcome::Computed
}
