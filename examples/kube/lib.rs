//! Examples of informers beside a `kube::Client`.
