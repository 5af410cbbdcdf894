//! Where a run was made: figures of two machines cannot be compared.

use serde::Serialize;

/// The machine, as far as it says. Empty where it does not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub platform: String,
    /// Processes that wanted to run in the last 1, 5 and 15 minutes before the run: other work makes spreads wide.
    pub load_before: String,
    /// Was the 128-bit compare-and-swap compiled in (`target-cpu=x86-64-v2` and above), or is it called through a
    /// check at run time?
    pub cmpxchg16b_compiled_in: bool,
}

impl Machine {
    /// This one, now.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg");
        Self {
            processor: model(&read("/proc/cpuinfo")).unwrap_or_default().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            load_before: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            cmpxchg16b_compiled_in: cfg!(target_feature = "cmpxchg16b"),
        }
    }
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_what_follows_its_name() {
        assert_eq!(model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"), Some("Some CPU @ 2 GHz"));
        assert_eq!(model(""), None);
        assert!(Machine::here().cores > 0);
    }
}
