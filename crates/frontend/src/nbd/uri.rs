//! Where a server and its export are, as people write it: the URIs of the NBD project's "NBD URI" document.
//!
//! ```text
//! nbd://HOST[:PORT]/EXPORT                 TCP
//! nbd+unix:///EXPORT?socket=PATH           Unix socket
//! nbds://HOST[:PORT]/EXPORT                TCP with TLS
//! nbds+unix:///EXPORT?socket=PATH          Unix socket with TLS
//! ```
//!
//! All are read and written. With TLS, `tls-certificates=DIR` names the directory of the certificates and `tls-hostname=NAME`
//! the name that the server's certificate must be for. Users, which are for TLS with shared keys, and vsock are refused.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluent_uri::component::Scheme;
use fluent_uri::pct_enc::encoder::{Data, Path as PathEncoder, Query};
use fluent_uri::pct_enc::{EStr, EString, Encoder};

/// The port that IANA registered for NBD.
pub const PORT_DEFAULT: u16 = 10809;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host's name or address, without brackets, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// How TLS is to be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UriTls {
    /// The directory with the certificates.
    pub certificates: Option<PathBuf>,
    /// The name that the server's certificate must be for, instead of the host's.
    pub hostname: Option<String>,
}

/// A server and the name of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// Where the server is.
    pub place: Place,
    /// The export; empty for the server's default.
    pub export: String,
    /// TLS, if it is to be used.
    pub tls: Option<UriTls>,
}

/// What is wrong with a URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// It is not well-formed, or lacks a part.
    #[error(
        "{0} is not an NBD URI: {1}; write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH, with TLS nbds"
    )]
    Malformed(String, &'static str),
    /// It asks for what this client cannot do.
    #[error("{0} asks for {1}, which is not supported")]
    Unsupported(String, &'static str),
}

impl NbdUri {
    /// Reads a URI.
    ///
    /// # Errors
    /// When the text is no NBD URI, or one with parts that are not supported; see [`UriError`].
    pub fn parse(text: &str) -> Result<NbdUri, UriError> {
        let wrong = |why| UriError::Malformed(text.to_owned(), why);
        let cannot = |what| UriError::Unsupported(text.to_owned(), what);
        let uri = fluent_uri::Uri::parse(text).map_err(|_| wrong("it is not a URI"))?;
        let authority = uri.authority().ok_or(wrong("it has no //"))?;
        if authority.userinfo().is_some() {
            return Err(cannot("a user, which is for TLS with shared keys"));
        }
        let path = uri.path();
        let path = decoded(path).ok_or(wrong("the export's name is not UTF-8"))?;
        let export = path.strip_prefix('/').unwrap_or(&path).to_owned();
        // The first of a name counts.
        let parameter = |name: &str| {
            let mut pairs = uri.query().into_iter().flat_map(|query| query.split('&'));
            let value = pairs.find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name));
            value.map(|(_, value)| decoded(value).filter(|text| !text.is_empty()))
        };
        let scheme = uri.scheme().as_str().to_ascii_lowercase();
        let place = match scheme.as_str() {
            "nbd" | "nbds" => {
                let host = authority.host();
                let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
                let port = authority.port_to_u16().map_err(|_| wrong("the port is no number below 65536"))?;
                if host.is_empty() {
                    return Err(wrong("it names no host"));
                }
                Place::Tcp(host.to_owned(), port.unwrap_or(PORT_DEFAULT))
            }
            "nbd+unix" | "nbds+unix" => {
                let socket = parameter("socket").ok_or(wrong("it names no socket"))?;
                Place::Unix(socket.ok_or(wrong("the socket's path is empty or not UTF-8"))?.into())
            }
            "nbd+vsock" | "nbds+vsock" => return Err(cannot("vsock")),
            _ => return Err(wrong("its scheme is another")),
        };
        let certificates = parameter("tls-certificates");
        let hostname = parameter("tls-hostname");
        let tls = if scheme.starts_with("nbds") {
            let given =
                |value: Option<Option<String>>, why| value.map(|text| text.ok_or(wrong(why))).transpose();
            let certificates =
                given(certificates, "tls-certificates is empty or not UTF-8")?.map(PathBuf::from);
            Some(UriTls { certificates, hostname: given(hostname, "tls-hostname is empty or not UTF-8")? })
        } else if certificates.is_some() || hostname.is_some() {
            return Err(wrong("it has a parameter for TLS, and its scheme has no TLS"));
        } else {
            None
        };
        Ok(NbdUri { place, export, tls })
    }

    /// Of an export on a Unix socket.
    pub fn unix(socket: &Path, export: &str) -> NbdUri {
        NbdUri { place: Place::Unix(socket.to_owned()), export: export.to_owned(), tls: None }
    }

    /// Of an export on a TCP address.
    pub fn tcp(address: SocketAddr, export: &str) -> NbdUri {
        let place = Place::Tcp(address.ip().to_string(), address.port());
        NbdUri { place, export: export.to_owned(), tls: None }
    }

    /// Whether a text is meant as one of these, well-formed or not.
    pub fn is_meant(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| {
            Scheme::new(scheme).is_some() && scheme.to_ascii_lowercase().starts_with("nbd")
        })
    }
}

fn decoded<E: Encoder>(text: &EStr<E>) -> Option<String> {
    text.decode().to_string().ok().map(|text| text.into_owned())
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut export = EString::<PathEncoder>::new();
        export.encode_str::<PathEncoder>(&self.export);
        let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
        let mut parameters = Vec::new();
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => write!(f, "{scheme}://[{host}]:{port}/{export}")?,
            Place::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}/{export}")?,
            Place::Unix(socket) => {
                write!(f, "{scheme}+unix:///{export}")?;
                parameters.push(format!("socket={}", encoded(&socket.to_string_lossy())));
            }
        }
        let UriTls { certificates, hostname } = self.tls.clone().unwrap_or_default();
        let certificates = certificates.map(|path| encoded(&path.to_string_lossy()));
        parameters.extend(certificates.map(|path| format!("tls-certificates={path}")));
        parameters.extend(hostname.map(|name| format!("tls-hostname={}", encoded(&name))));
        match parameters.as_slice() {
            [] => Ok(()),
            parameters => write!(f, "?{}", parameters.join("&")),
        }
    }
}

/// A value of a parameter. What separates pairs must not be mistaken for a separator.
fn encoded(value: &str) -> String {
    let mut text = EString::<Query>::new();
    for (i, part) in value.split('/').enumerate() {
        if i > 0 {
            text.push('/');
        }
        text.encode_str::<Data>(part);
    }
    text.into_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
        NbdUri { place: Place::Tcp(host.to_owned(), port), export: export.to_owned(), tls: None }
    }

    fn with_tls(uri: NbdUri) -> NbdUri {
        let (certificates, hostname) = (Some("/etc/pki".into()), Some("x.org".to_owned()));
        NbdUri { tls: Some(UriTls { certificates, hostname }), ..uri }
    }

    #[test]
    fn uris_are_read() {
        let right = [
            ("nbd://localhost", tcp("localhost", 10809, "")),
            ("nbd://localhost/", tcp("localhost", 10809, "")),
            ("nbd://10.0.0.1:99/a%20b/c", tcp("10.0.0.1", 99, "a b/c")),
            ("NBD://[::1]:5/x", tcp("::1", 5, "x")),
            ("nbd+unix:///v?socket=/run/a%26b.sock", NbdUri::unix(Path::new("/run/a&b.sock"), "v")),
            ("nbd+unix://?x=y&socket=nbd.sock", NbdUri::unix(Path::new("nbd.sock"), "")),
            ("nbds://h/v", NbdUri { tls: Some(UriTls::default()), ..tcp("h", 10809, "v") }),
            ("nbds://h/v?tls-certificates=/etc/pki&tls-hostname=x.org", with_tls(tcp("h", 10809, "v"))),
            (
                "nbds+unix:///v?tls-hostname=x.org&socket=s&tls-certificates=%2Fetc%2Fpki",
                with_tls(NbdUri::unix(Path::new("s"), "v")),
            ),
        ];
        for (text, uri) in right {
            assert_eq!(NbdUri::parse(text), Ok(uri), "{text}");
            assert!(NbdUri::is_meant(text));
        }
        for wrong in [
            "nbd:///v",
            "nbd+unix:///v",
            "nbd+unix:///v?socket=",
            "nbd://h:99999/",
            "http://h/",
            "nbd://h/ ",
            "nbd",
            "nbd:v",
            "nbd://h/%ff",
            "nbds:///v",
            "nbds://h/?tls-certificates=",
            "nbds+unix:///v",
            "nbd://h/v?tls-certificates=/etc/pki",
        ] {
            assert!(matches!(NbdUri::parse(wrong), Err(UriError::Malformed(..))), "{wrong}");
        }
        for unsupported in ["nbds+vsock://1/", "nbd+vsock://1/", "nbds://me@h/"] {
            assert!(matches!(NbdUri::parse(unsupported), Err(UriError::Unsupported(..))), "{unsupported}");
        }
        assert!(!NbdUri::is_meant("/mnt/nbd") && !NbdUri::is_meant("nbd") && !NbdUri::is_meant("vol://x"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(export in "\\PC{0,20}", socket in "/\\PC{1,20}") {
            let uri = NbdUri::unix(Path::new(&socket), &export);
            prop_assert_eq!(NbdUri::parse(&uri.to_string()), Ok(uri.clone()));
            let tls = UriTls { certificates: Some(socket.clone().into()), hostname: Some(socket) };
            for place in [uri.place.clone(), tcp("::1", 7, "").place] {
                let uri = NbdUri { place, tls: Some(tls.clone()), ..uri.clone() };
                prop_assert_eq!(NbdUri::parse(&uri.to_string()), Ok(uri));
            }
        }
    }
}
