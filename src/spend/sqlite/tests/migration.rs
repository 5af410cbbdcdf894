use super::*;
use crate::spend::record::Phase;

/// A store of version 1 with content, made by its own SQL from one of today.
fn version_1(path: &Path, policy: &SpendPolicy, desk: &mut Desk) {
    let store = opened(path, policy);
    store
        .write(&[desk.hold("z", true, super::path("t", "ann"), cost(10)), desk.settle("z", cost(4))])
        .unwrap();
    desk.now += 40 * DAY;
    store
        .write(&[desk.hold("a", true, super::path("t", "ann"), cost(10)), desk.settle("a", cost(4))])
        .unwrap();
    store.write(&[desk.hold("b", true, super::path("t", "bob"), cost(10))]).unwrap();
    // Of what is archived only sums are left, under a digest that is the same in every version.
    assert_eq!(store.archive(desk.now, path.with_file_name("archive")).unwrap().rows, 3);
    drop(store);
    let new = Connection::open(path).unwrap();
    let old_path = path.with_file_name("old.db");
    let old = Connection::open(&old_path).unwrap();
    old.execute_batch(include_str!("version_1.sql")).unwrap();
    old.execute("ATTACH ?1 AS new", [path.to_str().unwrap()]).unwrap();
    for table in ["meta", "base", "base_account", "ledger", "counted", "usage", "account", "hold"] {
        old.execute_batch(&format!("INSERT INTO main.{table} SELECT * FROM new.{table}")).unwrap();
    }
    drop((old, new));
    std::fs::rename(old_path, path).unwrap();
}

#[test]
fn a_store_of_version_1_is_brought_up_to_date_and_answers_the_same() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    version_1(&path, &policy, &mut desk);
    let error = SqliteReader::open(&path).unwrap_err();
    assert!(error.to_string().contains("schema 1"), "{error}");
    let store = opened(&path, &policy);
    desk.agrees(&store, &policy);
    assert!(matches!(store.hold("a").unwrap().unwrap().phase, Phase::Settled(_)));
    store.delegate(&Grant { id: "child".into(), parent: "root".into(), ceiling: None }).unwrap();
    store.write(&[desk.settle("b", cost(1))]).unwrap();
    whole(&path);
    drop(store);
    desk.agrees(&opened(&path, &policy), &policy);
}

#[test]
fn a_store_that_cannot_be_brought_up_to_date_stays_as_it_was() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    version_1(&path, &policy, &mut desk);
    // Something else has the name of an index that is to be made.
    let by_hand = Connection::open(&path).unwrap();
    by_hand.execute_batch("CREATE INDEX hold_ended ON hold (at)").unwrap();
    SqliteStore::at(&path).unwrap_err();
    let identity = schema::Identity::of(&by_hand).unwrap();
    assert_eq!(identity.version, 1);
    assert!(by_hand.prepare("SELECT * FROM grants").is_err());
    by_hand.execute_batch("DROP INDEX hold_ended").unwrap();
    drop(by_hand);
    desk.agrees(&opened(&path, &policy), &policy);
}
