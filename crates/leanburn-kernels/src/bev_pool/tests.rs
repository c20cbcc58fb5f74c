//! Against plain loops over all points, on any number of threads.

use super::*;

const BINS: usize = 3;
const PIXELS: usize = 10;
const CHANNELS: usize = 11;
const GRID: [usize; 3] = [1, 2, 4];

fn cells() -> BevCells {
    let cell = |place: usize| match place * 7 % 11 {
        cell @ 0..8 => cell as u32,
        _ => BevCells::OUTSIDE,
    };
    BevCells::new(BINS, PIXELS, GRID, (0..2 * BINS * PIXELS).map(cell).collect())
}

fn values(salt: usize, length: usize) -> Vec<f32> {
    (0..length).map(|place| ((place * 31 + salt) % 17) as f32 / 17.0 - 0.4).collect()
}

#[test]
fn points_are_listed_by_their_cells_in_their_order() {
    let cells = BevCells::new(2, 2, [1, 1, 2], vec![1, 0, BevCells::OUTSIDE, 1, 0, 0, 0, 1]);
    assert_eq!((cells.batch_size(), cells.inside()), (2, 7));
    assert_eq!([cells.points(0, 0), cells.points(0, 1)], [&[1][..], &[0, 3]]);
    assert_eq!([cells.points(1, 0), cells.points(1, 1)], [&[0, 1, 2][..], &[3]]);
    assert_eq!(cells.cells(1, 1), [0, 1]);
}

#[test]
fn sums_and_gradients_are_those_of_plain_loops() {
    let (cells, count) = (cells(), GRID.iter().product::<usize>());
    let (features, depth) = (values(1, 2 * CHANNELS * PIXELS), values(5, 2 * BINS * PIXELS));
    let gradient = values(9, 2 * CHANNELS * count);
    let mut expected = [vec![0.0f64; gradient.len()], vec![0.0; features.len()], vec![0.0; depth.len()]];
    for (place, point) in (0..2 * BINS * PIXELS).enumerate() {
        let (item, pixel) = (point / (BINS * PIXELS), point % PIXELS);
        let cell = cells.cells(item, point / PIXELS % BINS)[pixel] as usize;
        for channel in (0..CHANNELS).filter(|_| cell < count) {
            let (row, cell) = (item * CHANNELS + channel, (item * CHANNELS + channel) * count + cell);
            let (feature, depth) = (f64::from(features[row * PIXELS + pixel]), f64::from(depth[place]));
            expected[0][cell] += depth * feature;
            expected[1][row * PIXELS + pixel] += depth * f64::from(gradient[cell]);
            expected[2][place] += feature * f64::from(gradient[cell]);
        }
    }
    let run = || {
        let mut found = [vec![f32::NAN; gradient.len()], vec![f32::NAN; features.len()], vec![f32::NAN; depth.len()]];
        let [pooled, of_features, of_depth] = &mut found;
        bev_pool(&cells, &features, &depth, pooled);
        bev_pool_backward(&cells, [&features, &depth], &gradient, [Some(of_features), Some(of_depth)]);
        found
    };
    let found = run();
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.iter().zip(expected).all(|(found, expected)| (f64::from(*found) - expected).abs() < 1e-6));
    }
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert!(pool.install(run) == found, "{threads} threads");
    }
}

#[test]
#[should_panic(expected = "expected a cell below 8, the grid [1, 2, 4], found 8")]
fn a_cell_outside_of_the_grid_is_rejected() {
    BevCells::new(1, 1, GRID, vec![8]);
}

#[test]
#[should_panic(expected = "depths are [batch_size, bins, pixels]")]
fn a_short_slice_panics() {
    bev_pool(&cells(), &values(0, 2 * PIXELS), &[0.0], &mut [0.0; 16]);
}
