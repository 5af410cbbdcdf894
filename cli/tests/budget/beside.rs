//! Beside a process that writes the store, and after it.

use super::*;

#[test]
fn beside_a_writer_all_can_be_read_and_nothing_repaired() {
    let case = Case::new();
    let spend = case.usual();
    assert_eq!(row(&case.json(&["status"]), "run", "tokens")["held"], 4_000);
    assert_eq!(case.json(&["holds"])["holds"][0]["id"], "step-2");
    assert_eq!(case.json(&["audit"])["verdict"], "agrees");
    let in_use = format!("in use by another writer (process {})", std::process::id());
    case.run(&["settle", "step-2", "--cost", "1", "--note", NOTE]).fails(1, &in_use);
    case.run(&["release", "step-2", "--note", NOTE]).fails(1, &in_use);
    case.run(&["release", "nobody", "--note", NOTE]).fails(2, "no hold \"nobody\"");
    // The writer goes on as if nobody had been there.
    spend.settle(&spend.find("step-2").unwrap().unwrap(), &Amounts::new().cost(1)).unwrap();
    assert_eq!(case.json(&["holds"])["holds"], json!([]));
}

const FILE: &str = "TOLLGATE_BUDGET_FILE";

/// Does nothing unless it is started by the test below: writes, and waits for its end.
#[test]
fn child() {
    let Ok(path) = std::env::var(FILE) else { return };
    let clock = ManualWallClock::at(start());
    let spend = open(Path::new(&path), policy(), &clock);
    let call = Call::new().scope("run", "r-1").scope("user", "ann").id("of the child");
    spend.hold(&call, &Amounts::new().cost(5_000)).unwrap().detach();
    print!("<held>");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn once_the_writer_was_killed_its_hold_is_settled_by_hand() {
    let case = Case::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "beside::child", "--nocapture"])
        .env(FILE, case.db())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut byte) = (String::new(), [0]);
    while !said.ends_with("<held>") {
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let args = ["settle", "of the child", "--cost", "0.004", "--note", NOTE];
    let (status, holds, audit) = (case.run(&["status"]), case.run(&["holds"]), case.run(&["audit"]));
    let refused = case.run(&args);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(status.ok().contains("  0.005 USD  "));
    assert!(holds.ok().contains("  of the child  "));
    assert!(audit.ok().starts_with("agrees: 2 rows of the ledger (0 archived), 3 accounts, "));
    refused.fails(1, &format!("process {}", child.id()));
    case.ok(&args);
    assert_eq!(row(&case.json(&["status"]), "user", "cost")["spent"], 4_000);
    balances(&case.db());
}
