//! Sets the engine's private cfgs, from the environment that `run` and `mutants` set: for this package only, so
//! that the dependencies are not built again.

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(tollgate_loom)");
    println!("cargo::rustc-check-cfg=cfg(tollgate_rmw_loads)");
    println!("cargo::rustc-check-cfg=cfg(tollgate_mutant, values(any()))");
    // A feature of the library that is not built here.
    println!(
        "cargo::rustc-check-cfg=cfg(feature, values(\"effects\", \"headers\", \"policy\", \"spend\", \"sqlite\"))"
    );
    // Of other private builds of the same sources.
    println!("cargo::rustc-check-cfg=cfg(tollgate_shuttle)");
    println!("cargo::rustc-check-cfg=cfg(tollgate_stall)");
    println!("cargo::rustc-cfg=tollgate_loom");
    println!("cargo::rerun-if-env-changed=LOADS");
    println!("cargo::rerun-if-env-changed=MUTANT");
    match env::var("LOADS").as_deref() {
        Err(_) | Ok("plain") => {}
        Ok("rmw") => println!("cargo::rustc-cfg=tollgate_rmw_loads"),
        Ok(other) => panic!("LOADS is plain or rmw, not {other:?}"),
    }
    if let Ok(mutant) = env::var("MUTANT") {
        println!("cargo::rustc-cfg=tollgate_mutant={mutant:?}");
    }
}
