//! The memory of this machine, or the part of it that this process may have.

use std::fs;
use std::path::Path;

use leanburn_common::Bytes;
use leanburn_train::CountingAllocator;

/// Memory that this process may have: the machine's, or less where its control group (a container, a job of a queue) or its address
/// space (`ulimit -v`) has a limit. `None` where the system does not say, which is anywhere but on Linux.
pub fn machine_memory() -> Option<Bytes> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| in_kib(&text, "MemTotal:"));
    let group = read("/proc/self/cgroup").and_then(|text| of_group(&text, read));
    let space = read("/proc/self/limits").and_then(|text| of_address_space(&text));
    [machine, group, space].into_iter().flatten().min()
}

/// What the heap may hold where nothing else is said: nine tenths of [`machine_memory`]. The rest is for the program itself and for what
/// the heap leaves unused. Of a control group the program is taken off: what exceeds a group is killed. Of an address space (`ulimit -v`)
/// what is mapped already is taken off, and what threads reserve.
pub fn heap_limit() -> Option<Bytes> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let group = read("/proc/self/cgroup").and_then(|text| of_group(&text, read));
    let group = group.map(|group| group.saturating_sub(Bytes::mib(PROGRAM_MIB)));
    let space = read("/proc/self/limits").and_then(|text| of_address_space(&text)).map(|space| {
        let mapped = read("/proc/self/status").and_then(|text| in_kib(&text, "VmSize:")).unwrap_or_default();
        let heap = Bytes(CountingAllocator.current_usage() as u64);
        let threads = std::thread::available_parallelism().map_or(1, usize::from) + LOADERS;
        space.saturating_sub(mapped.saturating_sub(heap)).saturating_sub(Bytes::mib(THREAD_MIB * threads as u64))
    });
    Some([space, group, machine_memory()].into_iter().flatten().min()?.share(0.9))
}

/// The most memory of this process that was resident at once since [`forget_resident_peak`], or since it began: heap, code, libraries,
/// stacks, and what the heap leaves unused. `None` where the system does not say, which is anywhere but on Linux.
pub fn resident_peak() -> Option<Bytes> {
    in_kib(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Counts [`resident_peak`] anew, where the system can.
pub fn forget_resident_peak() {
    // without it the peak is that of the whole process: not an error
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// What is resident of the program besides its heap: data of code and libraries, stacks, and memory that the threads' heaps leave unused.
/// 43 MiB of a run that held 281 MiB (the command in a development build with the features of GPUs, 2 threads, 2026-11-23).
const PROGRAM_MIB: u64 = 64;
/// Address space that glibc reserves for a thread: 64 MiB of heap, and a stack.
const THREAD_MIB: u64 = 72;
/// Threads that make batches, as configured by default.
const LOADERS: usize = 2;

/// A line such as `MemTotal:       24682912 kB`.
fn in_kib(text: &str, key: &str) -> Option<Bytes> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_whitespace().next()?.parse().ok().map(Bytes::kib)
}

/// The least that the control group of `/proc/self/cgroup` or one around it allows, in version 1 and 2.
fn of_group(text: &str, read: impl Fn(&str) -> Option<String>) -> Option<Bytes> {
    let limits = text.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or("/"));
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let folders = Path::new(path).ancestors().map(|folder| format!("{root}{}", folder.display()));
        let limit = |folder: String| read(&format!("{}/{file}", folder.trim_end_matches('/')))?.trim().parse().ok();
        folders.filter_map(limit).collect::<Vec<u64>>()
    });
    limits.min().map(Bytes)
}

/// The soft limit in a line such as `Max address space   4294967296   unlimited   bytes`.
fn of_address_space(text: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_files_are_read() {
        let meminfo = "MemTotal:       24682912 kB\nMemFree:        22000000 kB\n";
        assert_eq!(in_kib(meminfo, "MemTotal:"), Some(Bytes::kib(24_682_912)));
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n";
        let space =
            |soft: &str| of_address_space(&format!("{limits}Max address space         {soft}            9 bytes\n"));
        assert_eq!((space("4294967296"), space("unlimited")), (Some(Bytes::gib(4)), None));
        assert_eq!(of_address_space(limits), None);
    }

    #[test]
    fn the_least_of_the_groups_around_counts() {
        let files = |path: &str| {
            let limit = match path {
                "/sys/fs/cgroup/slice/job/memory.max" => "max\n",
                "/sys/fs/cgroup/slice/memory.max" => "1048576\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "9223372036854771712\n",
                "/sys/fs/cgroup/memory/box/memory.limit_in_bytes" => "2097152\n",
                _ => return None,
            };
            Some(limit.to_string())
        };
        assert_eq!(of_group("0::/slice/job\n", files), Some(Bytes::mib(1)));
        assert_eq!(of_group("5:cpu:/box\n4:memory:/box/inner\n0::/\n", files), Some(Bytes::mib(2)));
        assert_eq!(of_group("0::/\n", files), None);
        assert_eq!(of_group("nonsense", files), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_some() {
        assert!(machine_memory().unwrap() > Bytes::mib(64));
        assert!(heap_limit().unwrap() <= machine_memory().unwrap().share(0.9));
        let touched = vec![1_u8; 64 << 20];
        let peak = resident_peak().unwrap();
        assert!(peak > Bytes::mib(64) && peak < machine_memory().unwrap(), "{peak} of {}", touched.len());
        drop(touched);
        forget_resident_peak();
        assert!(resident_peak().unwrap() <= peak);
    }
}
