//! What is no store, and what is in one.

use super::*;

/// Every subcommand, with options that are right.
const EACH: [&[&str]; 5] = [
    &["status"],
    &["holds"],
    &["audit"],
    &["settle", "step-2", "--cost", "1", "--note", NOTE],
    &["release", "step-2", "--note", NOTE],
];

#[test]
fn a_store_that_is_not_there_is_not_created() {
    let case = Case::new();
    for args in EACH {
        case.run(args).fails(2, "cannot open budgets.db: ");
    }
    assert_eq!(case.names(), [""; 0]);
}

#[test]
fn what_is_no_store_is_left_as_it_is() {
    let case = Case::new();
    for (bytes, part) in [
        (&b""[..], "there is no store in it"),
        (&b"a text, and no database at all. ".repeat(99), "is no store"),
    ] {
        std::fs::write(case.db(), bytes).unwrap();
        for args in EACH {
            case.run(args).fails(2, part);
        }
        assert_eq!(std::fs::read(case.db()).unwrap(), bytes);
        assert_eq!(case.names(), ["budgets.db"]);
    }
    std::fs::remove_file(case.db()).unwrap();
    std::fs::create_dir(case.db()).unwrap();
    for args in EACH {
        case.run(args).fails(2, "cannot open budgets.db: it is no plain file");
    }
}

#[test]
fn a_store_that_nobody_used_agrees_and_has_nothing_to_show() {
    let case = Case::new();
    drop(SqliteStore::at(case.db()).unwrap());
    for args in EACH.iter().filter(|args| args[0] != "audit") {
        case.run(args).fails(2, "no policy was ever kept in this store");
    }
    assert!(case.ok(&["audit"]).starts_with("agrees: 0 rows"));
}

#[cfg(unix)]
#[test]
fn a_store_in_a_folder_that_can_only_be_read_is_told_of() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new();
    drop(case.usual());
    for suffix in ["-wal", "-shm", ".lock"] {
        let _ = std::fs::remove_file(case.dir.path().join(format!("budgets.db{suffix}")));
    }
    let allow =
        |mode| std::fs::set_permissions(case.dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::set_permissions(case.db(), std::fs::Permissions::from_mode(0o444)).unwrap();
    allow(0o555);
    let told: Vec<_> = ["status", "holds", "audit"].map(|name| case.run(&[name])).into();
    allow(0o755);
    told.into_iter().for_each(|told| drop(told.ok()));
}

#[test]
fn keys_and_notes_cannot_write_to_the_terminal() {
    let case = Case::new();
    let spend = case.open(policy());
    let hostile = "a\u{1b}]0;x\u{7}\n\u{202e}\u{9b}2J\\";
    let call = Call::new().scope("run", hostile).scope("user", "x".repeat(1_000)).id(hostile);
    spend.hold(&call, &Amounts::new().cost(5)).unwrap().detach();
    drop(spend);
    let escaped = "a\\u{1b}]0;x\\u{7}\\n\\u{202e}\\u{9b}2J\\\\";
    let is_quiet = |text: &str| {
        let unseen = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(unseen), "{text:?}");
        assert!(text.lines().all(|line| line.chars().count() < 700), "{text}");
        assert!(text.contains(escaped), "{text}");
    };
    is_quiet(&case.ok(&["status"]));
    is_quiet(&case.ok(&["holds"]));
    assert_eq!(case.json(&["holds"])["holds"][0]["id"], hostile);
    assert_eq!(case.json(&["status", "--key", hostile])["limits"][0]["key"], hostile);
    is_quiet(&case.ok(&["release", hostile, "--note", "see\u{1b}[31m"]));
    is_quiet(&case.ok(&["audit"]));
    let again = case.run(&["release", hostile, "--note", NOTE]);
    assert_eq!(again.code, Some(2));
    assert!(!again.err.trim_end().contains(char::is_control), "{:?}", again.err);
}
