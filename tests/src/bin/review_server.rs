//! Answers the token and access reviews of an API server under test; see `informer_tests::real::review`.

use core::net::Ipv4Addr;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use informer_tests::real::review::{Rules, serve};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;

/// Answers token and access reviews.
#[derive(Parser)]
struct Options {
    /// Its certificate, as PEM
    #[arg(long)]
    certificate: PathBuf,

    /// The key of it, as PEM
    #[arg(long)]
    key: PathBuf,

    /// Where it writes its URL when it is ready
    #[arg(long)]
    url_file: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Err(error) = run(Options::parse()).await;
    // If stderr is closed, there is no other place to report to.
    let _ = writeln!(io::stderr(), "review_server: {error}");
    ExitCode::FAILURE
}

async fn run(options: Options) -> Result<core::convert::Infallible, Box<dyn core::error::Error>> {
    let chain = CertificateDer::pem_file_iter(&options.certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&options.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("https://{}\n", listener.local_addr()?);
    std::fs::write(&options.url_file, url)?;
    Ok(serve(listener, Arc::new(config).into(), Rules::default()).await?)
}
