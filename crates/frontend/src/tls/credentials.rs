//! What the sides of a connection prove themselves with, and which certificates they believe: from PEM texts.
//!
//! Sessions are not resumed: connections last long, and a resumed one would not ask for the certificate again.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection, crypto,
};

use super::allow_list::AllowList;
use super::session::TlsError;

/// What is wrong with certificates or keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The certificate of this side cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The key of this side cannot be used.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// The certificates of the authority cannot be used.
    #[error("the certificate of the authority cannot be used: {0}")]
    Authority(String),
    /// The name of the server is no name.
    #[error("{0} is neither the name of a host nor an address")]
    ServerName(String),
}

/// The certificate and the key of one side.
#[derive(Clone, Copy)]
pub struct OwnPem<'a> {
    /// The certificate, then those between it and the authority.
    pub certificate: &'a [u8],
    /// The private key.
    pub key: &'a [u8],
}

impl OwnPem<'_> {
    fn parse(self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CredentialsError> {
        let chain = certificates(self.certificate).map_err(CredentialsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key);
        let key = key.map_err(|error| CredentialsError::Key(format!("no PEM key is in it ({error})")))?;
        Ok((chain, key))
    }
}

/// All certificates of a text, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if all.is_empty() => {
            Err("no PEM certificate is in it (it begins with -----BEGIN CERTIFICATE-----)".to_owned())
        }
        Ok(all) => Ok(all),
        Err(error) => Err(format!("it is no PEM text ({error})")),
    }
}

fn authority(pem: &[u8]) -> Result<Arc<RootCertStore>, CredentialsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(CredentialsError::Authority)? {
        roots.add(certificate).map_err(|error| CredentialsError::Authority(error.to_string()))?;
    }
    Ok(Arc::new(roots))
}

/// A server's side of TLS.
#[derive(Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    /// The exports of each client. Without it each client may use all.
    pub(crate) allowed: Option<AllowList>,
}

impl ServerTls {
    /// A server that proves itself with `own`. With an authority each client must show a certificate of that authority;
    /// with an allow-list its names must be there.
    ///
    /// # Errors
    /// When a text is no PEM text of its kind, or key and certificate do not belong together.
    pub fn new(
        own: OwnPem<'_>,
        clients_authority: Option<&[u8]>,
        allowed: Option<AllowList>,
    ) -> Result<ServerTls, CredentialsError> {
        let (chain, key) = own.parse()?;
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has TLS 1.2 and 1.3");
        let config = match clients_authority {
            None => config.with_no_client_auth(),
            Some(pem) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(authority(pem)?, provider).build();
                let verifier = verifier.map_err(|error| CredentialsError::Authority(error.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let config = config.with_single_cert(chain, key);
        let mut config = config.map_err(|error| CredentialsError::Key(error.to_string()))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(ServerTls { config: Arc::new(config), allowed })
    }

    /// The server's end of one connection.
    ///
    /// # Errors
    /// When the settings contradict each other.
    pub(crate) fn connection(&self) -> Result<Connection, TlsError> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).map(Connection::from);
        connection.map_err(|error| TlsError::Refused(error.to_string()))
    }
}

/// A client's side of TLS.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl ClientTls {
    /// A client that believes servers whose certificate is from this authority and for this name, a host's name or address.
    /// It proves itself with `own`, if the server asks.
    ///
    /// # Errors
    /// When a text is no PEM text of its kind, key and certificate do not belong together, or the name is no name.
    pub fn new(
        servers_authority: &[u8],
        own: Option<OwnPem<'_>>,
        server: &str,
    ) -> Result<ClientTls, CredentialsError> {
        let server = ServerName::try_from(server.to_owned())
            .map_err(|_| CredentialsError::ServerName(server.to_owned()))?;
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has TLS 1.2 and 1.3")
            .with_root_certificates(authority(servers_authority)?);
        let config = match own {
            None => config.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = own.parse()?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| CredentialsError::Key(error.to_string()))?
            }
        };
        Ok(ClientTls { config: Arc::new(config), server })
    }

    /// The client's end of one connection.
    ///
    /// # Errors
    /// When the settings contradict each other.
    pub(crate) fn connection(&self) -> Result<Connection, TlsError> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.server.clone());
        connection.map(Connection::from).map_err(|error| TlsError::Refused(error.to_string()))
    }
}
