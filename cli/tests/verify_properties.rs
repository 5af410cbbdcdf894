//! Properties of `tollgate verify`: honest histories are accepted in any order that threads can write, what follows from
//! other numbers cannot be another, and nothing makes it panic.

mod journal;

use journal::*;
use proptest::prelude::*;
use tollgate::effect::EffectPolicy;
use tollgate_cli::verify::{Verdict, verify};

/// The effects of [`journal`], and one whose line moves in microseconds.
const POLICY: &str = "
[[effect]]
tool = \"Fetch\"
rate = { limit = 1000, per = \"1s\", burst = 3 }
ttl = \"1ms\"
[[effect.quota]]
max = { limit = 7, per = \"10ms\", anchor = \"3ms\" }
";
const FETCH: usize = 2;

fn policy() -> EffectPolicy {
    EffectPolicy::from_toml(&[journal::POLICY, POLICY].concat()).unwrap()
}

fn effects() -> Vec<Effect> {
    let mut effects = journal::effects();
    let quotas =
        vec![Quota::rate(1_000, SECOND, 3, 1_000, "block"), Quota::max(7, 10_000_000, 3_000_000, "block")];
    effects.push(Effect { name: "Fetch", ttl: 1_000_000, hours: None, quotas });
    effects
}

fn verdict(text: &str) -> Verdict {
    verify(text.as_bytes(), &policy(), false).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Call { effect: usize, key: usize, cost: u64 },
    Refund(usize),
    Emit(usize),
    Forfeit(usize),
    Forget(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![
        Just(Step::Wait(1)),
        (1u64..2_000_000).prop_map(Step::Wait),
        (1u64..2 * SECOND).prop_map(Step::Wait),
        (1u64..10 * HOUR).prop_map(Step::Wait)
    ];
    let call =
        || (0usize..3, 0usize..3, 1u64..6).prop_map(|(effect, key, cost)| Step::Call { effect, key, cost });
    let end = || 0usize..8;
    let step = prop_oneof![
        2 => wait,
        6 => call(),
        3 => end().prop_map(Step::Refund),
        1 => end().prop_map(Step::Emit),
        1 => end().prop_map(Step::Forfeit),
        2 => end().prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 1..60)
}

/// Runs the steps; returns the model and, of each record, its time.
fn run(steps: &[Step]) -> (Model, Vec<u64>) {
    let mut model = Model::new(effects());
    let mut times = vec![0];
    let mut held: Vec<(usize, u64, u64)> = Vec::new();
    let mut t = 0;
    const KEYS: [&str; 3] = ["", "00ff", "61"];
    for step in steps {
        match *step {
            Step::Wait(span) => t += span,
            Step::Call { effect, key, cost } => {
                if let Some(grant) = model.call(effect, t, KEYS[key], cost) {
                    held.push((effect, t, grant));
                }
            }
            Step::Forget(which) => model.forget(which % 3, t, KEYS[which / 3 % 3]),
            Step::Refund(which) if which < held.len() => model.refund(t, held.remove(which).2),
            Step::Forfeit(which) if which < held.len() => model.forfeit(t, held.remove(which).2),
            Step::Emit(which) if which < held.len() => {
                let (effect, since, grant) = held.remove(which);
                let rule = &model.effects[effect];
                let open = rule.hours.as_ref().is_none_or(|hours| hours.is_open(EPOCH + t));
                if t - since <= rule.ttl && open {
                    model.emit(t, grant);
                } else {
                    model.forfeit(t, grant);
                }
            }
            Step::Refund(_) | Step::Forfeit(_) | Step::Emit(_) => {}
        }
        times.resize(model.journal.bodies.len(), t);
    }
    (model, times)
}

/// Another order of the records: those up to `reach` nanoseconds apart can change places, but a grant stays before what names
/// it.
fn shuffled(journal: &Journal, times: &[u64], reach: u64, mut random: impl FnMut() -> u64) -> Journal {
    let mut order: Vec<(u64, u64, usize)> = (1..journal.bodies.len())
        .map(|place| (times[place] + random() % (reach + 1), random(), place))
        .collect();
    order.sort_unstable();
    let mut bodies = vec![journal.bodies[0].clone()];
    let mut waiting: Vec<String> = Vec::new();
    let named = |body: &str| {
        let from = body.find("\"grant\":")? + 8;
        body[from..].split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let mut granted = std::collections::BTreeSet::new();
    for (.., place) in order {
        let body = journal.bodies[place].clone();
        if body.starts_with("\"kind\":\"grant\"") {
            granted.extend(named(&body));
            bodies.push(body);
            let (ready, rest) = waiting
                .into_iter()
                .partition(|body| named(body).is_some_and(|grant| granted.contains(&grant)));
            bodies.extend(ready);
            waiting = rest;
        } else if named(&body).is_some_and(|grant| !granted.contains(&grant)) {
            waiting.push(body);
        } else {
            bodies.push(body);
        }
    }
    assert!(waiting.is_empty());
    Journal { bodies }
}

/// The places of all numbers behind `label`, the first or second of two.
fn numbers(body: &str, label: &str, which: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in body.match_indices(label) {
        let mut start = at + label.len();
        if which == 1 {
            start += body[start..].find(',').unwrap() + 1;
        }
        let digits = body[start..].bytes().take_while(u8::is_ascii_digit).count();
        found.push((start, start + digits));
    }
    found
}

/// All numbers of a record that follow from others, or from the policy.
fn bound_numbers(body: &str) -> Vec<(usize, usize)> {
    let labels: &[(&str, usize)] = match body.split('"').nth(3) {
        Some("open") => &[
            ("\"format\":", 0),
            ("\"ttl\":", 0),
            ("\"step\":", 0),
            ("\"phase\":", 0),
            ("\"units_per_step\":", 0),
            ("\"units_per_token\":", 0),
            ("\"capacity\":", 0),
        ],
        Some("grant") => &[("\"cost\":", 0), ("\"after\":[", 0), ("\"after\":[", 1), ("\"before\":[", 1)],
        Some("refund") => &[("\"after\":[", 0), ("\"after\":[", 1), ("\"before\":[", 0), ("\"before\":[", 1)],
        Some("deny" | "defer" | "shed") => &[("\"retry_at\":", 0)],
        _ => &[],
    };
    labels.iter().flat_map(|&(label, which)| numbers(body, label, which)).collect()
}

/// All numbers of a record.
fn all_numbers(body: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, byte) in body.bytes().enumerate() {
        match (byte.is_ascii_digit(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    found.extend(start.map(|from| (from, body.len())));
    found
}

fn replaced(journal: &Journal, line: usize, (from, to): (usize, usize), new: &str) -> Journal {
    let mut forged = journal.clone();
    forged.bodies[line].replace_range(from..to, new);
    forged
}

fn seeded(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        // SplitMix64, by Steele, Lea and Flood.
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_honest_history_is_accepted_in_any_order_that_threads_can_write(
        steps in steps(), reach in prop::sample::select(vec![0, 0, 1, 1_000, SECOND, DAY]), seed: u64
    ) {
        let (model, times) = run(&steps);
        let told = verdict(&model.journal.sealed());
        prop_assert!(told.is_accepted(), "{}\n{:#?}", told, model.journal.bodies);
        prop_assert!(!told.to_string().contains("not named"), "{}\n{:#?}", told, model.journal.bodies);
        let other = shuffled(&model.journal, &times, reach, seeded(seed));
        let told = verdict(&other.sealed());
        prop_assert!(told.is_accepted(), "{}\n{:#?}", told, other.bodies);
    }

    #[test]
    fn a_number_that_follows_from_others_cannot_be_another(
        steps in steps(), line: prop::sample::Index, place: prop::sample::Index,
        change in prop_oneof![Just(1i128), Just(-1), -1_000i128..1_000, any::<i64>().prop_map(i128::from)]
    ) {
        let (model, _) = run(&steps);
        let journal = &model.journal;
        let places: Vec<(usize, (usize, usize))> = journal.bodies.iter().enumerate()
            .flat_map(|(line, body)| bound_numbers(body).into_iter().map(move |place| (line, place))).collect();
        // Half of the time in the lines after the first, which has the most numbers.
        let rest: Vec<_> = places.iter().copied().filter(|(line, _)| *line > 0).collect();
        let from = if line.index(2) == 0 && !rest.is_empty() { rest } else { places };
        let (line, place) = from[place.index(from.len())];
        let old: u64 = journal.bodies[line][place.0..place.1].parse().unwrap();
        let new = (i128::from(old) + change).clamp(0, u64::MAX.into()) as u64;
        let new = if new == old { old ^ 1 } else { new };
        let forged = replaced(journal, line, place, &new.to_string());
        let told = verdict(&forged.sealed());
        prop_assert!(!told.is_accepted(), "{} for {} in line {}: {}\n{:#?}", new, old, line + 1, told, journal.bodies);
    }

    #[test]
    fn no_number_makes_it_panic(
        steps in steps(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop_oneof![
            Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63), Just(u64::from(u32::MAX)), any::<u64>()
        ]), 1..6)
    ) {
        let (model, _) = run(&steps);
        let mut journal = model.journal;
        for (line, place, new) in changes {
            let line = line.index(journal.bodies.len());
            let places = all_numbers(&journal.bodies[line]);
            let place = places[place.index(places.len())];
            journal = replaced(&journal, line, place, &new.to_string());
        }
        let _ = verdict(&journal.sealed());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), open: bool) {
        let _ = verify(&bytes[..], &policy(), open);
        let text = Model::new(effects()).journal.open();
        let _ = verify(&[text.as_bytes(), &bytes].concat()[..], &policy(), open);
    }

    #[test]
    fn no_record_makes_it_panic(
        kind in "open|grant|deny|defer|shed|refund|emit|forfeit|restore|seal|x",
        fields in "(,\"(t|grant|cost|ticket|retry_at|count|epoch|format)\":(0|1|18446744073709551615|-1|1e3|null|\"1\")){0,4}(,\"(effect|key|reason|quota|last)\":\"(Search|aa|A|exhausted|hours)\"){0,3}(,\"(draws|refused|effects)\":(\\[\\]|\\[\\{\\}\\]|0))?"
    ) {
        let model = Model::new(effects());
        let journal = model.journal.inserted(1, format!("\"kind\":\"{kind}\"{fields}"));
        let _ = verdict(&journal.sealed());
    }
}

/// All at one instant and out of order, so that the order is to be found.
#[test]
fn an_instant_with_many_records_is_ordered_in_reasonable_time() {
    let mut model = Model::new(effects());
    let mut times = vec![0];
    for round in 0..4_000u64 {
        let grant = model.call(FETCH, 5, "aa", 1 + round % 3).unwrap();
        model.refund(5, grant);
        if round % 5 == 0 {
            model.forget(FETCH, 5, "aa");
        }
        times.resize(model.journal.bodies.len(), 5);
    }
    let began = std::time::Instant::now();
    assert!(verdict(&model.journal.sealed()).is_accepted());
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

/// Very many that all claim to have come first.
#[test]
fn a_forgery_does_not_keep_the_search_for_an_order_going() {
    let mut model = Model::new(effects());
    model.call(FETCH, 5, "aa", 1).unwrap();
    let mut journal = model.journal;
    let first = journal.bodies[1].clone();
    for number in 1..20_000 {
        journal.bodies.push(first.replace("\"grant\":0", &format!("\"grant\":{number}")));
    }
    let began = std::time::Instant::now();
    assert!(!verdict(&journal.sealed()).is_accepted());
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
