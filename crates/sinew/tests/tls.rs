//! NBD with TLS as an operator sees it: which listeners need it, what is said about wrong options and files, and the events
//! of clients that were refused.

mod harness;

use std::net::TcpStream;

use harness::{Sandbox, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes the directory of a side: the authority's certificate, its own, and its key.
fn write_directory(sandbox: &Sandbox, directory: &str, authority: &Authority, side: &str, name: &str) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let directory = sandbox.path(directory);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("ca-cert.pem"), authority.pem()).unwrap();
    std::fs::write(directory.join(format!("{side}-cert.pem")), certificate.pem()).unwrap();
    std::fs::write(directory.join(format!("{side}-key.pem")), key.serialize_pem()).unwrap();
}

fn address(server: &Server<'_>) -> String {
    server.status()["nbd"]["tcp"].as_str().expect("a TCP address").to_owned()
}

fn uri(server: &Server<'_>, sandbox: &Sandbox, volume: &str, directory: &str) -> String {
    let certificates = sandbox.path(directory);
    format!("nbds://{}/{volume}?tls-certificates={}", address(server), certificates.display())
}

#[test]
fn a_listener_that_others_reach_needs_certificates_of_clients() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    write_directory(&sandbox, "tls", &authority(), "server", "server");
    let serve = |options: &[&str]| sandbox.fails(&[&["serve", ".", "--tcp", "0.0.0.0:0"], options].concat());
    for options in [
        &[][..],
        &["--tls", "off", "--tls-certificates", "tls"],
        &["--tls", "allow", "--tls-certificates", "tls"],
        &["--tls-certificates", "tls", "--tls-verify-peer", "false"],
    ] {
        let complaint = serve(options);
        for part in ["reached by other machines", "--tls-certificates DIR", "127.0.0.1", "--public"] {
            assert!(complaint.contains(part), "{options:?}: {complaint}");
        }
    }
    let server = sandbox.serve_with(&["--tcp", "0.0.0.0:0", "--tls-certificates", "tls"]);
    assert_eq!(server.status()["nbd"]["tls"], "require");
    assert!(server.log().contains("(TLS: require)"), "{}", server.log());
    server.stop();
    let server = sandbox.serve_with(&["--tcp", "0.0.0.0:0", "--public"]);
    assert_eq!(server.status()["nbd"]["tls"], "off");
    server.stop();
}

#[test]
fn wrong_options_and_files_are_named() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let says = |options: &[&str], part: &str| {
        let complaint = sandbox.fails(&[&["serve", ".", "--tcp", "127.0.0.1:0"], options].concat());
        assert!(complaint.contains(part), "{options:?}: {part:?} is missing in: {complaint}");
    };
    says(&["--tls", "require"], "--tls-certificates DIR");
    says(&["--tls-certificates", "missing"], "missing/server-cert.pem");
    write_directory(&sandbox, "tls", &authority(), "server", "server");
    says(&["--tls", "allow", "--tls-certificates", "tls", "--tls-client", "a=v"], "say --tls require");
    let other = KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(sandbox.path("tls/server-key.pem"), other).unwrap();
    says(&["--tls-certificates", "tls"], "tls/server-key.pem is wrong");
    std::fs::write(sandbox.path("tls/ca-cert.pem"), "nothing").unwrap();
    write_directory(&sandbox, "tls2", &authority(), "server", "server");
    std::fs::write(sandbox.path("tls2/ca-cert.pem"), "nothing").unwrap();
    says(&["--tls-certificates", "tls2"], "tls2/ca-cert.pem is wrong");
    let misused = sandbox.misused(&["serve", ".", "--tls-certificates", "tls", "--tls-client", "a"]);
    assert!(misused.contains("NAME=*"), "{misused}");
    let replay = sandbox.fails(&["replay", "nbds://127.0.0.1/v", "exchange-like"]);
    assert!(replay.contains("add tls-certificates=DIR"), "{replay}");
}

#[test]
fn clients_are_served_or_refused_and_refusals_are_events() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let (authority, other) = (authority(), authority());
    write_directory(&sandbox, "tls", &authority, "server", "server");
    write_directory(&sandbox, "client", &authority, "client", "host1");
    write_directory(&sandbox, "foreign", &other, "client", "host1");
    std::fs::write(sandbox.path("foreign/ca-cert.pem"), authority.pem()).unwrap();
    std::fs::create_dir(sandbox.path("none")).unwrap();
    std::fs::write(sandbox.path("none/ca-cert.pem"), authority.pem()).unwrap();
    let options = ["--tcp", "127.0.0.1:0", "--tls-certificates", "tls", "--tls-client", "host1=v"];
    let server = sandbox.serve_with(&options);
    sandbox.ok(&["volume", "create", "w", "8M"]);
    let replay = |volume: &str, directory: &str| {
        let uri = uri(&server, &sandbox, volume, directory);
        sandbox.run(&[
            "replay",
            &uri,
            "exchange-like",
            "--fold",
            "--limit",
            "50",
            "--speed",
            "100",
            "--verify",
        ])
    };
    let served = replay("v", "client");
    assert!(served.status.success(), "{}", harness::text(&served.stderr));
    for (volume, directory, reason) in [
        ("w", "client", "it may not use export \"w\""),
        ("v", "foreign", "it"),
        ("v", "none", "it has no certificate"),
    ] {
        assert!(!replay(volume, directory).status.success(), "{volume} with {directory}");
        let heard = || {
            let events = sandbox.ok(&["events", "--json"]);
            let events: Vec<serde_json::Value> =
                events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            events.into_iter().any(|event| {
                event["event"] == "client-refused"
                    && event["severity"] == "warning"
                    && event["client"].as_str().is_some_and(|client| client.starts_with("127.0.0.1"))
                    && event["reason"].as_str().is_some_and(|why| why.starts_with(reason))
            })
        };
        harness::wait_until("the refusal is an event", heard);
    }
    let plain = sandbox.fails(&["replay", &format!("nbd://{}/v", address(&server)), "exchange-like"]);
    assert!(plain.contains("it demands TLS"), "{plain}");
    // A client that says nothing holds up no other client, nor the end of the server.
    let silent = TcpStream::connect(address(&server)).expect("connected");
    assert!(replay("v", "client").status.success());
    assert!(server.stop().contains("stopped, everything is on the members"));
    drop(silent);
}
