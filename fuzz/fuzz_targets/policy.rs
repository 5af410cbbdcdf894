#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_fuzz::policy::check;

fuzz_target!(|bytes: &[u8]| check(bytes));
