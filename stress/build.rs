//! Sets the engine's private cfgs, from the environment that the scripts set: for this package only, so that the
//! dependencies are not built again.

fn main() {
    for cfg in ["tollgate_loom", "tollgate_shuttle", "tollgate_rmw_loads", "tollgate_stall"] {
        println!("cargo::rustc-check-cfg=cfg({cfg})");
    }
    println!("cargo::rustc-check-cfg=cfg(tollgate_mutant, values(any()))");
    // A feature of the library that is not built here.
    println!(
        "cargo::rustc-check-cfg=cfg(feature, values(\"effects\", \"headers\", \"policy\", \"spend\", \"sqlite\"))"
    );
    // Points at which a thread can be stopped: see `src/stall.rs`.
    println!("cargo::rerun-if-env-changed=STALL");
    if std::env::var_os("STALL").is_some() {
        println!("cargo::rustc-cfg=tollgate_stall");
    }
    println!("cargo::rerun-if-env-changed=MUTANT");
    if let Ok(mutant) = std::env::var("MUTANT") {
        println!("cargo::rustc-cfg=tollgate_mutant={mutant:?}");
    }
}
