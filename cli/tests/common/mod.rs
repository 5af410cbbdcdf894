//! Runs the built tool in a directory of its own, as a user would.
#![allow(dead_code)] // each test file uses its part

use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The repository's root, where the shipped examples are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The tool.
pub fn tollgate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
}

/// A directory with a policy and a trace.
pub struct Case {
    pub dir: TempDir,
    policy: String,
    input: String,
    args: Vec<String>,
}

impl Case {
    pub fn new(policy: &str, events: &str) -> Self {
        Self::named(policy, "trace.jsonl", events.as_bytes())
    }

    /// A case whose trace has a name of its own, and bytes.
    pub fn named(policy: &str, input: &str, bytes: &[u8]) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("policy.toml"), policy).unwrap();
        std::fs::write(dir.path().join(input), bytes).unwrap();
        Self { dir, policy: "policy.toml".into(), input: input.into(), args: Vec::new() }
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    /// Runs `replay` with decisions and a JSON summary.
    pub fn replay(&self) -> Replay {
        let args = ["--summary", "json", "--decisions", "decisions.jsonl"];
        let output = self.command("replay").args(["--input", &self.input]).args(args).output().unwrap();
        let decisions = std::fs::read_to_string(self.dir.path().join("decisions.jsonl")).unwrap_or_default();
        Replay::new(output, &decisions)
    }

    /// Runs `replay` without any further argument.
    pub fn plain(&self) -> Output {
        self.command("replay").args(["--input", &self.input]).output().unwrap()
    }

    /// Runs `replay` with the trace on standard input.
    pub fn piped(&self) -> Replay {
        let mut command = self.command("replay");
        command.args(["--input", "-", "--summary", "json", "--decisions", "decisions.jsonl"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let bytes = std::fs::read(self.dir.path().join(&self.input)).unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        let decisions = std::fs::read_to_string(self.dir.path().join("decisions.jsonl")).unwrap_or_default();
        Replay::new(output, &decisions)
    }

    /// Runs `explain`.
    pub fn explain(&self) -> Output {
        self.command("explain").output().unwrap()
    }

    pub fn command(&self, command: &str) -> Command {
        let mut tool = tollgate();
        tool.current_dir(self.dir.path()).args([command, "--policy", &self.policy]).args(&self.args);
        tool
    }
}

/// What a replay left behind.
pub struct Replay {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub decisions: Vec<Map<String, Value>>,
}

impl Replay {
    fn new(output: Output, decisions: &str) -> Self {
        let object = |line: &str| match serde_json::from_str(line) {
            Ok(Value::Object(object)) => object,
            other => panic!("decision {line:?} is {other:?}"),
        };
        Self {
            code: output.status.code().expect("not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            decisions: decisions.lines().map(object).collect(),
        }
    }

    /// Asserts success.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// The JSON summary, which is alone on standard output.
    pub fn summary(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// One letter a decision: Admit, Deny, Never, Error.
    pub fn verdicts(&self) -> String {
        let letter = |decision: &Map<String, Value>| match decision["verdict"].as_str().unwrap() {
            "admit" => 'A',
            "deny" => 'D',
            "never" => 'N',
            "error" => 'E',
            other => panic!("verdict {other}"),
        };
        self.decisions.iter().map(letter).collect()
    }

    /// The decisions as `verdict limit reason retry_after_ns`, without what is absent.
    pub fn told(&self) -> Vec<String> {
        let told = |decision: &Map<String, Value>| {
            let fields = ["verdict", "limit", "reason", "retry_after_ns"];
            let values = fields.iter().filter_map(|field| decision.get(*field));
            let texts = values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join(" ")
        };
        self.decisions.iter().map(told).collect()
    }

    /// What is left of `limit` after decision number `seq`; `None` if it is not told.
    pub fn remaining(&self, seq: usize, limit: &str) -> Option<u64> {
        self.decisions[seq]["remaining"].get(limit).map(|tokens| tokens.as_u64().unwrap())
    }

    /// The limits that decision number `seq` tells the rest of, in order.
    pub fn told_remaining(&self, seq: usize) -> Vec<String> {
        self.decisions[seq]["remaining"].as_object().unwrap().keys().cloned().collect()
    }
}

/// Lines of JSONL from values.
pub fn lines(values: impl IntoIterator<Item = Value>) -> String {
    values.into_iter().map(|value| value.to_string() + "\n").collect()
}
