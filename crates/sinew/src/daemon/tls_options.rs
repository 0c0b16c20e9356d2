//! Whether and how a daemon protects NBD by TLS, as its options say.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sinew_frontend::nbd::TlsMode;
use sinew_frontend::tls::AllowList;

use crate::names::named;
use crate::tls::{self, TlsChoice};

/// A client and the exports that it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowedClient {
    pub(crate) name: String,
    pub(crate) exports: Vec<String>,
}

/// TLS of the sockets for NBD.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    /// Whether TLS is demanded of clients over TCP; `require` if --tls-certificates is given, else `off`. The Unix socket,
    /// which is guarded by its permissions, offers TLS and never demands it.
    #[arg(long, value_name = "MODE", value_parser = named::<TlsChoice>())]
    pub(crate) tls: Option<TlsChoice>,
    /// Directory with server-cert.pem, server-key.pem and ca-cert.pem, as QEMU and nbdkit use it (docs/howto/tls.md).
    #[arg(long, value_name = "DIR")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// Whether each client must show a certificate from the authority in ca-cert.pem; by default it must.
    #[arg(long, value_name = "BOOL", requires = "tls_certificates")]
    pub(crate) tls_verify_peer: Option<bool>,
    /// Let clients with this name in their certificate (common name, or alternative name) use these exports, and all other
    /// clients with TLS none, for example host1=vol,db or backup=*; can be given several times.
    #[arg(long, value_name = "NAME=EXPORT,...", requires = "tls_certificates", value_parser = parse_client)]
    pub(crate) tls_client: Vec<AllowedClient>,
}

/// TLS of the listeners.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsModes {
    pub(super) unix: TlsMode,
    pub(super) tcp: TlsMode,
}

impl TlsOptions {
    /// The mode over TCP.
    pub(crate) fn choice(&self) -> TlsChoice {
        let by_certificates =
            if self.tls_certificates.is_some() { TlsChoice::Require } else { TlsChoice::Off };
        self.tls.unwrap_or(by_certificates)
    }

    /// Whether every client over TCP must prove its identity.
    pub(super) fn authenticates(&self) -> bool {
        self.choice() == TlsChoice::Require && self.verifies_peer()
    }

    fn verifies_peer(&self) -> bool {
        self.tls_verify_peer.unwrap_or(true)
    }

    /// Reads the certificates.
    ///
    /// # Errors
    /// When options contradict each other, or the certificates cannot be used.
    pub(super) fn load(&self) -> Result<TlsModes> {
        let choice = self.choice();
        if choice == TlsChoice::Off {
            return Ok(TlsModes::default());
        }
        let Some(directory) = &self.tls_certificates else {
            bail!(
                "TLS needs certificates; say --tls-certificates DIR (docs/howto/tls.md says how to make them)"
            );
        };
        let mut allowed = AllowList::default();
        for client in &self.tls_client {
            client.exports.iter().for_each(|export| allowed.allow(&client.name, export));
        }
        if !self.tls_client.is_empty() {
            ensure!(
                choice == TlsChoice::Require,
                "with --tls {} clients without TLS may use all exports, so --tls-client keeps none away; say --tls require",
                choice.name()
            );
            ensure!(
                self.verifies_peer(),
                "without certificates clients have no names, so --tls-client lets none in; leave --tls-verify-peer on"
            );
        }
        let allowed = (!self.tls_client.is_empty()).then_some(allowed);
        let server = tls::server(directory, self.verifies_peer(), allowed)?;
        let server = Arc::new(server);
        let tcp = match choice {
            TlsChoice::Require => TlsMode::Require(Arc::clone(&server)),
            _ => TlsMode::Allow(Arc::clone(&server)),
        };
        Ok(TlsModes { unix: TlsMode::Allow(server), tcp })
    }
}

/// # Errors
/// When the text does not name a client and exports.
fn parse_client(text: &str) -> Result<AllowedClient> {
    // Names of clients may be URIs with any characters; names of exports have no equals sign.
    let parts = text.rsplit_once('=').filter(|(name, exports)| !name.is_empty() && !exports.is_empty());
    let (name, exports) = parts.with_context(|| {
        format!(
            "{text} does not say which exports a client may use: write NAME=EXPORT,EXPORT, or NAME=* for all"
        )
    })?;
    Ok(AllowedClient { name: name.to_owned(), exports: exports.split(',').map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_and_its_exports_are_told_apart_at_the_last_equals_sign() {
        let client = parse_client("spiffe://x/y?a=b=vol,db").expect("a client");
        assert_eq!(
            (client.name.as_str(), client.exports.join(" ")),
            ("spiffe://x/y?a=b", "vol db".to_owned())
        );
        for wrong in ["host", "host=", "=vol"] {
            assert!(parse_client(wrong).unwrap_err().to_string().contains("NAME=*"), "{wrong}");
        }
    }

    #[test]
    fn options_that_would_protect_nothing_are_refused() {
        let certificates = Some(PathBuf::from("/nonexistent"));
        let clients = vec![AllowedClient { name: "a".into(), exports: vec!["v".into()] }];
        let error = |options: TlsOptions| options.load().expect_err("refused").to_string();
        let none = TlsOptions::default();
        assert!(
            error(TlsOptions { tls: Some(TlsChoice::Allow), ..none.clone() }).contains("--tls-certificates")
        );
        let listed = TlsOptions { tls_certificates: certificates, tls_client: clients, ..none.clone() };
        assert!(
            error(TlsOptions { tls: Some(TlsChoice::Allow), ..listed.clone() }).contains("--tls require")
        );
        assert!(
            error(TlsOptions { tls_verify_peer: Some(false), ..listed.clone() }).contains("have no names")
        );
        assert!(error(listed.clone()).contains("server-cert.pem"));
        assert!(listed.authenticates() && !none.authenticates());
        let anonymous = TlsOptions { tls_verify_peer: Some(false), ..listed.clone() };
        assert!(!anonymous.authenticates());
        assert!(TlsOptions { tls: Some(TlsChoice::Off), ..listed }.load().is_ok());
    }
}
