//! The names in a certificate.

use std::collections::BTreeSet;

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{DirectoryString, GeneralName};

/// The names of the owner of a certificate in DER: the common names of its subject, and the host names, mail addresses and
/// URIs among its alternative names. Each once, in this order; none if it cannot be read.
pub(super) fn names_of(der: &[u8]) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(der) else { return Vec::new() };
    let content = certificate.tbs_certificate();
    let attributes = content.subject().iter().filter(|attribute| attribute.oid == COMMON_NAME);
    let mut names: Vec<String> = attributes
        .filter_map(|attribute| attribute.value.decode_as::<DirectoryString>().ok())
        .map(|name| name.value().into_owned())
        .collect();
    if let Ok(Some((_, SubjectAltName(others)))) = content.get_extension::<SubjectAltName>() {
        names.extend(others.iter().filter_map(|other| match other {
            GeneralName::DnsName(name)
            | GeneralName::Rfc822Name(name)
            | GeneralName::UniformResourceIdentifier(name) => Some(name.as_str().to_owned()),
            _ => None,
        }));
    }
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType};

    use super::*;

    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        change(&mut params);
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").der().to_vec()
    }

    #[test]
    fn common_and_alternative_names_are_found_once() {
        let der = certificate(|params| {
            params.distinguished_name.push(DnType::OrganizationName, "no name of the client");
            params.distinguished_name.push(DnType::CommonName, "häuser");
            params.subject_alt_names = vec![
                SanType::DnsName("a.example.org".try_into().expect("a name")),
                SanType::Rfc822Name("a@example.org".try_into().expect("a name")),
                SanType::URI("spiffe://example.org/a".try_into().expect("a name")),
                SanType::IpAddress([127, 0, 0, 1].into()),
                SanType::DnsName("a.example.org".try_into().expect("a name")),
            ];
        });
        let names = ["häuser", "a.example.org", "a@example.org", "spiffe://example.org/a"];
        assert_eq!(names_of(&der), names);
        let printable = DnValue::PrintableString("host 7".try_into().expect("a name"));
        let der = certificate(|params| params.distinguished_name.push(DnType::CommonName, printable));
        assert_eq!(names_of(&der), ["host 7"]);
    }

    #[test]
    fn what_is_no_certificate_has_no_names() {
        let der = certificate(|params| params.distinguished_name.push(DnType::CommonName, "x"));
        for end in 0..der.len() {
            assert!(names_of(&der[..end]).is_empty(), "cut at {end}");
        }
        for at in 0..der.len() {
            let mut flipped = der.clone();
            flipped[at] ^= 0x41;
            let _ = names_of(&flipped);
        }
    }
}
