//! TLS of NBD: whether it is demanded, and directories of certificates, with the file names that QEMU, libnbd and nbdkit use:
//! `ca-cert.pem`, `server-cert.pem`, `server-key.pem`, `client-cert.pem`, `client-key.pem`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sinew_frontend::tls::credentials::OwnPem;
use sinew_frontend::tls::{AllowList, ClientTls, CredentialsError, ServerTls};
use sinew_layout::named;

/// Whether TLS is demanded of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsChoice {
    /// There is none.
    Off,
    /// Clients that ask for it get it.
    Allow,
    /// Clients over TCP that do not ask for it are refused.
    Require,
}

named! {
    TlsChoice, "mode of TLS":
    TlsChoice::Off => "off", "No TLS";
    TlsChoice::Allow => "allow", "TLS for clients that ask for it";
    TlsChoice::Require => "require", "Refuse clients over TCP that do not ask for it";
}

/// The texts of a directory that one side uses.
struct Directory {
    path: PathBuf,
    /// `server` or `client`.
    side: &'static str,
}

impl Directory {
    fn new(path: &Path, side: &'static str) -> Directory {
        Directory { path: path.to_owned(), side }
    }

    fn file(&self, end: &str) -> PathBuf {
        self.path.join(match end {
            "ca" => "ca-cert.pem".to_owned(),
            end => format!("{}-{end}.pem", self.side),
        })
    }

    fn read(&self, end: &str) -> Result<Vec<u8>> {
        let path = self.file(end);
        std::fs::read(&path).with_context(|| {
            format!("cannot read {}; docs/howto/tls.md says which files belong there", path.display())
        })
    }

    /// Names the file that is wrong.
    fn name(&self, error: CredentialsError) -> anyhow::Error {
        let end = match &error {
            CredentialsError::Certificate(_) => "cert",
            CredentialsError::Key(_) => "key",
            CredentialsError::Authority(_) => "ca",
            CredentialsError::ServerName(_) => return error.into(),
        };
        anyhow::Error::from(error).context(format!("{} is wrong", self.file(end).display()))
    }
}

/// A server's side of TLS. With `verify_peer` each client must show a certificate from the authority in `ca-cert.pem`.
///
/// # Errors
/// When a file cannot be read, or its content cannot be used.
pub(crate) fn server(path: &Path, verify_peer: bool, allowed: Option<AllowList>) -> Result<ServerTls> {
    let directory = Directory::new(path, "server");
    let (certificate, key) = (directory.read("cert")?, directory.read("key")?);
    let authority = if verify_peer { Some(directory.read("ca")?) } else { None };
    let own = OwnPem { certificate: &certificate, key: &key };
    ServerTls::new(own, authority.as_deref(), allowed).map_err(|error| directory.name(error))
}

/// A client's side of TLS, for a server of this name whose certificate is from the authority in `ca-cert.pem`. Without
/// `client-cert.pem` it has no certificate of its own.
///
/// # Errors
/// When a file cannot be read, or its content cannot be used.
pub(crate) fn client(path: &Path, server: &str) -> Result<ClientTls> {
    let directory = Directory::new(path, "client");
    let authority = directory.read("ca")?;
    let own = match directory.file("cert").exists() {
        true => Some((directory.read("cert")?, directory.read("key")?)),
        false => None,
    };
    let own = own.as_ref().map(|(certificate, key)| OwnPem { certificate, key });
    ClientTls::new(&authority, own, server).map_err(|error| directory.name(error))
}
