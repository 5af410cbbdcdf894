//! Adding everything up again.

use super::*;

#[test]
fn an_audit_in_which_all_agrees_ends_with_exit_code_0() {
    let case = Case::new();
    drop(case.usual());
    let expected = "\
agrees: 5 rows of the ledger (0 archived), 4 accounts, 6 rows of use, 1 open holds, 1 remembered, 0 grants, 0 repairs by hand
";
    assert_eq!(case.ok(&["audit"]), expected);
    let expected = json!({
        "db": "budgets.db", "verdict": "agrees", "findings": [], "more": false, "repairs": [], "repairs_error": null,
        "counts": {
            "rows": 5, "archived": 0, "accounts": 4, "usage": 6, "open": 1, "remembered": 1, "grants": 0, "notes": 0,
        },
        "currency": "USD", "decimals": 6,
    });
    assert_eq!(case.json(&["audit"]), expected);
}

/// Changes a byte of a note where the file has it.
fn forge(db: &Path) {
    let mut bytes = std::fs::read(db).unwrap();
    let at = bytes.windows(NOTE.len()).position(|window| window == NOTE.as_bytes()).expect("the note");
    bytes[at] = b'A';
    std::fs::write(db, bytes).unwrap();
}

#[test]
fn an_audit_that_finds_something_names_it_and_ends_with_exit_code_1() {
    let case = Case::new();
    drop(case.usual());
    case.ok(&["release", "step-2", "--note", NOTE]);
    forge(&case.db());
    let told = case.run(&["audit"]);
    assert_eq!((told.code, told.err.as_str()), (Some(1), ""));
    assert!(told.out.starts_with("differs: 1 finding\n  chain  table ledger, "), "{}", told.out);
    assert!(told.out.contains("  Ann: billed"), "{}", told.out);
    let told = case.run(&["audit", "--json"]);
    let document: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.code, &document["verdict"]), (Some(1), &json!("differs")));
    assert_eq!(
        (&document["findings"][0]["check"], &document["findings"][0]["table"]),
        (&json!("chain"), &json!("ledger"))
    );
    let args = ["release", "step-1", "--note", NOTE];
    case.run(&args).fails(2, "was settled at");
    case.ok(&["status"]);
}

#[test]
fn a_store_that_was_altered_is_not_repaired() {
    let case = Case::new();
    let spend = case.usual();
    let other = Call::new().scope("run", "r-2").scope("user", "ann").id("other");
    spend.hold(&other, &Amounts::new().cost(1)).unwrap().detach();
    drop(spend);
    case.ok(&["release", "step-2", "--note", NOTE]);
    forge(&case.db());
    case.run(&["release", "other", "--note", NOTE]).fails(2, "was torn or altered: table ledger");
}

#[test]
fn a_store_with_a_damaged_page_is_told_without_a_panic() {
    let case = Case::new();
    drop(case.usual());
    let whole = std::fs::read(case.db()).unwrap();
    for (page, byte) in [(1, 0xff), (3, 0x00), (5, 0x7f), (9, 0xff)] {
        let mut bytes = whole.clone();
        bytes[page * 4_096..page * 4_096 + 512].fill(byte);
        std::fs::write(case.db(), bytes).unwrap();
        let audit = case.run(&["audit"]);
        assert!(matches!(audit.code, Some(1 | 2)) && !audit.err.contains("panicked"), "{audit:?}");
        for args in [&["status"][..], &["holds"], &["release", "step-2", "--note", NOTE]] {
            let told = case.run(args);
            assert!(told.code.is_some() && !told.err.contains("panicked"), "{told:?}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn findings_that_nobody_reads_are_still_findings() {
    let case = Case::new();
    drop(case.usual());
    case.ok(&["release", "step-2", "--note", NOTE]);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let audit = || {
        let mut tool = tollgate();
        tool.current_dir(case.dir.path()).args(["budget", "audit", "--db", "budgets.db"]);
        tool.stdout(full()).output().unwrap()
    };
    let told = audit();
    assert_eq!(told.status.code(), Some(1));
    assert!(String::from_utf8(told.stderr).unwrap().contains("cannot write standard output"));
    forge(&case.db());
    let told = audit();
    assert_eq!((told.status.code(), told.stderr), (Some(1), Vec::new()));
}
