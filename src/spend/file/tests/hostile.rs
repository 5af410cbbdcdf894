//! Texts that nobody meant: a policy or a mistake within them, and no panic.

use super::*;
use proptest::prelude::*;

/// Bits of policies, to be strung together.
const BITS: [&str; 24] = [
    "[spend]\n",
    "[[spend.scope]]\n",
    "[[spend.scope.limit]]\n",
    "[spend.tiers]\n",
    "[[spend.family]]\n",
    "[[spend.grant]]\n",
    "name = \"a\"\n",
    "root = \"a\"\n",
    "id = \"b\"\n",
    "parent = \"b\"\n",
    "cost = ",
    "calls = ",
    "ceiling = ",
    "reduced = ",
    "window = ",
    "\"fixed 1d\"\n",
    "\"rolling 99999999999d\"\n",
    "\"9999999999.999999\"\n",
    "18446744073709551615\n",
    "9223372036854775808.5\n",
    "-0\n",
    "1e999\n",
    "{",
    "\u{e9}",
];

fn is_placed(text: &str) {
    match SpendPolicy::from_toml_beside(text, &["effect"]) {
        Ok(None) => {}
        Ok(Some(policy)) => policy.validate().expect("a policy that was accepted makes sense"),
        Err(error) => {
            let lines = 1 + text.bytes().filter(|&byte| byte == b'\n').count();
            assert!((1..=lines).contains(&error.line), "{error} in a text of {lines} lines:\n{text}");
            let no_toml = matches!(error.found, Found::NotToml(_));
            assert!(no_toml || !error.accepted.is_empty(), "nothing is accepted: {error}\n{text}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*", value in "[0-9a-z/ .:{}=\",\\-+_TZ]*") {
        is_placed(&text);
        is_placed(&limit(&format!("cost = {value}\nwindow = \"{value}\"")));
        is_placed(&limit(&format!("cost = 1\nwindow = \"{}\"", value.replace('"', ""))));
        is_placed(&beside(&format!("[spend.tiers]\nreduced = {value}")));
    }

    #[test]
    fn a_changed_text_is_a_policy_or_a_mistake_within_it(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..BITS.len(), 0..4_u8), 1..6),
    ) {
        let mut lines: Vec<String> = ALL.lines().map(str::to_owned).collect();
        for (at, other, bit, how) in cuts {
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match how {
                0 => lines[at] = lines[other].clone(),
                1 => lines.swap(at, other),
                2 => lines.insert(at, BITS[bit].to_owned()),
                _ => {
                    let line = &mut lines[at];
                    let middle = (0..=line.len() / 2).rev().find(|&cut| line.is_char_boundary(cut)).unwrap_or(0);
                    line.insert_str(middle, BITS[bit]);
                }
            }
        }
        is_placed(&lines.join("\n"));
    }

    #[test]
    fn bits_of_policies_in_any_order_are_a_policy_or_a_mistake_within_them(
        bits in prop::collection::vec(0..BITS.len(), 0..24),
    ) {
        is_placed(&bits.into_iter().map(|bit| BITS[bit]).collect::<String>());
    }

    #[test]
    fn every_share_of_six_places_is_read_exactly(millionths in 1..=1_000_000_u32) {
        let text = format!("[spend.tiers]\nreduced = {}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
        prop_assert_eq!(parsed(&beside(&text)).tiers.reduced, millionths);
    }

    #[test]
    fn every_amount_that_is_shown_is_read_exactly(amount in 0..=MOST) {
        let text = limit(&format!("cost = \"{}\"", MoneyUnit::default().show(amount)));
        prop_assert_eq!(parsed(&text).scopes()[0].limits()[0].amount(), amount);
    }
}
