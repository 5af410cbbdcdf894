//! What fuzzing found in the tool's readers, each as the smallest input that shows it.

use std::io::Cursor;
use tollgate_cli::event::{Decoder, Format, Next, Record, Schema, Source, Whole};

/// The `cost` of each event of a trace.
fn costs(format: Format, trace: &'static str) -> Vec<Whole> {
    let mut schema = Schema::new(&[]).unwrap();
    let cost = schema.field("cost");
    let source = Source::new("trace".into(), None, Box::new(Cursor::new(trace))).unwrap();
    let mut decoder = Decoder::open(format, source, &schema, &mut |warning| panic!("{warning}")).unwrap();
    let mut record = Record::new(schema.len());
    let mut costs = Vec::new();
    while decoder.next(&mut record).unwrap() == Next::Event {
        costs.push(record.field(cost).whole());
    }
    costs
}

#[test]
fn a_fraction_that_a_double_rounds_to_a_whole_number_is_no_cost() {
    let jsonl = concat!(
        "{\"t_ns\":0,\"cost\":9999999999991e-40098}\n",
        "{\"t_ns\":0,\"cost\":0.99999999999999999999}\n",
        "{\"t_ns\":0,\"cost\":100e-2}\n",
    );
    assert_eq!(costs(Format::Jsonl, jsonl), [Whole::Bad, Whole::Bad, Whole::Is(1)]);
    let csv = "t_ns,cost\n0,1e-400\n0,4503599627370497.9999\n0,5.0\n";
    assert_eq!(costs(Format::Csv, csv), [Whole::Bad, Whole::Bad, Whole::Is(5)]);
}
