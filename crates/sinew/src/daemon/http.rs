//! HTTP as far as scrapers and the page need it: one GET or HEAD for each connection, bounded in size, in time and in number.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::transport::Part;
use sinew_uring::UringIo;
use sinew_uring::net::{Listener, Stream};

use crate::out::complain;

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a connection may last.
const CONNECTION_NS_MAX: u64 = 10_000_000_000;
/// Connections of a listener at the same time. Further ones are closed at once: a scraper needs one.
const CONNECTIONS_MAX: usize = 32;
/// How long no connection is accepted after that has failed, for lack of descriptors most likely.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
const PLAIN: &str = "text/plain; charset=utf-8";

/// What is found at a path.
pub(super) enum Page {
    /// A text of this content type.
    Found(&'static str, String),
    /// There is nothing; says what there is.
    Absent(&'static str),
    /// It cannot be made; says why.
    Failed(String),
}

/// What a server has at its paths.
pub(super) trait Site: 'static {
    /// Headers of every page, each with its end.
    const HEADERS: &str = "";

    /// The page at a path, without its query.
    fn page(&self, path: &str) -> impl Future<Output = Page>;

    /// Whether requests are answered that are made to this host.
    fn accepts(&self, _host: Option<&str>) -> bool {
        true
    }
}

/// Serves a site until the daemon ends.
pub(super) async fn serve<S: Site>(io: UringIo, site: Rc<S>, listener: Listener) {
    let open = Rc::new(Cell::new(0));
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                complain!("cannot accept an HTTP connection: {error}");
                io.sleep(ACCEPT_PAUSE_NS).await;
                continue;
            }
        };
        if open.get() == CONNECTIONS_MAX {
            continue;
        }
        open.set(open.get() + 1);
        let (own_io, site, open) = (io.clone(), Rc::clone(&site), Rc::clone(&open));
        io.spawn(async move {
            converse(&own_io, &*site, stream, Vec::new()).await;
            open.set(open.get() - 1);
        });
    }
}

/// Answers the one request of a connection, of which `received` has come already.
pub(super) async fn converse<S: Site>(io: &UringIo, site: &S, stream: Stream, mut received: Vec<u8>) {
    let ended = Rc::new(Cell::new(false));
    let (late, clock, has_ended) = (stream.clone(), io.clone(), Rc::clone(&ended));
    io.spawn(async move {
        clock.sleep(CONNECTION_NS_MAX).await;
        if !has_ended.get() {
            late.shutdown();
        }
    });
    if let Some(request) = read_head(&stream, &mut received).await {
        let answer = match request {
            Ok(Request { host, .. }) if !site.accepts(host.as_deref()) => {
                Refusal("421 Misdirected Request", "use an address or localhost as the name of this host")
                    .encode()
            }
            Ok(Request { path, head_only, .. }) => encode(site.page(&path).await, S::HEADERS, head_only),
            Err(refusal) => refusal.encode(),
        };
        // The client may have left.
        let _ = stream.send(vec![Part::Bytes(answer)]).await;
    }
    ended.set(true);
    stream.shutdown();
}

#[derive(Debug, PartialEq)]
struct Request {
    path: String,
    host: Option<String>,
    /// The answer has no body.
    head_only: bool,
}

/// Why a request is not carried out.
#[derive(Debug, PartialEq)]
struct Refusal(&'static str, &'static str);

impl Refusal {
    fn encode(&self) -> Vec<u8> {
        let extra = if self.0.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        response(self.0, PLAIN, extra, &format!("{}\n", self.1), false)
    }
}

/// The request, once its head is there; none if the client has left before.
async fn read_head(stream: &Stream, received: &mut Vec<u8>) -> Option<Result<Request, Refusal>> {
    loop {
        if let Some(request) = parse(received) {
            return Some(request);
        }
        let (buf, got) = stream.recv(vec![0; 4096], 0).await;
        let got @ 1.. = got.ok()? else { return None };
        received.extend_from_slice(&buf[..got]);
    }
}

/// The request; none if its head is not complete.
fn parse(received: &[u8]) -> Option<Result<Request, Refusal>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(received) {
        Ok(httparse::Status::Partial) if received.len() < HEAD_BYTES_MAX => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Some(Err(Refusal("431 Request Header Fields Too Large", "the head of the request is too long")))
        }
        Err(_) => Some(Err(Refusal("400 Bad Request", "this is no HTTP request"))),
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
            let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
            let host = host.map(|header| String::from_utf8_lossy(header.value).into_owned());
            Some(match request.method {
                Some("GET") => Ok(Request { path, host, head_only: false }),
                Some("HEAD") => Ok(Request { path, host, head_only: true }),
                _ => Err(Refusal("405 Method Not Allowed", "there are only GET and HEAD")),
            })
        }
    }
}

fn encode(page: Page, headers: &str, head_only: bool) -> Vec<u8> {
    let lines = |text: String| format!("{text}\n");
    match page {
        Page::Found(kind, text) => response("200 OK", kind, headers, &text, head_only),
        Page::Absent(text) => response("404 Not Found", PLAIN, headers, &lines(text.to_owned()), head_only),
        Page::Failed(why) => response("500 Internal Server Error", PLAIN, headers, &lines(why), head_only),
    }
}

fn response(code: &str, kind: &str, extra: &str, body: &str, head_only: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{extra}Connection: close\r\n\r\n",
        body.len()
    );
    let body = if head_only { "" } else { body };
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_whole_or_refused() {
        let get = |path: &str, host: Option<&str>, head_only| {
            Some(Ok(Request { path: path.to_owned(), host: host.map(str::to_owned), head_only }))
        };
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), get("/metrics", Some("x"), false));
        assert_eq!(parse(b"HEAD /metrics?name=a HTTP/1.0\r\n\r\n"), get("/metrics", None, true));
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        let code = |bytes: &[u8]| parse(bytes).and_then(Result::err).map(|refusal| &refusal.0[..3]);
        assert_eq!(code(b"POST /metrics HTTP/1.1\r\n\r\n"), Some("405"));
        assert_eq!(code(b"NBDMAGIC\0\0\0"), Some("400"));
        let long = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(HEAD_BYTES_MAX));
        assert_eq!(code(long.as_bytes()), Some("431"));
        let headers = "A: b\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(code(format!("GET / HTTP/1.1\r\n{headers}\r\n").as_bytes()), Some("431"));
    }

    #[test]
    fn a_head_has_the_length_of_the_body_and_no_body() {
        let text = |page, head_only| String::from_utf8(encode(page, "A: b\r\n", head_only)).unwrap();
        let found = || Page::Found(PLAIN, "12345".to_owned());
        let (get, head) = (text(found(), false), text(found(), true));
        assert_eq!(get, format!("{head}12345"));
        assert!(head.contains("\r\nA: b\r\n"));
        assert!(head.contains("\r\nContent-Length: 5\r\n") && head.ends_with("\r\n\r\n"));
        assert!(text(Page::Absent("no"), false).starts_with("HTTP/1.1 404 "));
    }
}
