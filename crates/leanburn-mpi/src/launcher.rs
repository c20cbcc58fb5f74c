//! What a launcher tells the processes that it starts.

/// How many processes a launcher has started with this one, by the variables that it sets; 0 where there is no launcher.
///
/// Asked before MPI is initialized, so that a process on its own does without it. Of Slurm, those of the step: an allocation alone starts
/// one process.
pub fn ranks_of_launcher(variable: impl Fn(&str) -> Option<String>) -> usize {
    const SIZES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"];
    SIZES.into_iter().find_map(|name| variable(name)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_how_many_there_are() {
        let ranks = |variables: &[(&str, &str)]| {
            let variables = variables.to_vec();
            ranks_of_launcher(move |name| {
                variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
            })
        };
        assert_eq!(ranks(&[]), 0);
        assert_eq!(
            ranks(&[("OMPI_COMM_WORLD_SIZE", "4"), ("SLURM_STEP_NUM_TASKS", "1")]),
            4,
            "mpirun in a job of Slurm"
        );
        assert_eq!(ranks(&[("PMI_SIZE", "2")]), 2);
        assert_eq!(ranks(&[("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_NTASKS", "8")]), 8);
        assert_eq!(ranks(&[("SLURM_NTASKS", "8")]), 0, "an allocation without a step");
        assert_eq!(ranks(&[("PMI_SIZE", "many")]), 0);
    }
}
