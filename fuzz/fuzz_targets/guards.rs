#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_fuzz::guards::{Input, check};

fuzz_target!(|input: Input| check(&input));
