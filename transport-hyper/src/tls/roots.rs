//! The trusted CAs and their validity.
//!
//! rustls does not check whether a trust anchor has expired. Go does, and therefore kubectl too.

use core::time::Duration;
use std::ffi::OsString;

use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};

use crate::build_error::BuildError;
use crate::credentials::Secret;
use crate::tls::der::{FIRST, Tag, expect, time};
use crate::tls::store::Store;
use crate::tls::{Peer, certificates, describe};

/// The CAs that are trusted; none if nothing is verified.
#[derive(Default, Debug)]
pub(super) struct Roots {
    given: Vec<Root>,
    /// The number of certificates that cannot be parsed.
    unusable: usize,
    origin: Origin,
}

/// Where CAs are from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Origin {
    #[default]
    Settings,
    Store,
    /// The list of the crate `webpki-roots`.
    #[cfg(feature = "webpki-roots")]
    Compiled,
}

#[derive(Debug)]
struct Root {
    anchor: TrustAnchor<'static>,
    validity: Option<Validity>,
}

/// The validity of a certificate, in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Validity {
    from: i64,
    to: i64,
}

impl Roots {
    /// Reads bundles. A certificate that cannot be parsed is skipped, as in Go, unless it is the only one.
    pub(super) fn of(bundles: &[Secret]) -> Result<Self, BuildError> {
        let mut roots = Self::default();
        let mut wrong = None;
        for bundle in bundles {
            for certificate in certificates("root certificates", &bundle.0)? {
                let added = certificate.and_then(|certificate| roots.add(certificate));
                if let Err(error) = added {
                    roots.unusable += 1;
                    wrong = Some(error);
                }
            }
        }
        match wrong {
            Some(error) if roots.given.is_empty() => Err(error),
            _ => Ok(roots),
        }
    }

    /// Reads the operating system's store, or the one that environment variables name. It blocks.
    pub(super) fn of_system(
        variable: impl Fn(&str) -> Option<OsString>,
        peer: Peer,
    ) -> Result<Self, BuildError> {
        let store = Store::read(variable);
        store.warn();
        Self::of_store(&store, peer)
    }

    /// Takes the CAs of a store. A certificate that cannot be parsed is skipped.
    pub(super) fn of_store(store: &Store, peer: Peer) -> Result<Self, BuildError> {
        let mut roots = Self {
            origin: Origin::Store,
            ..Self::default()
        };
        for certificate in &store.certificates {
            if let Err(error) = roots.add(certificate.clone()) {
                roots.unusable += 1;
                tracing::debug!("the store of CA certificates: {error}");
            }
        }
        if !roots.given.is_empty() {
            return Ok(roots);
        }
        #[cfg(feature = "webpki-roots")]
        if !store.is_named {
            tracing::info!(
                "the operating system has no CA certificates; those that are compiled in are trusted"
            );
            roots.origin = Origin::Compiled;
            return Ok(roots);
        }
        Err(store.nothing(peer))
    }

    fn add(&mut self, certificate: CertificateDer<'static>) -> Result<(), BuildError> {
        let validity = Fields::of(&certificate).and_then(|fields| validity(fields.dates));
        let mut parsed = RootCertStore::empty();
        parsed.add(certificate).map_err(|error| {
            BuildError(format!(
                "root certificates: {}",
                describe::describe_root(&error)
            ))
        })?;
        self.given.extend(
            parsed
                .roots
                .into_iter()
                .map(|anchor| Root { anchor, validity }),
        );
        Ok(())
    }

    /// Returns which CAs are valid now.
    pub(super) fn valid(&self, now: UnixTime) -> Vec<bool> {
        self.given.iter().map(|root| root.is_valid(now)).collect()
    }

    /// Returns the CAs that are valid now.
    pub(super) fn store(&self, now: UnixTime) -> RootCertStore {
        let mut store = RootCertStore::empty();
        #[cfg(feature = "webpki-roots")]
        if self.origin == Origin::Compiled {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let valid = self.given.iter().filter(|root| root.is_valid(now));
        store.extend(valid.map(|root| root.anchor.clone()));
        store
    }

    /// Returns the public keys of the CAs with this name.
    pub(super) fn keys<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let anchors = self.given.iter().map(|root| &root.anchor);
        let named = anchors.filter(move |anchor| anchor.subject.as_ref() == name);
        named.map(|anchor| anchor.subject_public_key_info.as_ref())
    }

    /// Returns whether this certificate is one of the CAs.
    pub(super) fn has(&self, certificate: &Fields<'_>) -> bool {
        let mut keys = self.keys(certificate.subject);
        keys.any(|key| key == certificate.public_key)
    }

    /// Explains why no CA can be trusted now.
    pub(super) fn problem(&self, now: UnixTime) -> Option<String> {
        if self.given.is_empty() || self.given.iter().any(|root| root.is_valid(now)) {
            return None;
        }
        let (now, all) = (
            i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            self.given.iter().filter_map(|root| root.validity),
        );
        let span = |from: i64, to: i64| {
            let seconds = u64::try_from(to.saturating_sub(from)).unwrap_or_default();
            describe::span(Duration::from_secs(seconds))
        };
        let next = all.clone().filter(|v| v.from > now).map(|v| v.from).min();
        let last = all.map(|v| v.to).max().unwrap_or(now);
        Some(match (self.origin, next) {
            (Origin::Settings, Some(next)) => format!(
                "the configured CA certificate becomes valid in {}; is the clock right?",
                span(now, next)
            ),
            (Origin::Settings, None) => format!(
                "the configured CA certificate expired {} ago; set the cluster's current CA (root_certificates, or \
                 certificate-authority in a kubeconfig)",
                span(last, now)
            ),
            (_, Some(next)) => format!(
                "no CA certificate of the operating system's store is valid: the next one becomes valid in {}; is the clock \
                 right?",
                span(now, next)
            ),
            (_, None) => format!(
                "no CA certificate of the operating system's store is valid: the last one expired {} ago; update the package \
                 ca-certificates",
                span(last, now)
            ),
        })
    }

    /// Logs how many certificates are not trusted. The operating system answers for those of its store.
    pub(super) fn warn(&self, valid: &[bool]) {
        let expired = valid.iter().filter(|valid| !**valid).count();
        if self.origin == Origin::Settings && expired + self.unusable > 0 {
            tracing::warn!(
                "{expired} of the configured CA certificates are expired or not valid yet, and {} cannot be parsed; these are not \
                 trusted",
                self.unusable
            );
        }
    }
}

impl Root {
    fn is_valid(&self, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match self.validity {
            Some(Validity { from, to }) => (from..=to).contains(&now),
            // webpki has accepted the certificate, so only the format of its dates is unknown here.
            None => true,
        }
    }
}

/// The contents of some fields of a certificate
/// ([RFC 5280 section 4.1](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)).
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) issuer: &'a [u8],
    dates: &'a [u8],
    pub(super) subject: &'a [u8],
    pub(super) public_key: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(certificate: &'a [u8]) -> Option<Self> {
        let (certificate, _) = expect(Tag::Sequence, certificate)?;
        let (mut fields, _) = expect(Tag::Sequence, certificate)?;
        if let Some((_version, rest)) = expect(FIRST, fields) {
            fields = rest;
        }
        let (_serial_number, fields) = expect(Tag::Integer, fields)?;
        let (_algorithm, fields) = expect(Tag::Sequence, fields)?;
        let (issuer, fields) = expect(Tag::Sequence, fields)?;
        let (dates, fields) = expect(Tag::Sequence, fields)?;
        let (subject, fields) = expect(Tag::Sequence, fields)?;
        let (public_key, _) = expect(Tag::Sequence, fields)?;
        Some(Self {
            issuer,
            dates,
            subject,
            public_key,
        })
    }
}

fn validity(dates: &[u8]) -> Option<Validity> {
    let (from, rest) = time(dates)?;
    let (to, _) = time(rest)?;
    Some(Validity { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dates_of_a_certificate_are_found() {
        let key = rcgen::KeyPair::generate().unwrap();
        for (from, to, expected) in [
            ((1970, 1, 1), (2000, 3, 1), (0, 951_868_800)),
            ((1999, 12, 31), (2049, 12, 31), (946_598_400, 2_524_521_600)),
            ((2024, 2, 29), (4096, 1, 1), (1_709_164_800, 67_090_118_400)),
        ] {
            let mut params = rcgen::CertificateParams::default();
            params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
            params.not_after = rcgen::date_time_ymd(to.0, to.1, to.2);
            let made = params.self_signed(&key).unwrap();
            let (from, to) = expected;
            let dates = |der| Fields::of(der).and_then(|fields| validity(fields.dates));
            assert_eq!(dates(made.der()), Some(Validity { from, to }));
            for cut in 0..made.der().len() {
                assert!(dates(&made.der()[..cut]).is_none());
            }
        }
    }

    #[test]
    fn a_ca_is_trusted_while_it_is_valid() {
        let key = rcgen::KeyPair::generate().unwrap();
        let bundle = [(2000, 2010), (2005, 2020)].map(|(from, to)| {
            let mut params = rcgen::CertificateParams::default();
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(to, 1, 1);
            params.self_signed(&key).unwrap().pem()
        });
        let roots = Roots::of(&[Secret(bundle.concat().into_bytes())]).unwrap();
        for (year, valid, problem) in [
            (1999, [false, false], "becomes valid in 365 d"),
            (2001, [true, false], ""),
            (2006, [true, true], ""),
            (2015, [false, true], ""),
            (2021, [false, false], "expired 366 d ago"),
        ] {
            let date = rcgen::date_time_ymd(year, 1, 1).unix_timestamp();
            let now = UnixTime::since_unix_epoch(Duration::from_secs(date.try_into().unwrap()));
            assert_eq!(roots.valid(now), valid, "{year}");
            assert_eq!(roots.store(now).len(), valid.iter().filter(|v| **v).count());
            let said = roots.problem(now).unwrap_or_default();
            assert!(
                said.contains(problem) && said.is_empty() == problem.is_empty(),
                "{said}"
            );
        }
    }
}
