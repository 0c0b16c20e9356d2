//! TLS: the project's client and server against each other, and against peers that show wrong certificates, none, or do
//! not keep to the order of the protocol.

mod harness;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;

use harness::client::{Bench, Received, hello, info_data, meta_data, option, request};
use harness::memory::{MemoryExports, MemoryVolume, TaskIo};
use harness::wire::{ClientEnd, Wire};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto};
use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_frontend::exports::{Export, Exports};
use sinew_frontend::nbd::proto::{Headers, command, option as code, option_reply};
use sinew_frontend::nbd::server::HANDSHAKE_NS_MAX;
use sinew_frontend::nbd::{Client, ClientError, ConnectionEnd, TlsMode, serve_connection};
use sinew_frontend::tls::credentials::OwnPem;
use sinew_frontend::tls::{AllowList, ClientTls, CredentialsError, ServerTls, TlsError};

const BYTES: u64 = 64 << 20;
const FLAGS: [u8; 4] = [0, 0, 0, 3];

/// A certificate and its key, as PEM.
#[derive(Clone)]
struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    fn pem(&self) -> OwnPem<'_> {
        OwnPem { certificate: self.certificate.as_bytes(), key: self.key.as_bytes() }
    }
}

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        Authority::named("authority of a test")
    }

    fn named(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a common name and host names, changed as the test wants.
    fn issue(&self, name: &str, hosts: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names =
            hosts.iter().map(|host| SanType::DnsName((*host).try_into().unwrap())).collect();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    fn server(&self) -> Identity {
        self.issue("server", &["store.example.org"], |_| {})
    }

    /// A client's side that believes this authority.
    fn client(&self, own: Option<&Identity>) -> ClientTls {
        ClientTls::new(self.pem().as_bytes(), own.map(Identity::pem), "store.example.org").unwrap()
    }

    /// A server's side that demands certificates of this authority.
    fn demanding(&self, allowed: &[(&str, &str)]) -> Arc<ServerTls> {
        let mut list = AllowList::default();
        allowed.iter().for_each(|(client, export)| list.allow(client, export));
        let list = (!allowed.is_empty()).then_some(list);
        let pem = self.pem();
        Arc::new(ServerTls::new(self.server().pem(), Some(pem.as_bytes()), list).unwrap())
    }

    /// A server's side that demands nothing.
    fn anonymous(&self) -> Arc<ServerTls> {
        Arc::new(ServerTls::new(self.server().pem(), None, None).unwrap())
    }
}

/// Exports that remember which clients were refused.
#[derive(Clone)]
struct Watched {
    exports: MemoryExports,
    heard: Rc<RefCell<Vec<String>>>,
}

impl Watched {
    fn new(volume: &MemoryVolume) -> Watched {
        let exports = MemoryExports(vec![("disk*", volume.clone()), ("other", volume.clone())]);
        Watched { exports, heard: Rc::default() }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }
}

impl Exports for Watched {
    type Volume = MemoryVolume;

    fn names(&self) -> Vec<String> {
        self.exports.names()
    }

    fn open(&self, name: &str) -> Option<Export<MemoryVolume>> {
        self.exports.open(name)
    }

    fn default_name(&self) -> Option<String> {
        self.exports.default_name()
    }

    fn refused(&self, names: &[String], why: &str) {
        self.heard.borrow_mut().push(format!("{}: {why}", names.join(",")));
    }
}

type WireClient = Client<TaskIo, ClientEnd>;

/// Connects to an export of a server in this mode; gives how that went, and the refusals that the server reports.
fn connect<T>(
    mode: TlsMode,
    cuts: &[usize],
    export: &str,
    tls: Option<&ClientTls>,
    then: impl AsyncFnOnce(Result<WireClient, ClientError>) -> T,
) -> (T, Vec<String>) {
    let (io, wire) = (TaskIo::new(), Wire::cut(cuts));
    let mut volume = MemoryVolume::new(BYTES);
    volume.yields = 7;
    let exports = Watched::new(&volume);
    let (server, stream, served) = (io.clone(), Rc::new(wire.clone()), exports.clone());
    io.spawn(async move {
        let _ = serve_connection(server, stream, served, &mode).await;
    });
    let result = io.block_on(async {
        let stream = Rc::new(ClientEnd(wire.clone()));
        then(Client::connect(&io, stream, export, 1_000_000_000, tls).await).await
    });
    io.settle();
    (result, exports.heard())
}

/// Why a connection failed, and what the server says about it.
fn failure(mode: TlsMode, export: &str, tls: Option<&ClientTls>) -> (ClientError, Vec<String>) {
    let (error, heard) = connect(mode, &[], export, tls, async |client| client.err());
    (error.expect("it fails"), heard)
}

fn bytes(parts: &[Buf]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.bytes().iter().copied()).collect()
}

fn pattern(len: usize, seed: usize) -> Buf {
    Buf::copy_of(&(0..len).map(|i| (i * 31 + seed * 7 + i / 251) as u8).collect::<Vec<_>>())
}

#[test]
fn what_is_written_through_tls_is_read() {
    let authority = Authority::new();
    let own = authority.issue("client", &[], |_| {});
    let tls = authority.client(Some(&own));
    for mode in [
        TlsMode::Allow(authority.anonymous()),
        TlsMode::Require(authority.anonymous()),
        TlsMode::Allow(authority.demanding(&[])),
        TlsMode::Require(authority.demanding(&[("client", "disk")])),
    ] {
        for cuts in [&[][..], &[1], &[27, 1, 4096], &[7, 29, 512]] {
            let (_, heard) = connect(mode.clone(), cuts, "disk", Some(&tls), async |client| {
                let client = client.expect("connected");
                assert_eq!((client.terms().bytes, client.terms().headers), (BYTES, Headers::Extended));
                for (offset, len) in [(0, 4096), (4096, 100_000), (BYTES - 512, 512), (777, 333)] {
                    let data = pattern(len, offset as usize);
                    client.write(offset, &data).await.expect("written");
                    assert_eq!(bytes(&client.read(offset, len as u32).await.expect("read")), data.bytes());
                }
                client.flush().await.expect("flushed");
                client.close().await;
            });
            assert_eq!(heard, [""; 0]);
        }
    }
}

#[test]
fn large_payloads_and_many_requests_at_once_pass_through_tls() {
    let authority = Authority::new();
    let tls = authority.client(None);
    connect(TlsMode::Require(authority.anonymous()), &[], "disk", Some(&tls), async |client| {
        let client = &client.expect("connected");
        let data = pattern((20 << 20) + 4096, 3);
        client.write(8192, &data).await.expect("written");
        assert!(bytes(&client.read(8192, data.len() as u32).await.expect("read")) == data.bytes());
        let all = smol::LocalExecutor::new();
        let one = async |i: u64| {
            let data = pattern(20_000, i as usize);
            client.write(i * 20_480, &data).await.expect("written");
            assert_eq!(bytes(&client.read(i * 20_480, 20_000).await.expect("read")), data.bytes(), "{i}");
        };
        let tasks: Vec<_> = (0..200).map(|i| all.spawn(one(i))).collect();
        all.run(async {
            for task in tasks {
                task.await;
            }
        })
        .await;
    });
}

#[test]
fn a_client_without_tls_is_served_where_it_is_allowed_and_refused_where_it_is_required() {
    let authority = Authority::new();
    let (_, heard) = connect(TlsMode::Allow(authority.demanding(&[])), &[], "disk", None, async |client| {
        client.expect("connected").write(0, &pattern(4096, 1)).await.expect("written");
    });
    assert_eq!(heard, [""; 0]);
    let (error, heard) = failure(TlsMode::Require(authority.anonymous()), "disk", None);
    assert!(error.to_string().contains("it demands TLS"), "{error}");
    assert_eq!(heard, [": it did not ask for TLS, which is required"]);
}

#[test]
fn a_client_that_wants_tls_does_not_go_on_without() {
    let authority = Authority::new();
    let (error, _) = failure(TlsMode::Off, "disk", Some(&authority.client(None)));
    assert!(error.to_string().contains("does not offer TLS"), "{error}");
}

#[test]
fn wrong_certificates_of_clients_are_refused_with_the_reason() {
    let (authority, other, impostor) = (Authority::new(), Authority::named("other"), Authority::new());
    let mode = TlsMode::Require(authority.demanding(&[]));
    let expired = authority.issue("client", &[], |params| params.not_after = date_time_ymd(2020, 1, 1));
    let early = authority.issue("client", &[], |params| params.not_before = date_time_ymd(4000, 1, 1));
    let foreign = other.issue("client", &[], |_| {});
    let forged = impostor.issue("client", &[], |_| {});
    for (own, why) in [
        (None, ": it has no certificate"),
        (Some(&expired), ": its certificate has expired"),
        (Some(&early), ": its certificate is not valid yet"),
        (Some(&forged), ": its certificate is not signed by the certificate authority that is believed here"),
        (Some(&foreign), ": its certificate is not from the certificate authority that is believed here"),
    ] {
        let (error, heard) = failure(mode.clone(), "disk", Some(&authority.client(own)));
        assert!(matches!(error, ClientError::NoTls(TlsError::Refused(_))), "{error:?}");
        assert_eq!(heard, [why]);
    }
}

#[test]
fn wrong_certificates_of_servers_are_refused_with_the_reason() {
    let (authority, other) = (Authority::new(), Authority::named("other"));
    let expired = authority
        .issue("server", &["store.example.org"], |params| params.not_after = date_time_ymd(2020, 1, 1));
    let renamed = authority.issue("store.example.org", &["other.example.org"], |_| {});
    for (own, why) in [
        (&expired, "its certificate has expired"),
        (&renamed, "its certificate is for another name"),
        (&other.server(), "its certificate is not from the certificate authority that is believed here"),
    ] {
        let mode = TlsMode::Allow(Arc::new(ServerTls::new(own.pem(), None, None).unwrap()));
        let (error, heard) = failure(mode, "disk", Some(&authority.client(None)));
        assert_eq!(error, ClientError::NoTls(TlsError::Refused(why.to_owned())));
        assert!(heard[0].contains("it refused this side's certificate"), "{heard:?}");
    }
}

#[test]
fn clients_reach_what_their_names_are_allowed() {
    let authority = Authority::new();
    let list = [("by-common-name", "disk"), ("host.example.org", "other"), ("root", "*")];
    let mode = TlsMode::Require(authority.demanding(&list));
    let by_name = authority.issue("by-common-name", &["unknown.example.org"], |_| {});
    let by_host = authority.issue("another", &["host.example.org"], |_| {});
    let root = authority.issue("root", &[], |_| {});
    let unlisted = authority.issue("unlisted", &[], |_| {});
    for (own, export, is_allowed) in [
        (&by_name, "disk", true),
        (&by_name, "", true),
        (&by_name, "other", false),
        // What it may not use is refused alike, whether it exists or not.
        (&by_name, "missing", false),
        (&by_host, "other", true),
        (&by_host, "disk", false),
        (&root, "disk", true),
        (&root, "other", true),
        (&unlisted, "disk", false),
    ] {
        let tls = authority.client(Some(own));
        let (error, heard) = connect(mode.clone(), &[], export, Some(&tls), async |client| client.err());
        assert_eq!(error.is_none(), is_allowed, "{export:?}: {error:?}");
        if let Some(error) = error {
            assert!(error.to_string().contains("does not allow this export"), "{error}");
            assert_eq!(heard.len(), 1);
            assert!(heard[0].ends_with(&format!(": it may not use export {export:?}")), "{heard:?}");
        } else {
            assert_eq!(heard, [""; 0]);
        }
    }
    let (error, heard) = failure(mode, "other", Some(&authority.client(Some(&by_name))));
    assert!(matches!(error, ClientError::NoExport(_)));
    assert_eq!(heard, ["by-common-name,unknown.example.org: it may not use export \"other\""]);
}

#[test]
fn what_cannot_be_used_is_said() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (own, another) = (authority.server(), other.server());
    let new = |certificate: &str, key: &str, ca: Option<&str>| {
        let own = OwnPem { certificate: certificate.as_bytes(), key: key.as_bytes() };
        ServerTls::new(own, ca.map(str::as_bytes), None).map(drop).expect_err("refused")
    };
    let nothing = new("", &own.key, None);
    assert!(matches!(&nothing, CredentialsError::Certificate(why) if why.contains("BEGIN CERTIFICATE")));
    assert!(matches!(new(&own.key, &own.key, None), CredentialsError::Certificate(_)));
    assert!(matches!(new(&own.certificate, &own.certificate, None), CredentialsError::Key(_)));
    assert!(matches!(new(&own.certificate, &another.key, None), CredentialsError::Key(_)));
    assert!(matches!(new(&own.certificate, &own.key, Some("")), CredentialsError::Authority(_)));
    let name = ClientTls::new(authority.pem().as_bytes(), None, "not a name").expect_err("refused");
    assert_eq!(name, CredentialsError::ServerName("not a name".into()));
    assert!(ClientTls::new(authority.pem().as_bytes(), None, "::1").is_ok());
}

/// The server of a test of words.
fn haggling(mode: TlsMode) -> (Bench, Watched) {
    let volume = MemoryVolume::new(8 << 20);
    let exports = Watched::new(&volume);
    let bench = Bench::start_with(Wire::default(), volume, exports.clone(), mode);
    bench.talk(&FLAGS).greeting();
    (bench, exports)
}

fn kinds(mut received: Received) -> Vec<u32> {
    let kinds = received.option_replies().iter().map(|reply| reply.kind).collect();
    assert!(received.0.is_empty());
    kinds
}

#[test]
fn nothing_is_told_before_required_tls() {
    let mode = TlsMode::Require(Authority::new().anonymous());
    let (bench, exports) = haggling(mode.clone());
    for (code, data) in [
        (code::LIST, Vec::new()),
        (code::INFO, info_data("disk", &[])),
        (code::GO, info_data("disk", &[])),
        (code::STRUCTURED_REPLY, Vec::new()),
        (code::LIST_META_CONTEXT, meta_data("disk", &[])),
        (code::SET_META_CONTEXT, meta_data("disk", &["base:allocation"])),
        (4711, b"data".to_vec()),
        (code::INFO, vec![0; 100_000]),
    ] {
        assert_eq!(kinds(bench.talk(&option(code, &data))), [option_reply::ERR_TLS_REQD], "option {code}");
    }
    assert_eq!(kinds(bench.talk(&option(code::STARTTLS, b"x"))), [option_reply::ERR_INVALID]);
    assert_eq!(exports.heard().len(), 1, "one client, one refusal");
    assert_eq!(kinds(bench.talk(&option(code::ABORT, &[]))), [option_reply::ACK]);
    assert_eq!(bench.end(), Some(ConnectionEnd::Disconnected));

    let (bench, _) = haggling(mode.clone());
    assert!(bench.talk(&option(code::EXPORT_NAME, b"disk")).0.is_empty());
    assert_eq!(bench.end(), Some(ConnectionEnd::Violation("TLS is required")));

    // A client that does not know the handshake with which TLS is asked for.
    let volume = MemoryVolume::new(8 << 20);
    let exports = Watched::new(&volume);
    let bench = Bench::start_with(Wire::default(), volume, exports, mode);
    bench.talk(&[0, 0, 0, 0]).greeting();
    assert_eq!(bench.end(), Some(ConnectionEnd::Violation("TLS is required")));
}

#[test]
fn data_before_the_answer_to_starttls_ends_it() {
    for mode in [TlsMode::Allow as fn(_) -> _, TlsMode::Require] {
        let (bench, exports) = haggling(mode(Authority::new().anonymous()));
        let injected = [option(code::STARTTLS, &[]), option(code::GO, &info_data("disk", &[]))].concat();
        bench.talk(&injected);
        assert_eq!(bench.end(), Some(ConnectionEnd::Violation("data behind STARTTLS")));
        assert_eq!(exports.heard().len(), 1);
    }
}

#[test]
fn words_that_are_not_tls_end_it() {
    let (bench, exports) = haggling(TlsMode::Allow(Authority::new().anonymous()));
    assert_eq!(kinds(bench.talk(&option(code::STARTTLS, &[]))), [option_reply::ACK]);
    bench.talk(&option(code::GO, &info_data("disk", &[])));
    assert_eq!(bench.end(), Some(ConnectionEnd::NoTls));
    assert_eq!(exports.heard(), [": what it sends is not TLS"]);
}

#[test]
fn a_handshake_of_tls_that_stalls_is_ended() {
    let (bench, _) = haggling(TlsMode::Allow(Authority::new().anonymous()));
    bench.talk(&option(code::STARTTLS, &[]));
    // The beginning of a record.
    bench.talk(&[22, 3, 1, 2, 0]);
    bench.io.advance(HANDSHAKE_NS_MAX - 1);
    assert_eq!(bench.end(), None);
    bench.io.advance(1);
    assert_eq!(bench.end(), Some(ConnectionEnd::TimedOut));
}

/// A client's TLS, word by word.
struct Protected {
    bench: Bench,
    tls: ClientConnection,
}

impl Protected {
    fn start(bench: Bench, authority: &Authority, own: &Identity) -> Protected {
        let mut received = bench.talk(&option(code::STARTTLS, &[]));
        assert_eq!(received.option_replies()[0].kind, option_reply::ACK);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        let name = "store.example.org".try_into().unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut protected = Protected { bench, tls };
        assert!(protected.talk(&[]).0.is_empty());
        protected
    }

    /// Sends, lets everything happen that can, and gives what came back.
    fn talk(&mut self, bytes: &[u8]) -> Received {
        self.tls.writer().write_all(bytes).unwrap();
        let mut answer = Vec::new();
        while self.tls.wants_write() {
            let mut records = Vec::new();
            self.tls.write_tls(&mut records).unwrap();
            let received = self.bench.talk(&records).0;
            let mut rest = received.as_slice();
            while !rest.is_empty() {
                self.tls.read_tls(&mut rest).unwrap();
                self.tls.process_new_packets().unwrap();
                let _ = self.tls.reader().read_to_end(&mut answer);
            }
        }
        Received(answer)
    }
}

#[test]
fn what_was_said_before_tls_is_forgotten() {
    let authority = Authority::new();
    let own = authority.issue("client", &[], |_| {});
    let (bench, _) = haggling(TlsMode::Allow(authority.demanding(&[("client", "disk")])));
    bench.talk(&option(code::STRUCTURED_REPLY, &[]));
    bench.talk(&option(code::SET_META_CONTEXT, &meta_data("disk", &["base:allocation"])));
    let mut client = Protected::start(bench, &authority, &own);
    assert_eq!(kinds(client.talk(&option(code::STARTTLS, &[]))), [option_reply::ERR_INVALID]);
    let names = client.talk(&option(code::LIST, &[])).option_replies();
    let names: Vec<_> = names.iter().map(|reply| reply.data.get(4..).unwrap_or_default()).collect();
    assert_eq!(names, [&b"disk"[..], b""]);
    let context = option(code::SET_META_CONTEXT, &meta_data("disk", &["base:allocation"]));
    assert_eq!(kinds(client.talk(&context)), [option_reply::ERR_INVALID], "no structured replies yet");
    let go = option(code::GO, &info_data("disk", &[]));
    assert_eq!(kinds(client.talk(&go)), [option_reply::INFO, option_reply::ACK]);
    let status = request(command::BLOCK_STATUS, 0, 1, 0, 4096, &[]);
    let replies = client.talk(&status).replies(|_| 0);
    assert!(matches!(&replies[..], [harness::client::Reply::Simple { error: 22, .. }]), "{replies:?}");
}

#[test]
fn the_server_takes_leave_by_tls() {
    let authority = Authority::new();
    let own = authority.issue("client", &[], |_| {});
    let (bench, _) = haggling(TlsMode::Require(authority.demanding(&[])));
    let mut client = Protected::start(bench, &authority, &own);
    client.talk(&hello("disk", true)[4..]);
    client.talk(&request(command::DISC, 0, 1, 0, 0, &[]));
    assert_eq!(client.bench.end(), Some(ConnectionEnd::Disconnected));
    let state = client.tls.process_new_packets().unwrap();
    assert!(state.peer_has_closed());
}

#[test]
fn a_forged_record_ends_the_connection() {
    let authority = Authority::new();
    let own = authority.issue("client", &[], |_| {});
    let (bench, _) = haggling(TlsMode::Require(authority.demanding(&[])));
    let mut client = Protected::start(bench, &authority, &own);
    client.talk(&hello("disk", true)[4..]);
    client.tls.writer().write_all(&request(command::FLUSH, 0, 1, 0, 0, &[])).unwrap();
    let mut record = Vec::new();
    client.tls.write_tls(&mut record).unwrap();
    *record.last_mut().unwrap() ^= 1;
    client.bench.talk(&record);
    assert_eq!(client.bench.end(), Some(ConnectionEnd::Vanished));
    assert_eq!(client.bench.volume.counts().0, 0);
}
