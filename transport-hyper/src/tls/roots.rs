//! The trusted CAs and their validity.
//!
//! rustls does not check whether a trust anchor has expired. Go does, and therefore kubectl too.

use core::time::Duration;

use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::builder::BuildError;
use crate::credentials::Secret;
use crate::tls::der::{FIRST, INTEGER, SEQUENCE, expect, time};
use crate::tls::{certificates, describe};

/// The CAs that the user has set; none if the public CAs are trusted.
pub(super) struct Roots {
    given: Vec<Root>,
    /// The number of certificates that cannot be parsed.
    unusable: usize,
}

struct Root {
    certificate: CertificateDer<'static>,
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
        let mut roots = Self {
            given: Vec::new(),
            unusable: 0,
        };
        let mut wrong = None;
        for bundle in bundles {
            for certificate in certificates("root certificates", &bundle.0)? {
                let added = certificate.and_then(|certificate| {
                    let added = RootCertStore::empty().add(certificate.clone());
                    added.map_err(|error| BuildError(format!("root certificates: {error}")))?;
                    Ok(certificate)
                });
                match added {
                    Ok(certificate) => roots.given.push(Root {
                        validity: validity(&certificate),
                        certificate,
                    }),
                    Err(error) => {
                        roots.unusable += 1;
                        wrong = Some(error);
                    }
                }
            }
        }
        match wrong {
            Some(error) if roots.given.is_empty() => Err(error),
            _ => Ok(roots),
        }
    }

    /// Returns which CAs are valid now.
    pub(super) fn valid(&self, now: UnixTime) -> Vec<bool> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let valid = self.given.iter().map(|root| match root.validity {
            Some(Validity { from, to }) => (from..=to).contains(&now),
            // webpki has accepted the certificate, so only the format of its dates is unknown here.
            None => true,
        });
        valid.collect()
    }

    /// Returns the CAs that are `valid`.
    pub(super) fn store(&self, valid: &[bool]) -> RootCertStore {
        let mut store = RootCertStore::empty();
        if self.given.is_empty() {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let valid = self.given.iter().zip(valid).filter(|(_, valid)| **valid);
        store.add_parsable_certificates(valid.map(|(root, _)| root.certificate.clone()));
        store
    }

    /// Explains why no CA can be trusted now.
    pub(super) fn problem(&self, now: UnixTime) -> Option<String> {
        if self.given.is_empty() || self.valid(now).contains(&true) {
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
        Some(match (next, all.map(|v| v.to).max()) {
            (Some(next), _) => format!(
                "the configured CA certificate becomes valid in {}; is the clock right?",
                span(now, next)
            ),
            (None, last) => format!(
                "the configured CA certificate expired {} ago; set the cluster's current CA (root_certificates, or \
                 certificate-authority in a kubeconfig)",
                span(last.unwrap_or(now), now)
            ),
        })
    }

    /// Logs how many certificates are not trusted.
    pub(super) fn warn(&self, valid: &[bool]) {
        let expired = valid.iter().filter(|valid| !**valid).count();
        if expired + self.unusable > 0 {
            tracing::warn!(
                "{expired} of the configured CA certificates are expired or not valid yet, and {} cannot be parsed; these are not \
                 trusted",
                self.unusable
            );
        }
    }
}

/// Reads the validity of a certificate ([RFC 5280 section 4.1](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)).
fn validity(der: &[u8]) -> Option<Validity> {
    let (certificate, _) = expect(SEQUENCE, der)?;
    let (mut fields, _) = expect(SEQUENCE, certificate)?;
    if let Some((_version, rest)) = expect(FIRST, fields) {
        fields = rest;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        // The serial number, the algorithm, the issuer.
        fields = expect(tag, fields)?.1;
    }
    let (dates, _) = expect(SEQUENCE, fields)?;
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
            assert_eq!(validity(made.der()), Some(Validity { from, to }));
            for cut in 0..made.der().len() {
                let _ = validity(&made.der()[..cut]);
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
            assert_eq!(
                roots.store(&valid).len(),
                valid.iter().filter(|v| **v).count()
            );
            let said = roots.problem(now).unwrap_or_default();
            assert!(
                said.contains(problem) && said.is_empty() == problem.is_empty(),
                "{said}"
            );
        }
    }
}
