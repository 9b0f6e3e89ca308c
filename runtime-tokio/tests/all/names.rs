//! Names that no server can have.

use core::time::Duration;

use informer_tokio::{Informer, Raw, Resource};

use crate::support::server;

/// The server would answer with an empty list, and the informer would be synced and empty.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_cannot_exist_is_an_error_and_not_an_empty_list() {
    for several in [false, true] {
        let mock = server();
        let pods = Resource::parse("pods").unwrap();
        let builder = Informer::<Raw>::builder_for(&mock.transport(), pods);
        let (pods, driver) = if several {
            builder.namespaces(["prod", "my team"]).build()
        } else {
            builder.namespace("my team").build()
        };
        let driver = tokio::spawn(driver.run());
        let waited = pods.synced_within(Duration::from_secs(60)).await;
        let error = waited.unwrap_err().to_string();
        assert!(
            error.contains("the namespace `my team` is invalid"),
            "{error}"
        );
        let trouble = pods.health().last_error.unwrap();
        assert_eq!(trouble.class, "invalid-name");
        driver.abort();
    }
}
