#![no_main]

use informer_simulation::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzzing::protobuf(data));
