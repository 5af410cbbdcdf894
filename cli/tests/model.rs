//! Random policies and traces: the tool decides as a sequential model does, to the token and to the nanosecond.

mod common;
#[path = "model/pipeline.rs"]
mod pipeline;
#[path = "model/quota.rs"]
mod quota;

use common::{Case, lines};
use pipeline::{Draw, Stage, Table, Told, decide};
use quota::{Quota, Release};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

const SECOND: i128 = 1_000_000_000;

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere, so that a seed names a case.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    fn from(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

#[derive(Clone)]
enum CostOf {
    Tokens(i128),
    Field(&'static str),
}

struct Rule {
    name: String,
    key: Vec<&'static str>,
    cost: CostOf,
    only_200: bool,
    quota: Quota,
}

/// A policy in the model's terms and in the tool's.
#[derive(Default)]
struct Policy {
    text: String,
    atomic: bool,
    cap: usize,
    agent: Option<Quota>,
    session: Option<Quota>,
    invocations: Option<Quota>,
    spend: Option<Quota>,
    rules: Vec<Rule>,
}

/// One of a guard's limits: `percent` of the time, up to `most` a window.
struct GuardShape {
    window: u64,
    burst: f64,
    exact: bool,
}

impl GuardShape {
    fn random(random: &mut Random) -> Self {
        let exact = random.percent(50);
        Self { window: random.pick(&[1, 2, 10]), burst: random.pick(&[1.0, 1.5, 2.0]), exact }
    }

    fn header(&self, name: &str) -> String {
        let refill = if self.exact { "exact" } else { "milli-token" };
        let (window, burst) = (self.window, self.burst);
        format!("[{name}]\nwindow_secs = {window}\nburst_factor = {burst:?}\nrefill = \"{refill}\"\n")
    }

    fn quota(&self, per_window: u64) -> Quota {
        let capacity = match per_window {
            0 => 0,
            some => ((some as f64 * self.burst).round() as i128).max(1),
        };
        let (tokens, window) = (i128::from(per_window), i128::from(self.window));
        match self.exact {
            true => Quota { release: Release::Rate { tokens, per: window * SECOND }, capacity },
            false => Quota::milli(tokens, window, capacity),
        }
    }

    fn limit(&self, random: &mut Random, text: &mut String, key: &str, most: u64) -> Quota {
        let per_window = random.from(0, most);
        writeln!(text, "{key} = {per_window}").unwrap();
        self.quota(per_window)
    }
}

impl Policy {
    fn random(random: &mut Random) -> Self {
        let mut policy = Self {
            atomic: random.percent(50),
            cap: random.pick(&[1, 2, 3, 5, 8, 65_536]),
            ..Self::default()
        };
        let mut text = String::new();
        if random.percent(60) {
            let shape = GuardShape::random(random);
            text += &shape.header("agent_velocity");
            if random.percent(70) {
                policy.agent = Some(shape.limit(random, &mut text, "max_requests_per_agent", 6));
            }
            if random.percent(70) {
                policy.session = Some(shape.limit(random, &mut text, "max_requests_per_session", 4));
            }
        }
        if random.percent(60) {
            let shape = GuardShape::random(random);
            text += &shape.header("velocity");
            if random.percent(70) {
                policy.invocations = Some(shape.limit(random, &mut text, "max_invocations_per_window", 6));
            }
            // Two exact limits share one word at ticks that the model does not know.
            if random.percent(70) && !(shape.exact && policy.invocations.is_some()) {
                policy.spend = Some(shape.limit(random, &mut text, "max_spend_per_window", 40));
            }
        }
        let pairs = [(&policy.agent, &policy.session), (&policy.invocations, &policy.spend)];
        if pairs.iter().any(|(a, b)| a.is_some() && b.is_some()) {
            policy.cap = policy.cap.max(2); // one key needs two buckets
        }
        for number in 0..random.pick(&[0, 0, 1, 2, 3]) {
            policy.rules.push(Rule::random(random, number, &mut text));
        }
        let pipeline = if policy.atomic { "atomic" } else { "series" };
        policy.text = format!("pipeline = \"{pipeline}\"\nbucket_cap = {}\n{text}", policy.cap);
        policy
    }

    fn tables(&self) -> Vec<Table> {
        let pair = self.invocations.is_some() && self.spend.is_some();
        let grants = if pair { self.cap / 2 } else { self.cap };
        [self.cap, grants, self.cap].map(Table::new).into()
    }

    /// What an event asks of each stage.
    fn stages(&self, event: &Map<String, Value>) -> Vec<Stage> {
        let text = |field: &str| {
            event.get(field).map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
        };
        let whole = |field: &str| {
            event.get(field).map(|value| value.as_i64().map(i128::from).filter(|&cost| cost >= 0))
        };
        let mut stages = Vec::new();
        if self.agent.is_some() || self.session.is_some() {
            let limits = [("agent_velocity.agent", &self.agent), ("agent_velocity.session", &self.session)];
            let mut stage = Stage { table: 0, draws: Vec::new(), flaw: None };
            for (name, quota) in limits {
                let Some(quota) = *quota else { continue };
                let session = name.ends_with("session");
                match (text("agent"), text("capability")) {
                    (Some(agent), Some(capability)) if session => {
                        stage.add(name, quota, format!("session {agent:?} {capability:?}"), Some(1));
                    }
                    (Some(agent), _) if !session => {
                        stage.add(name, quota, format!("agent {agent:?}"), Some(1))
                    }
                    _ => stage.keyless(name, quota),
                }
            }
            stages.push(stage);
        }
        if self.invocations.is_some() || self.spend.is_some() {
            let limits = [("velocity.invocations", &self.invocations), ("velocity.spend", &self.spend)];
            let mut stage = Stage { table: 1, draws: Vec::new(), flaw: None };
            for (name, quota) in limits {
                let Some(quota) = *quota else { continue };
                let Some(capability) = text("capability") else {
                    stage.keyless(name, quota);
                    continue;
                };
                let cell = format!("{capability:?} {}", text("grant").unwrap_or("0".into()));
                let cost = if name.ends_with("spend") { whole("cost") } else { Some(Some(1)) };
                stage.add(name, quota, cell, cost.flatten());
                match cost {
                    None => stage.flaw(name, "no-declared-cost"),
                    Some(None) => stage.flaw(name, "bad-cost"),
                    Some(Some(_)) => {}
                }
            }
            stages.push(stage);
        }
        if !self.rules.is_empty() {
            let mut stage = Stage { table: 2, draws: Vec::new(), flaw: None };
            for rule in &self.rules {
                if rule.only_200 && text("status").as_deref() != Some("200") {
                    continue;
                }
                let parts: Option<Vec<_>> = rule.key.iter().map(|field| text(field)).collect();
                let Some(parts) = parts else {
                    stage.keyless(&rule.name, rule.quota);
                    continue;
                };
                let cost = match rule.cost {
                    CostOf::Tokens(tokens) => Some(Some(tokens)),
                    CostOf::Field(field) => whole(field),
                };
                stage.add(&rule.name, rule.quota, format!("{} {parts:?}", rule.name), cost.flatten());
                match cost {
                    None => stage.flaw(&rule.name, "missing-field"),
                    Some(None) => stage.flaw(&rule.name, "bad-cost"),
                    Some(Some(_)) => {}
                }
            }
            stages.push(stage);
        }
        stages
    }
}

impl Stage {
    fn add(&mut self, limit: &str, quota: Quota, cell: String, cost: Option<i128>) {
        self.draws.push(Draw { limit: limit.into(), quota, cell, cost });
    }
    /// The event lacks a field of the limit's key.
    fn keyless(&mut self, limit: &str, quota: Quota) {
        self.add(limit, quota, "nobody".into(), None);
        self.flaw(limit, "missing-field");
    }
    fn flaw(&mut self, limit: &str, reason: &'static str) {
        self.flaw.get_or_insert((limit.into(), reason));
    }
}

impl Rule {
    fn random(random: &mut Random, number: usize, text: &mut String) -> Self {
        let name = format!("limit-{number}");
        let key = random.pick(&[vec![], vec!["ip"], vec!["ip", "agent"], vec!["status"]]);
        let (cost, cost_text) = match random.below(4) {
            0 => (CostOf::Field("cost"), "\"cost\"".to_owned()),
            1 => (CostOf::Field("n"), "\"n\"".to_owned()),
            tokens => (CostOf::Tokens(i128::from(tokens) - 1), (tokens - 1).to_string()),
        };
        let only_200 = random.percent(30);
        let tokens = random.from(1, 8);
        let per: u64 = random.pick(&[1, 3, 7, 1_000]) * random.pick(&[1_000_000, 10_000_000, 1_000_000_000]);
        let (release, capacity, amount) = if random.percent(60) {
            let burst = random.from(1, 10);
            let amount = format!("rate = {{ tokens = {tokens}, per = \"{per}ns\", burst = {burst} }}");
            (Release::Rate { tokens: tokens.into(), per: per.into() }, burst, amount)
        } else {
            let anchor = random.below(10_000_000_000);
            let amount =
                format!("window = {{ tokens = {tokens}, per = \"{per}ns\", anchor = \"{anchor}ns\" }}");
            (
                Release::Window { tokens: tokens.into(), per: per.into(), anchor: anchor.into() },
                tokens,
                amount,
            )
        };
        writeln!(text, "[[limit]]\nname = \"{name}\"\nkey = {key:?}\ncost = {cost_text}\n{amount}").unwrap();
        if only_200 {
            writeln!(text, "when = {{ status = 200 }}").unwrap();
        }
        Self { name, key, cost, only_200, quota: Quota { release, capacity: capacity.into() } }
    }
}

/// A trace whose times step forwards, stand still and run backwards.
fn trace(random: &mut Random) -> Vec<Map<String, Value>> {
    let mut t = random.pick(&[0i64, 3, 123_456_789, 1_700_000_000_123]) * random.pick(&[1, 1_000_000]);
    let steps = [
        0,
        0,
        0,
        1,
        100_000,
        1_000_000,
        10_000_000,
        100_000_000,
        1_000_000_000,
        3_000_000_000,
        -1_000_000,
        -1_000_000_000,
    ];
    (0..random.from(1, 120))
        .map(|_| {
            t = (t + random.pick(&steps) * random.from(1, 3) as i64).max(0);
            let mut event = Map::from_iter([("t_ns".to_owned(), json!(t))]);
            let mut put = |random: &mut Random, percent: u64, name: &str, values: &[Value]| {
                if random.percent(percent) {
                    event.insert(name.into(), random.pick(values));
                }
            };
            put(random, 95, "agent", &[json!("a"), json!("b"), json!("c")]);
            put(random, 95, "capability", &[json!("x"), json!("y"), json!(7)]);
            put(random, 30, "grant", &[json!(0), json!(1), json!(2)]);
            put(random, 93, "cost", &[0, 1, 2, 5, 9, 30, -1].map(|cost| json!(cost)));
            put(random, 90, "ip", &[json!("1"), json!(1), json!("")]);
            put(random, 90, "status", &[json!(200), json!("200"), json!(404)]);
            put(random, 95, "n", &[0, 1, 2, 3, 4].map(|cost| json!(cost)));
            event
        })
        .collect()
}

/// A decision of the tool, in the model's terms.
fn told(decision: &Map<String, Value>) -> Told {
    let text = |field: &str| decision.get(field).and_then(Value::as_str).unwrap_or("");
    let known =
        |word: &str, words: &[&'static str]| words.iter().copied().find(|known| *known == word).unwrap();
    let refused = (text("verdict") != "admit").then(|| {
        let reasons =
            ["exhausted", "impossible", "table-full", "missing-field", "bad-cost", "no-declared-cost"];
        let reason = known(text("reason"), &reasons);
        // Which of several new keys found the table full is the engine's business.
        let limit = if reason == "table-full" { "" } else { text("limit") };
        let wait = decision.get("retry_after_ns").map(|wait| i128::from(wait.as_u64().unwrap()));
        (known(text("verdict"), &["deny", "never", "error"]), limit.to_owned(), reason, wait)
    });
    let left = |(name, tokens): (&String, &Value)| (name.clone(), i128::from(tokens.as_u64().unwrap()));
    Told { refused, remaining: decision["remaining"].as_object().unwrap().iter().map(left).collect() }
}

#[test]
fn every_decision_is_the_models() {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..250 {
        let random = &mut Random(seed);
        let policy = Policy::random(random);
        let events = trace(random);
        let replay = Case::new(&policy.text, &lines(events.iter().cloned().map(Value::Object))).replay().ok();
        assert_eq!(replay.decisions.len(), events.len());
        let mut tables = policy.tables();
        let mut latest = 0;
        for (event, decision) in events.iter().zip(&replay.decisions) {
            latest = latest.max(i128::from(event["t_ns"].as_i64().unwrap()));
            let expected = decide(&mut tables, &policy.stages(event), policy.atomic, latest);
            let context = || format!("seed {seed}, {decision:?} of {event:?} under\n{}", policy.text);
            assert_eq!(told(decision), expected, "{}", context());
            *reasons.entry(expected.refused.map_or("admitted", |refused| refused.2)).or_default() += 1;
        }
    }
    // A comparison in which some kind of decision never came up would prove little.
    for reason in
        ["admitted", "exhausted", "impossible", "table-full", "missing-field", "bad-cost", "no-declared-cost"]
    {
        assert!(reasons.get(reason).is_some_and(|&count| count > 100), "{reason}: {reasons:?}");
    }
}
