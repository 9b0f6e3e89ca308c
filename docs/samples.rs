//! The documents' programs as doctests: `cargo test -p informer-docs`.

macro_rules! documents {
    ($($name:ident $path:literal)*) => {$(
        #[cfg(doctest)]
        #[doc = include_str!($path)]
        pub mod $name {}
    )*};
}

documents! {
    readme "../README.md"
    getting_started "GETTING-STARTED.md"
    memory "MEMORY.md"
    handlers "HANDLERS.md"
    controllers "CONTROLLERS.md"
    mock "MOCK.md"
    health "HEALTH.md"
    audit "AUDIT.md"
    journal "JOURNAL.md"
    devices "DEVICES.md"
    transports "TRANSPORTS.md"
    from_client_go "FROM-CLIENT-GO.md"
    from_kube_rs "FROM-KUBE-RS.md"
    run_loop "RUN-LOOP.md"
}
