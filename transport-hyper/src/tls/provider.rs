//! The provider of cryptography.

use alloc::sync::Arc;

use rustls::crypto::CryptoProvider;

use crate::build_error::BuildError;

/// Returns the provider that the program has installed for the process, or else the one that is compiled in.
pub(super) fn provider() -> Result<Arc<CryptoProvider>, BuildError> {
    choose(CryptoProvider::get_default())
}

fn choose(installed: Option<&Arc<CryptoProvider>>) -> Result<Arc<CryptoProvider>, BuildError> {
    installed.cloned().or_else(compiled_in).ok_or_else(|| {
        BuildError(
            "TLS: there is no provider of cryptography; enable the cargo feature ring or aws-lc-rs of informer or \
             informer-hyper, or install a provider for the process (rustls::crypto::CryptoProvider::install_default)"
                .to_owned(),
        )
    })
}

fn compiled_in() -> Option<Arc<CryptoProvider>> {
    #[cfg(feature = "aws-lc-rs")]
    let provider = Some(rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    let provider = Some(rustls::crypto::ring::default_provider());
    #[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
    let provider = None;
    provider.map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::address::Host;
    use crate::connect::Protocols;
    use crate::tls::{Tls, TlsSettings};

    /// The provider of a transport, by the name of its type.
    fn used() -> Result<String, String> {
        let settings = TlsSettings {
            insecure: true,
            ..TlsSettings::default()
        };
        let host = Host::Name("host".to_owned());
        let tls = Tls::new(settings, &host, Protocols::default()).map_err(|error| error.0)?;
        let config = Arc::clone(&tls.state().config);
        Ok(format!("{:?}", config.crypto_provider().key_provider))
    }

    #[test]
    fn the_features_choose_the_provider() {
        if cfg!(feature = "aws-lc-rs") {
            assert_eq!(used().as_deref(), Ok("AwsLcRs"));
        } else if cfg!(feature = "ring") {
            assert_eq!(used().as_deref(), Ok("Ring"));
        } else {
            let error = used().unwrap_err();
            assert!(error.contains("feature ring or aws-lc-rs"), "{error}");
        }
    }

    #[test]
    fn the_provider_of_the_process_comes_first() {
        let installed = Arc::new(rustls::crypto::ring::default_provider());
        let chosen = choose(Some(&installed)).unwrap();
        assert!(Arc::ptr_eq(&chosen, &installed));
    }
}
