#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_fuzz::memory::Counting;
use tollgate_fuzz::traces::check;

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| check(bytes));
