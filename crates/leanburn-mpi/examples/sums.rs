//! How long the sum of a step's gradients takes on this network: for as many weights as the autoencoder of the recipes has, and `Vae3d`.
//!
//! ```bash
//! cargo build --release -p leanburn-mpi --features mpi --example sums
//! mpirun -n 4 target/release/examples/sums
//! ```

use std::time::Instant;

const ROUNDS: usize = 11;

fn main() -> Result<(), leanburn_mpi::JoinError> {
    let group = leanburn_mpi::join()?;
    let (rank, size) = (group.ranks().rank(), group.ranks().size());
    for weights in [1_345_864, 41_638_132] {
        let mut gradients = vec![0.0; weights];
        let mut seconds: Vec<f64> = (0..ROUNDS)
            .map(|round| {
                gradients.fill((rank + round) as f32);
                group.any(false); // all begin at once
                let began = Instant::now();
                group.ranks().sum(&mut gradients);
                let expected = (0..size).map(|rank| (rank + round) as f32).sum::<f32>();
                assert!(gradients.iter().all(|&sum| sum == expected), "the sum over all ranks");
                began.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        if group.leads() {
            println!("{size} ranks, {weights} weights: {:.1} ms, the median of {ROUNDS}", 1e3 * seconds[ROUNDS / 2]);
        }
    }
    Ok(())
}
