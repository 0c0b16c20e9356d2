//! Where a server and its export are, as people write it: the URIs of the NBD project's "NBD URI" document.
//!
//! ```text
//! nbd://HOST[:PORT]/EXPORT                 TCP
//! nbd+unix:///EXPORT?socket=PATH           Unix socket
//! ```
//!
//! Both are read and written. TLS (`nbds`) and vsock are refused by name.

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

/// A server and the name of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// Where the server is.
    pub place: Place,
    /// The export; empty for the server's default.
    pub export: String,
}

/// What is wrong with a URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// It is not well-formed, or lacks a part.
    #[error("{0} is not an NBD URI: {1}; write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH")]
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
            return Err(cannot("a user, which is for TLS"));
        }
        let path = uri.path();
        let path = decoded(path).ok_or(wrong("the export's name is not UTF-8"))?;
        let export = path.strip_prefix('/').unwrap_or(&path).to_owned();
        let place = match uri.scheme().as_str().to_ascii_lowercase().as_str() {
            "nbd" => {
                let host = authority.host();
                let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
                let port = authority.port_to_u16().map_err(|_| wrong("the port is no number below 65536"))?;
                if host.is_empty() {
                    return Err(wrong("it names no host"));
                }
                Place::Tcp(host.to_owned(), port.unwrap_or(PORT_DEFAULT))
            }
            "nbd+unix" => {
                let pairs = uri.query().into_iter().flat_map(|query| query.split('&'));
                let mut sockets =
                    pairs.filter_map(|pair| pair.split_once('=')).filter(|(name, _)| *name == "socket");
                let socket = sockets.next().ok_or(wrong("it names no socket"))?.1;
                let socket = decoded(socket).filter(|path| !path.is_empty());
                Place::Unix(socket.ok_or(wrong("the socket's path is empty or not UTF-8"))?.into())
            }
            "nbds" | "nbds+unix" | "nbds+vsock" => return Err(cannot("TLS")),
            "nbd+vsock" => return Err(cannot("vsock")),
            _ => return Err(wrong("its scheme is another")),
        };
        Ok(NbdUri { place, export })
    }

    /// Of an export on a Unix socket.
    pub fn unix(socket: &Path, export: &str) -> NbdUri {
        NbdUri { place: Place::Unix(socket.to_owned()), export: export.to_owned() }
    }

    /// Of an export on a TCP address.
    pub fn tcp(address: SocketAddr, export: &str) -> NbdUri {
        NbdUri { place: Place::Tcp(address.ip().to_string(), address.port()), export: export.to_owned() }
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
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => write!(f, "nbd://[{host}]:{port}/{export}"),
            Place::Tcp(host, port) => write!(f, "nbd://{host}:{port}/{export}"),
            Place::Unix(socket) => {
                let mut path = EString::<Query>::new();
                // What separates pairs must not be mistaken for a separator.
                for (i, part) in socket.to_string_lossy().split('/').enumerate() {
                    if i > 0 {
                        path.push('/');
                    }
                    path.encode_str::<Data>(part);
                }
                write!(f, "nbd+unix:///{export}?socket={path}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
        NbdUri { place: Place::Tcp(host.to_owned(), port), export: export.to_owned() }
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
        ] {
            assert!(matches!(NbdUri::parse(wrong), Err(UriError::Malformed(..))), "{wrong}");
        }
        for unsupported in ["nbds://h/", "nbds+unix:///v?socket=s", "nbd+vsock://1/", "nbd://me@h/"] {
            assert!(matches!(NbdUri::parse(unsupported), Err(UriError::Unsupported(..))), "{unsupported}");
        }
        assert!(!NbdUri::is_meant("/mnt/nbd") && !NbdUri::is_meant("nbd") && !NbdUri::is_meant("vol://x"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(export in "\\PC{0,20}", socket in "/\\PC{1,20}") {
            let uri = NbdUri::unix(Path::new(&socket), &export);
            prop_assert_eq!(NbdUri::parse(&uri.to_string()), Ok(uri));
        }
    }
}
